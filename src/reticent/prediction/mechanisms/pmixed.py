"""PMixED (Flemings, Razaviyayn and Annavaram 2024): Poisson-drawn models within a radius of the public model.

Each of N parts is drawn with chance p; λ_i is the largest with D_a^sym(λ_i h_i + (1−λ_i) r ‖ r) ≤ βa; the drawn
mixtures are averaged, or r answers where none is drawn. The draw stays hidden, so the token's distribution is

    (1−p)^N r + (1−(1−p)^N)/N Σ p_i

exactly (E[1/n | part i drawn]·p = (1−(1−p)^N)/N), which is what is sampled here: same mechanism, no wasted draw.
Prices are those that `reticent.accounting.prices.subsampled_mixture` proves; the printed price is false. The number
of answers is fixed ahead and each costs one.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from reticent.accounting.mixing.charge import mixture_pmf
from reticent.accounting.mixing.curves import Pull
from reticent.accounting.prices.subsampled_mixture import influence
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import SubsampledMixture
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import ANSWERS, Layout, Moment, Release, can_pay, uniform_costs
from reticent.prediction.mechanisms.mixing_weight import radius_weights
from reticent.prediction.mechanisms.shaping import Shaping


@dataclass(frozen=True, slots=True)
class PMixED:
    """PMixED with radius βa at order a, each model drawn with chance `sampling_rate`."""

    name: ClassVar[str] = "pmixed"
    measure: ClassVar[str | None] = ANSWERS
    price: ClassVar[float | None] = 1.0

    layout: Layout
    beta: float
    order: float = 2.0
    sampling_rate: float = 1.0
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if self.order == float("inf"):
            raise ConfigError("PMixED needs a finite order", hint="submix-f and clipped-differences have order inf")
        _ = self.event

    @property
    def event(self) -> SubsampledMixture:
        """What one answer costs, in the terms of its proof."""
        return SubsampledMixture(self.layout.parts, self.sampling_rate, self.order, self.beta)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token of PMixED, or of the public model once the answers are spent.

        Guarantee: every part's mixture lies within βa of the public model at order a, both directions, as the
        price of `SubsampledMixture` assumes.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        parts = self.layout.part_rows(shaped.rows)
        weights = radius_weights(Pull(parts, shaped.public, self.order), self.order * self.beta)
        drawn = influence(self.event) * self.layout.parts  # chance that anyone is drawn
        pays = can_pay(moment, 1.0)
        pmf = mixture_pmf(parts, shaped.public, np.where(pays, drawn, 0.0) * weights, common=False)
        return Release(shaped.spread(pmf), uniform_costs(self.layout.parts, float(pays)), self.event)
