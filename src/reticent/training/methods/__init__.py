"""Redacted and selective training, and the members of an ensemble."""
