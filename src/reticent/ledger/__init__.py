"""What was spent, durably: budgets, a chain of charges, its witness, SQLite and PostgreSQL."""
