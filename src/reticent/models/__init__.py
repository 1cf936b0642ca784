"""Layer 1: adapters behind the LanguageModel protocol: Hugging Face, LSTM, n-gram, remote."""
