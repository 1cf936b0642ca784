"""Null worlds with owners: texts of one owner are alike, and none of them was trained on.

131 owners of one to twelve texts, split by owner into members and non-members, as people are who are in a corpus or
not. Scores are an owner's own level plus noise. Nothing leaks: whoever alarms is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OWNERS = 131
MOST_TEXTS = 12


@dataclass(frozen=True)
class World:
    """Scores, labels and owners of all texts, and whether each is emitted."""

    scores: NDArray[np.float64]
    is_member: NDArray[np.bool_]
    owners: list[str]
    is_hit: NDArray[np.bool_]

    def side(self, member: bool) -> tuple[list[bool], list[str]]:
        """Hits and owners of one side."""
        places = np.flatnonzero(self.is_member == member)
        return self.is_hit[places].tolist(), [self.owners[place] for place in places]


def null_world(seed: int, *, alike: float = 0.5, rate: float = 0.1, owners: int = OWNERS) -> World:
    """A world in which the share `alike` of a score's variance is its owner's; the highest `rate` are hits."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, MOST_TEXTS + 1, owners)
    whose = np.repeat(np.arange(owners), sizes)
    level = generator.normal(size=owners)
    scores = np.sqrt(alike) * level[whose] + np.sqrt(1.0 - alike) * generator.normal(size=len(whose))
    inside = generator.permutation(owners) < owners // 2
    from scipy.special import ndtri

    return World(scores, inside[whose], [f"owner-{number}" for number in whose], scores > -ndtri(rate))


def alarm_rate(worlds: int, is_alarm: Callable[[World, int], bool], **settings) -> float:
    """Share of null worlds that raise an alarm."""
    return sum(is_alarm(null_world(seed, **settings), seed) for seed in range(worlds)) / worlds
