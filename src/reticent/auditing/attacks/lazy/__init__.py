"""How likely training records are to be emitted, and which are at most risk."""
