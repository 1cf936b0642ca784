"""Layer 2: plans, per-record gradients, the training loop, checkpoints."""
