"""What one event costs: a file an event."""
