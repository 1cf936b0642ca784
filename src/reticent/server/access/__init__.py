"""Who may ask, and for how many tokens: API keys and their quotas."""
