"""The LSTM of the papers."""
