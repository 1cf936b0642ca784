"""Texts that stand more than once: exact, near, counted on disk."""
