"""What is told by its words: names, places and organisations, capitals, and how common a word is."""
