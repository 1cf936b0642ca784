"""One private training on several processes."""
