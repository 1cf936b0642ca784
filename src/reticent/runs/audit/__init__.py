"""Audits: a plan of attacks on a subject, their findings, the gate."""
