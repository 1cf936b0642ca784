"""Two attacks on the same targets: does the first hit more than the second? Exact, with owners as independent.

Targets that both hit, or both miss, say nothing. For owner i let d_i be the hits of the first less those of the
second. If neither attack is better, exchanging the two within an owner changes nothing, so that d_i is as likely as
−d_i:

    p = P[Σ ±|d_i| ≥ Σ d_i],   signs by fair coins; computed by convolution, not sampled

Owners of one target each make it McNemar's (1947) exact test: a binomial tail over the targets that differ. The
interval of the difference of the two shares is a product, each factor with half of the error: the share of targets
that differ, and among those the share of the first (`core.statistics.proportion`, by owner).
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.auditing.metrics.intervals import shared_confidence
from reticent.core.statistics.proportion import Share


@dataclass(frozen=True, slots=True)
class Paired:
    """Hits of two attacks on the same targets, and whose targets these are."""

    first: tuple[bool, ...]
    second: tuple[bool, ...]
    owners: tuple[Hashable, ...]

    @classmethod
    def of(cls, first: Iterable[bool], second: Iterable[bool], owners: Sequence[Hashable]) -> "Paired":
        """Outcomes in the order of the targets; no target is no data."""
        paired = cls(tuple(map(bool, first)), tuple(map(bool, second)), tuple(owners))
        if not paired.first or not len(paired.first) == len(paired.second) == len(paired.owners):
            raise ValueError("a paired test needs two outcomes and an owner for each of at least one target")
        return paired

    @property
    def counts(self) -> tuple[int, int]:
        """Targets that the first alone hits, and the second alone."""
        pairs = list(zip(self.first, self.second, strict=True))
        return pairs.count((True, False)), pairs.count((False, True))

    @property
    def difference(self) -> float:
        """Share of the first less that of the second."""
        alone, other = self.counts
        return (alone - other) / len(self.first)

    @property
    def p_value(self) -> float:
        """Chance of such a lead of the first, or a greater one, if neither were better.

        Guarantee: at most p with chance at most p, for owners whose outcomes may be exchanged between the attacks.
        """
        leads: dict[Hashable, int] = {}
        for mine, other, owner in zip(self.first, self.second, self.owners, strict=True):
            leads[owner] = leads.get(owner, 0) + mine - other
        total, chances = sum(leads.values()), np.ones(1)
        for size in (abs(lead) for lead in leads.values() if lead):
            # From the chances of the sums −s … s to those with one more ±size.
            step = np.zeros(2 * size + 1)
            step[[0, -1]] = 0.5
            chances = np.convolve(chances, step)
        middle = len(chances) // 2
        return min(1.0, float(chances[middle + total :].sum()))

    def could_pass(self, *, confidence: float) -> bool:
        """Whether a lead on every target would be distinguishable from chance."""
        return 0.5 ** len(set(self.owners)) <= 1.0 - confidence

    def interval(self, *, confidence: float) -> tuple[float, float]:
        """Two-sided interval of the difference."""
        each = shared_confidence(confidence, 2)
        differs = [mine != other for mine, other in zip(self.first, self.second, strict=True)]
        least, most = Share.of(differs, self.owners).interval(confidence=each)
        kept = [place for place, is_kept in enumerate(differs) if is_kept]
        leads = Share.of([self.first[place] for place in kept], [self.owners[place] for place in kept])
        low, high = (2.0 * end - 1.0 for end in leads.interval(confidence=each))
        return low * (least if low > 0.0 else most), high * (most if high > 0.0 else least)
