"""Confidentially redacted training."""
