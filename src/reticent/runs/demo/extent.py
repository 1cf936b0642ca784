"""How much of the story is told, by name; apart from the sizes, so that `--help` need not load what those need."""

from enum import StrEnum


class Extent(StrEnum):
    """How large the demo is."""

    QUICK = "quick"
    NORMAL = "normal"
    LARGE = "large"
