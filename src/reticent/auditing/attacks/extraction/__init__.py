"""Training text that comes out of a model."""
