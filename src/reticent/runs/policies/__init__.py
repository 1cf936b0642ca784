"""Policies by name, and the taggers that need torch: token classifiers and GLiNER."""
