"""A ledger that several machines share, in PostgreSQL."""
