"""The two intervals that nearly every number rests on: of a rate, and of a mean over texts."""
