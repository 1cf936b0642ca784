"""Bounds from parameters alone."""
