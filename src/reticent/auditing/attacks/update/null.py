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

Phrases of **untouched text**, scored between the two snapshots, show how far ordinary phrases drift. They are a
sample, whereas a search picks the best of |T|^n: they are shown as a scale and decide nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reticent.auditing.attacks.update.bounded_search import find_phrases
from reticent.auditing.attacks.update.score import Snapshots
from reticent.auditing.attacks.update.search import BeamSettings
from reticent.core.corpus import Record
from reticent.core.errors import ModelError
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness

_SLACK = 1e-9  # level · (1 + m) is a whole number in exact arithmetic more often than in floating point


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


def null_scores(
    pair: Snapshots, nulls: Iterable[LanguageModel], *, settings: BeamSettings, removed: bool = False
) -> tuple[Highest, ...]:
    """The highest score of the same search with each null snapshot in the place of the one after.

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
        beam = find_phrases(Snapshots(null, kept) if removed else Snapshots(kept, null), settings)
        found.append(Highest(float(beam.scores[0]), len(beam.scores)))
    return tuple(found)


def untouched_scores(
    pair: Snapshots, records: Iterable[Record], *, settings: BeamSettings, randomness: Randomness, most: int = 2000
) -> Highest | None:
    """The highest score of phrases of untouched text, at most `most` drawn; None where no text is long enough."""
    drawn = sample_phrases(pair.before, records, length=settings.length, most=most, randomness=randomness)
    if not drawn:
        return None
    scores = [one.by(settings.score) for one in pair.score(drawn, prefix=settings.prefix)]
    return Highest(max(scores), len(scores))


def sample_phrases(
    model: LanguageModel, records: Iterable[Record], *, length: int, most: int, randomness: Randomness
) -> Sequence[tuple[int, ...]]:
    """Distinct phrases of `length` tokens from the records, at most `most`, every one equally likely."""
    phrases: dict[tuple[int, ...], None] = {}
    for record in records:
        (tokens,) = model.encode([record.text])
        for start in range(len(tokens) - length + 1):
            phrases[tuple(tokens[start : start + length])] = None
    listed = list(phrases)
    return [listed[int(place)] for place in randomness.permutation(len(listed))[:most]]
