"""What is proved of each record by itself: individual accounting (Feldman and Zrnic 2021) by filters.

DP-SGD's ε is that of a record whose gradient is clipped in every step. Where a record's contribution to step t is
held to c_t < C, and c_t follows from the record and from what was released before, that step costs it less: D_a of
a sampled Gaussian with noise σC/c_t. How the sum over the steps ends is random, and a random sum bounds nothing by
itself. A filter does: in the run that leaves the record out as soon as its sum at order a would pass B, the record
has (a, B)-Rényi privacy, and that run is the actual one wherever the sum stayed within B. So, by Markov's
inequality, with chance 1 − δ/M over the run

    | log P(all that was released, with the record) / P(the same, without it) |  ≤  B + log(M/δ)/(a − 1)

and for M filters that were fixed in advance all at once with chance 1 − δ. A record gets the least bound among the
filters that its sum has kept.

κ copies of one text are one contribution of at most κ c_t, made with chance 1 − (1 − q)^κ: mixtures with the same
weights on both sides are no further apart than their parts. Where that is more than what holds for any κ records
(`sampled_group`), the latter is the bound.

The bound follows from the record's own gradients, so it is as private as the record: for the operator's eyes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.groups import group_event
from reticent.accounting.guarantees import epsilons
from reticent.accounting.prices.sampled_gaussian import sampled_gaussian_epsilon
from reticent.core.arrays import Floats
from reticent.core.event import Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours

Counts = NDArray[np.int64]

_ORDERS: Final = tuple(1.0 + np.geomspace(0.05, 500.0, 40))
_RUNGS: Final = tuple(2.0 ** (rung / 4.0) for rung in range(-28, 1))  # of the ε that holds for everyone


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps a record's divergence of one order within `renyi`; then its loss is within `epsilon`."""

    order: float
    renyi: float
    epsilon: float


@dataclass(frozen=True)
class IndividualPrice:
    """Bounds for single records of a run of Poisson-sampled Gaussian steps, units added or removed.

    `shares` [L] are the levels that a contribution may be held to, as shares of the clip norm, the greatest first.
    `epsilon` is what the run proves of everyone at `delta`.
    """

    step: SampledGaussian
    shares: tuple[float, ...]
    steps: int
    delta: float
    epsilon: float

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0 or not 0.0 < self.epsilon < math.inf:
            raise ValueError("individual accounting needs an epsilon and a delta to start from")
        if not all(0.0 < share <= 1.0 for share in self.shares):
            raise ValueError("a level is a share of the clip norm")

    def epsilons(self, counts: Counts, *, copies: int = 1) -> Floats:
        """ε [n] at `delta` of records by their steps at each level [n, L], or of a text that all `copies` have.

        Guarantee: where ε is below what holds for everyone, then with chance 1 − `delta` over the run everything
        that it released is at most e^ε times as likely with the record (or the text) as without it, and the
        reverse; elsewhere (ε, `delta`)-differential privacy, as for everyone.
        """
        if copies < 1 or counts.shape[1:] != (len(self.shares),):
            raise ValueError("a record has a number of steps for each level, and at least one copy")
        if (counts.sum(1) > self.steps).any():
            raise ValueError("a record cannot take part in more steps than there are")
        everyone = self.epsilon if copies == 1 else self._everyone(copies)
        found = np.full(len(counts), everyone)
        for each in self._filters(everyone, copies):
            prices = np.array([self._price(share, each.order, copies) for share in self.shares])
            kept = counts @ prices <= each.renyi  # [n]
            found[kept] = np.minimum(found[kept], each.epsilon)
        return found

    def _everyone(self, copies: int) -> float:
        """ε at `delta` of any text with so many copies."""
        group = group_event(Repeated(self.step, self.steps), copies)
        if group is None:
            return math.inf
        return epsilons(group, delta=self.delta, neighbours=Neighbours.ADD_REMOVE).least

    def _filters(self, everyone: float, copies: int) -> Sequence[Filter]:
        """A filter for each rung: at the order at which a record may stay at the greatest level throughout."""
        scale = everyone if everyone < math.inf else copies * self.epsilon
        slack = np.array([math.log(len(_RUNGS) / self.delta) / (order - 1.0) for order in _ORDERS])  # [A]
        table = self._prices(copies)  # [L, A]
        chosen = []
        for epsilon in (rung * scale for rung in _RUNGS):
            room = epsilon - slack  # B at each order [A]
            used = np.full(table.shape, math.inf)  # of B, by a record that stays at one level; at most 1 is kept
            np.divide(self.steps * table, room, out=used, where=room > 0.0)
            kept = np.flatnonzero(used.min(axis=1) <= 1.0)
            if len(kept):
                best = int(used[kept[0]].argmin())
                chosen.append(Filter(_ORDERS[best], float(room[best]), epsilon))
        return chosen

    def _prices(self, copies: int) -> Floats:
        """D_a of one step at each level and order [L, A]."""
        return np.array([[self._price(share, order, copies) for order in _ORDERS] for share in self.shares])

    def _price(self, share: float, order: float, copies: int) -> float:
        """D_a of one step for a text of so many copies, each held to this share of the clip norm."""
        rate = self.step.sampling_rate
        drawn = rate if copies == 1 else -math.expm1(copies * math.log1p(-rate)) if rate < 1.0 else 1.0
        noise = self.step.noise_multiplier / (copies * share)
        return sampled_gaussian_epsilon(noise, drawn, order=order, neighbours=Neighbours.ADD_REMOVE)
