"""What the sections of a report say."""
