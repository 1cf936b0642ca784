"""Extraction, reconstruction and inference of personal data."""
