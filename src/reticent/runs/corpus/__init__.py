"""What is done with a corpus before training: scan, scrub, dedup, plant."""
