"""Layer 1: events priced into curves and guarantees, leakage bounds, ceilings, the durable ledger. No torch."""
