"""OpenAI-compatible answers within a budget."""
