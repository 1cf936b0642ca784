"""Audits of one run whose members were chosen by coins: gradient canaries, and canaries in the text."""
