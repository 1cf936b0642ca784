"""Layer 2: private prediction mechanisms as pure functions on arrays, and the predictor."""
