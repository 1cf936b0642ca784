"""What a guarantee allows: leakage in bits, ceilings of metrics, trade-offs, conversions, confidentiality."""
