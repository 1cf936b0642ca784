"""The OpenAI-compatible server: requests in, tokens out, every one of them charged before it is drawn."""
