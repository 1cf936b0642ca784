"""Layer 0: the nouns and protocols of the system, the one Rényi divergence, randomness and errors.

Imports numpy and the standard library, nothing else of ours.
"""
