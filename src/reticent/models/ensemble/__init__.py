"""Many adapters of one base, read in one batch."""
