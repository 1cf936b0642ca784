"""Attacks give scores, metrics give findings; models are known through their protocol alone."""
