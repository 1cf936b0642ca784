"""SubMix."""
