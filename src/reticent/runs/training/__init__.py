"""Training runs: settings, plan, run, resume."""
