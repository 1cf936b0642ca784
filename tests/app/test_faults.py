"""What the machine refuses, what is not there, and numbers that make no sense: one sentence and exit code 2."""
