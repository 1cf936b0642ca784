"""Noisy aggregates of the parts: subsample-and-aggregate with Laplace noise, and GNMax on votes.

**Subsample-and-aggregate**: the mean of k pmfs moves by at most 2/k in L1 when a part changes (the printed 1/k is
half of it). Laplace noise of scale b on every entry, then negative entries are cut, the rest is normalised and a
share of the public model is mixed in, which costs nothing and keeps losses finite.

**GNMax**: every part votes for its likeliest token on the public support, Gaussian noise σ on every count, the
winner is released. Its distribution is an exact one-dimensional integral (`noisy_vote.log_outcome_chances`), from
which the token is drawn and perplexity is taken. Without `counted` each answer costs one, at the worst-case price;
with it an answer costs the data-dependent price at one order, an instance-level promise.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from reticent.accounting.prices.noisy_vote import log_outcome_chances, noisy_vote_epsilon
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import Event, Laplace, NoisyVote, RealisedCharge
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import (
    ANSWERS,
    Layout,
    Moment,
    Release,
    can_pay,
    renyi_measure,
    uniform_costs,
)
from reticent.prediction.mechanisms.shaping import Shaping


@dataclass(frozen=True, slots=True)
class SubsampleAndAggregate:
    """Laplace noise of scale `scale` on each entry of the mean pmf; `public_share` of the public model after it."""

    name: ClassVar[str] = "subsample-and-aggregate"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = 1.0

    layout: Layout
    scale: float
    public_share: float = 0.1
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not 0.0 <= self.public_share <= 1.0:
            raise ConfigError("the public share must be in [0, 1]", found=self.public_share)
        _ = self.event

    @property
    def event(self) -> Laplace:
        """The price of one answer for adding or removing a part: L1 distance 2/k over the scale."""
        return Laplace(0.5 * self.scale * self.layout.parts)

    @property
    def replace_event(self) -> Laplace:
        """The same for replacing a part, whose accountant doubles the distance: the mean still moves by 2/k."""
        return Laplace(self.scale * self.layout.parts)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:
        """One token from the noisy mean, or of the public model once the answers are spent.

        Guarantee: noise of the stated scale is added to every entry of the mean; the rest is post-processing.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        mean = self.layout.part_pmfs(shaped.private).mean(axis=0)
        uniform = randomness.uniform(mean.shape) - 0.5
        noise = -self.scale * np.sign(uniform) * np.log1p(-2.0 * np.abs(uniform))
        noisy = np.maximum(mean + noise, 0.0)
        total = noisy.sum()
        projected = noisy / total if total > 0.0 else shaped.public
        pays = can_pay(moment, 1.0)
        share = self.public_share if pays else 1.0
        pmf = share * shaped.public + (1.0 - share) * projected
        return Release(shaped.spread(pmf), uniform_costs(self.layout.parts, float(pays)), self.event)


@dataclass(frozen=True, slots=True)
class GNMax:
    """Votes with Gaussian noise. `counted` charges the price of the actual votes at `order`."""

    layout: Layout
    noise: float
    counted: bool = False
    order: float = 2.0
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not 1.0 < self.order < float("inf"):
            raise ConfigError("GNMax has a finite price at finite orders only", found=f"order {self.order:g}")
        _ = self.event

    @property
    def name(self) -> str:
        """Short name for tables."""
        return "gnmax-counted" if self.counted else "gnmax"

    @property
    def measure(self) -> str | None:
        """Answers at the worst-case price, or Rényi nats where the actual votes are priced."""
        return renyi_measure(self.order) if self.counted else ANSWERS

    @property
    def price(self) -> float | None:
        """One answer, or None where the actual votes are priced."""
        return None if self.counted else 1.0

    @property
    def event(self) -> NoisyVote:
        """One answer whatever the votes."""
        return NoisyVote(self.noise)

    def votes(self, parts: Floats) -> tuple[int, ...]:
        """How many of the parts' pmfs [k, S] have their greatest entry at each token [S]; ties by token id."""
        return tuple(np.bincount(parts.argmax(axis=1), minlength=parts.shape[1]).tolist())

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """The exact distribution of the noisy winner, or the public model once the budget is spent.

        Guarantee: the pmf is that of the argmax of the votes plus independent Gaussian noise of deviation σ.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        counts = self.votes(self.layout.part_pmfs(shaped.private))
        winner = np.exp(log_outcome_chances(counts, self.noise))
        winner /= winner.sum()
        cost = self._cost(counts)
        pays = can_pay(moment, cost) and not moment.stopped
        pmf = winner if pays else shaped.public
        event: Event = self.event
        if self.counted:
            event = RealisedCharge(self.order, cost if pays else 0.0)
        costs = uniform_costs(self.layout.parts, cost if pays else 0.0)
        return Release(shaped.spread(pmf), costs, event, self.counted and not pays)

    def _cost(self, counts: tuple[int, ...]) -> float:
        if not self.counted or len(counts) < 2:
            return 1.0 if not self.counted else 0.0
        return noisy_vote_epsilon(NoisyVote(self.noise, counts), self.order, self.neighbours)
