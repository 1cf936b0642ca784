"""From settings to a run directory and back."""
