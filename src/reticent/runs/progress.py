"""How work on many items is watched: the items pass through, and whoever watches draws a bar."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Track(Protocol):
    """Passes items on while someone counts them; `total` where it is known."""

    def __call__(self, items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]: ...


def untracked(items: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:  # noqa: ARG001
    """No observer is attached."""
    return iter(items)
