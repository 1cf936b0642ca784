"""Whether a record was trained on."""
