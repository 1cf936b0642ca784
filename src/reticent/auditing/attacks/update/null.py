"""The null of an update: what the same search finds between snapshots that never saw the update's text.

Each **null snapshot** is made from the snapshot before as the one after was (same recipe, another seed), without
the text in question. The very search of the update is run between the snapshot before and each of m null snapshots,
and keeps each one's highest score. If the update's text left no trace, the snapshot after is one more of them, and

    p = (1 + #{null ≥ observed}) / (1 + m)

is at most α with chance at most α. Since each null is the *highest* score of a whole search, p holds for all
phrases of the search together (Westfall and Young's single-step maximum): no further correction over phrases is
needed.

p is never below 1/(1 + m). With fewer than 1/α − 1 null snapshots nothing can be decided at level α, and nothing
is: `NullTest.is_above` is None. The highest of a single null pair, for one, is passed every second time by chance.

The records of an update are judged in the same way, by the windows inside them. Every update on text of a kind
makes the common phrases of that kind likelier, so a window counts by how far it passes what is usual for it:

    excess of window w in snapshot i  =  DS_i(w) − median over all m + 1 snapshots of DS(w)
    statistic of snapshot i           =  highest excess of all windows of all records

The median takes all m + 1 snapshots alike, so that the statistics are exchangeable if the text left no trace, and p
holds for all records together.

The highest window of **untouched text** between the two snapshots shows how far ordinary phrases drift. It is shown
as a scale and decides nothing.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.score import Snapshots
from reticent.core.arrays import Floats
from reticent.core.errors import ModelError
from reticent.core.model import LanguageModel

T = TypeVar("T")
_SLACK = 1e-9  # level · (1 + m) is a whole number in exact arithmetic more often than in floating point
_TOGETHER = 1 << 16  # windows


@dataclass(frozen=True, slots=True)
class Highest:
    """The highest score among so many phrases."""

    score: float
    phrases: int


@dataclass(frozen=True, slots=True)
class NullTest:
    """Highest scores of the null snapshots, and the level at which an observed score is judged by them."""

    nulls: tuple[Highest, ...]
    level: float

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"a level in (0, 1) is needed, found {self.level}")

    @property
    def needed(self) -> int:
        """The fewest null snapshots with which anything can be decided at this level."""
        return math.ceil(1.0 / self.level - _SLACK) - 1

    @property
    def decides(self) -> bool:
        """Whether there are enough null snapshots for a verdict."""
        return len(self.nulls) >= self.needed

    def p_value(self, score: float) -> float:
        """Chance that the search finds so high a score without the update's text.

        Guarantee: at most p with chance at most p, where the snapshot after is exchangeable with the nulls.
        """
        return (1 + sum(null.score >= score for null in self.nulls)) / (1 + len(self.nulls))

    def is_above(self, score: float) -> bool | None:
        """Whether p is at most the level; None where too few null snapshots can decide that."""
        limit = self.limit
        return None if limit is None else bool(score > limit)

    @property
    def limit(self) -> float | None:
        """The score that must be passed for p ≤ level, and never below that of a phrase that did not change.

        With k the whole part of level · (1 + m), p ≤ level where fewer than k nulls reach the score: where it lies
        above the k-th highest.
        """
        if not self.decides:
            return None
        k = math.floor(self.level * (1 + len(self.nulls)) + _SLACK)
        return max(0.0, sorted((null.score for null in self.nulls), reverse=True)[k - 1])


@dataclass(frozen=True, slots=True)
class WindowExcess:
    """How far each record's windows pass what is usual for them: the highest excess [n] of each, and its place [n].

    A record without a window has an excess of −∞ and the place 0.
    """

    excess: Floats
    places: NDArray[np.int64]
    nulls: tuple[Highest, ...]  # the highest excess of all records in each null snapshot


def window_excess(observed: Sequence[Floats], nulls: Sequence[Sequence[Floats]]) -> WindowExcess:
    """The excess of every record, from the scores of all its windows, with the snapshot after and with every null.

    Without null snapshots the scores themselves are given.
    """
    excess, places = np.full(len(observed), -np.inf), np.zeros(len(observed), dtype=np.int64)
    highest = np.full(len(nulls), -np.inf)
    for begin, end in _blocks(list(map(len, observed))):
        block = slice(begin, end)
        together = np.stack([np.concatenate(each[block]) for each in (observed, *nulls)])  # [1 + m, windows]
        beyond = together - np.median(together, axis=0) if nulls else together
        highest = np.maximum(highest, beyond[1:].max(axis=1, initial=-np.inf))
        last = 0
        for record, own in enumerate(observed[block], begin):
            if len(own):
                windows = beyond[0, last : last + len(own)]
                places[record], excess[record] = windows.argmax(), windows.max()
                last += len(own)
    count = sum(map(len, observed))
    return WindowExcess(excess, places, tuple(Highest(float(one), count) for one in highest))


def _blocks(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of records that have about so many windows together: one median of many is far quicker than one each."""
    begin = held = 0
    for end, length in enumerate(lengths, 1):
        held += length
        if held >= _TOGETHER or end == len(lengths):
            yield begin, end
            begin, held = end, 0


def null_measures(
    pair: Snapshots,
    nulls: Iterable[LanguageModel],
    measure: Callable[[Snapshots], T],
    *,
    removed: bool = False,
) -> tuple[T, ...]:
    """What is measured with each null snapshot in the place of the one after.

    `pair` is as it is searched: with `removed` its roles are swapped already, and the null takes the first place.
    Snapshots that cannot be a null are refused: the two of the update, and one that was given before.
    """
    kept = pair.after if removed else pair.before
    seen = {pair.before.fingerprint: pair.before.name, pair.after.fingerprint: pair.after.name}
    found = []
    for null in nulls:
        if null.fingerprint in seen:
            raise ModelError(
                f"the null '{null.name}' is the same model as '{seen[null.fingerprint]}'",
                hint="give distinct snapshots, each trained from another seed without the update's text",
            )
        seen[null.fingerprint] = null.name
        found.append(measure(Snapshots(null, kept) if removed else Snapshots(kept, null)))
    return tuple(found)
