"""Layer 2: attacks give scores, metrics give findings. Knows models only through their protocol."""
