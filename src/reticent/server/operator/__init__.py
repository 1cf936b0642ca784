"""What the operator sees: the ledger, spend of each part, tokens of each key."""
