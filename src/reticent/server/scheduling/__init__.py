"""Continuous batching: whose turn it is, and the texts as they grow."""
