"""How exposed planted canaries are."""
