"""What finds sensitive spans: patterns, word lists, taggers, and unions of them."""
