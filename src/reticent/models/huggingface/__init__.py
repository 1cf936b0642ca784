"""Causal language models of Hugging Face: loading, scoring, decoding, fingerprints."""
