"""What an update from one snapshot to the next reveals."""
