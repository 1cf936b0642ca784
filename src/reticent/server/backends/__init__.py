"""What a server answers from: an ensemble within its budget, or privately trained weights."""
