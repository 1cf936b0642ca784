"""The papers' figures and tables, beside the printed numbers."""
