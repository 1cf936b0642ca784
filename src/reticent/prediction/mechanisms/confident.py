"""Confident-GNMax (Papernot et al. 2018, Algorithm 1): the parts answer where a noisy check finds that they agree.

Every part votes for its likeliest token on the public support. Before each answer a check asks whether the leader
has enough of the votes n:

    max_y n(y) + N(0, σ₁²) ≥ T.

One part that becomes public or is replaced moves the leader's votes by at most 1, so a check costs a/(2σ₁²) at
order a. Where it passes, the noisy winner of the same votes (GNMax, σ₂) is the answer, which costs a/σ₂² more; else
the public model answers, which costs nothing more. A share of the public model is mixed into the winner's
distribution, free of charge, so that losses stay finite.

Both prices are a number times the order, so a ledger can count them in one unit, that of an answer: a check costs
σ₂²/(2σ₁²) of it. Whether a check passed is taken to be released: what is left then follows from the releases alone,
and the price of so many answers bounds every mixture of checks and answers that the budget allows, at every order.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from reticent.accounting.prices.noisy_vote import check_chances, log_outcome_chances
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import Composed, Event, NoisyCheck, NoisyVote
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import ANSWERS, Layout, Moment, Release, can_pay, uniform_costs
from reticent.prediction.mechanisms.shaping import Shaped, Shaping

_ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True, slots=True)
class ConfidentGNMax:
    """The winner of the parts' votes where a noisy check finds that they agree, else the public model.

    `threshold` is a number of parts; `public_share` of the public model is mixed into every winner.
    """

    name: ClassVar[str] = "confident-gnmax"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = None  # a check alone, or an answer with it

    layout: Layout
    check_noise: float
    noise: float
    threshold: float
    public_share: float = 0.3
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not 0.0 <= self.public_share <= 1.0:
            raise ConfigError("the public share must be in [0, 1]", found=self.public_share)
        if not math.isfinite(self.threshold):
            raise ConfigError("the threshold of a check must be finite", found=self.threshold)
        _ = self.check, self.answer

    @property
    def check(self) -> NoisyCheck:
        """What every question releases."""
        return NoisyCheck(self.check_noise)

    @property
    def answer(self) -> NoisyVote:
        """What a question that passes the check releases beside it."""
        return NoisyVote(self.noise)

    @property
    def check_cost(self) -> float:
        """The price of a check in answers."""
        return self.noise**2 / (2.0 * self.check_noise**2) * _ROUNDING

    def votes(self, shaped: Shaped) -> tuple[int, ...]:
        """How many of the parts find each token [S] likeliest; ties of a part go by token id."""
        parts = self.layout.part_pmfs(shaped.private)
        return tuple(np.bincount(parts.argmax(axis=1), minlength=parts.shape[1]).tolist())

    def check_pmf(self, counts: tuple[int, ...]) -> Floats:
        """The chances [2] that votes fail the check, and that they pass it."""
        return check_chances(max(counts), threshold=self.threshold, noise=self.check_noise)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:
        """The winner's distribution or the public model's, as a draw of the check has it.

        The public model answers, unchecked, once the budget does not hold a check and an answer.

        Guarantee: the outcome of the check is a draw with the chance that Gaussian noise of deviation σ₁ gives it,
        and the pmf of a winner is that of votes with Gaussian noise of deviation σ₂, post-processed.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        if not can_pay(moment, 1.0 + self.check_cost):
            return self._answered(shaped.public, shaped, 0.0, Composed(()))
        counts = self.votes(shaped)
        if not randomness.choice(self.check_pmf(counts)):
            return self._answered(shaped.public, shaped, self.check_cost, self.check)
        winner = np.exp(log_outcome_chances(counts, self.noise))
        pmf = self.public_share * shaped.public + (1.0 - self.public_share) * winner / winner.sum()
        return self._answered(pmf, shaped, 1.0 + self.check_cost, Composed((self.check, self.answer)))

    def _answered(self, pmf: Floats, shaped: Shaped, cost: float, event: Event) -> Release:
        return Release(shaped.spread(pmf), uniform_costs(self.layout.parts, cost), event)
