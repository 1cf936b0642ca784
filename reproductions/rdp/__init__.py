"""Defending against reconstruction."""
