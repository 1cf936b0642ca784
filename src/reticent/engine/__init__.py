"""Many pieces of work, on processes or on Ray."""
