"""SubMix-F, SubMix and rivals as pure functions."""
