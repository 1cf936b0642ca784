"""Clipped logit differences (InvisibleInk; Vinod, Pillutla and Thakurta 2025).

Logits r̂ + (1/B) Σ_i clip(ĥ_i − r̂, ±C) over B parts, sampled at temperature τ on a public support. A part that is
removed has difference 0, so log-ratios lie in an interval of length 2C/(Bτ): a bounded range, which is never dearer
than the printed zCDP price C²/(2B²τ²). The differences are of log-probabilities at temperature 1; τ divides their
sum. The number of answers is fixed ahead and each costs one.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import ExponentialSampling
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import ANSWERS, Layout, Moment, Release, can_pay, uniform_costs
from reticent.prediction.mechanisms.shaping import Shaping


@dataclass(frozen=True, slots=True)
class ClippedDifferences:
    """Clip each part's log-probability differences to ±`clip` before averaging them."""

    name: ClassVar[str] = "clipped-differences"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = 1.0

    layout: Layout
    clip: float
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not 0.0 < self.clip < float("inf"):
            raise ConfigError("the clipping bound must be positive and finite", found=self.clip)

    @property
    def event(self) -> ExponentialSampling:
        """Range 2C/(Bτ) of the log-ratios when one part's difference becomes 0."""
        return ExponentialSampling(2.0 * self.clip / (self.layout.parts * self.shaping.temperature))

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token from the clipped logits, or of the public model once the answers are spent.

        Guarantee: replacing any part's rows by the public model's moves every log-ratio within one interval of
        length 2C/(Bτ).
        """
        self.layout.require(rows)
        temperature = self.shaping.temperature
        plain = Shaping(1.0).shape(np.asarray(rows, dtype=np.float64))
        # The support is that of the tempered public model, as everywhere.
        tempered = self.shaping.shape(np.asarray(rows[:1], dtype=np.float64))
        with np.errstate(divide="ignore"):
            public, parts = np.log(plain.public), np.log(self.layout.part_pmfs(plain.private))
        difference = np.clip(parts - public, -self.clip, self.clip)  # [k, S]
        pays = can_pay(moment, 1.0)
        logits = (public + np.where(pays, 1.0, 0.0) * difference.mean(axis=0)) / temperature
        pmf = plain.spread(np.exp(logits - logits.max()))
        if tempered.support is not None:
            kept = np.zeros_like(pmf)
            kept[tempered.support] = pmf[tempered.support]
            pmf = kept
        pmf = pmf / pmf.sum()
        return Release(pmf, uniform_costs(self.layout.parts, float(pays)), self.event)
