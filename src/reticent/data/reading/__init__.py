"""Corpora from files: formats, compression, tables."""
