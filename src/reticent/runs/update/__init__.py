"""What an update reveals, as a run."""
