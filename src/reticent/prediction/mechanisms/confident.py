"""Confident-GNMax (Papernot et al. 2018, Algorithm 1), fitted to text: the parts answer where they agree.

Before every answer a noisy check asks whether enough of the parts agree on something that the public model does
not say:

    A = max_y Σ_i (h_i(y) − r(y)),     A + N(0, σ₁²) ≥ T.

One part that becomes public or is replaced moves every sum, hence A, by at most 1, so a check costs a/(2σ₁²) at
order a. (The paper's check, of the plurality, costs the same, and is also passed where the public model says the
same.) Where it passes, the noisy winner of the parts' votes (GNMax, σ₂) is the answer, which costs a/σ₂² more;
else the public model answers, which costs nothing more. A share of the public model is mixed into the winner's
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
    public_share: float = 0.1
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

    def check_pmf(self, shaped: Shaped) -> Floats:
        """The chances [2] that a question fails its check, and that it passes."""
        parts = self.layout.part_pmfs(shaped.private)
        agreement = float((parts - shaped.public).sum(axis=0).max())
        return check_chances(agreement, threshold=self.threshold, noise=self.check_noise)

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
        if not randomness.choice(self.check_pmf(shaped)):
            return self._answered(shaped.public, shaped, self.check_cost, self.check)
        pmf = self.public_share * shaped.public + (1.0 - self.public_share) * self._winner(shaped)
        return self._answered(pmf, shaped, 1.0 + self.check_cost, Composed((self.check, self.answer)))

    def _winner(self, shaped: Shaped) -> Floats:
        """The exact distribution of the noisy winner [S]; ties of a part go by token id."""
        parts = self.layout.part_pmfs(shaped.private)
        counts = np.bincount(parts.argmax(axis=1), minlength=parts.shape[1])
        chances = np.exp(log_outcome_chances(counts.tolist(), self.noise))
        return np.asarray(chances / chances.sum())

    def _answered(self, pmf: Floats, shaped: Shaped, cost: float, event: Event) -> Release:
        return Release(shaped.spread(pmf), uniform_costs(self.layout.parts, cost), event)
