"""Per-record gradients by book-keeping: one forward, one backward, norms and clipped sum from saved tensors."""
