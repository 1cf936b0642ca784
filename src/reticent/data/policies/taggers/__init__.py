"""Taggers of others behind our protocol: spaCy, Presidio, and one tagger per language."""
