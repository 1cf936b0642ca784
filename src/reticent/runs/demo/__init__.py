"""The whole story on generated dialogues."""
