"""The demo: one story on generated customer dialogues and a public model, offline, told by `reticent demo`."""
