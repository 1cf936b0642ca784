"""`reticent demo`: placeholder until training lands in this change."""


def demo() -> None:
    """The whole story on the embedded corpus."""
