"""Options of the verbs, each declared once: flags, TOML files, checks and pages come from the declaration."""
