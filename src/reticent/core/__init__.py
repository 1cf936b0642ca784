"""Layer 0: the nouns and protocols of the system, the Rényi divergence by definition, randomness and errors.

Imports numpy and the standard library, nothing else of ours.
"""
