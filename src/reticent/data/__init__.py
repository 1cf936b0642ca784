"""Layer 1: corpora in and out, policies, redaction, canaries, splits and corpus generators."""
