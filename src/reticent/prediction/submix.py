"""SubMix (Ginart et al. 2022, Algorithm 2) and SubMix-F, the default: mixtures of parts with the public model.

**SubMix-F**: p_i = λ_i h_i + (1−λ_i) r, λ_i ≤ λmax < 1 public, answer (1/k) Σ p_i. Each part takes the largest λ_i
whose charge stays under a rolling cap, 1.5 times its remaining budget over the remaining horizon. A part whose
budget does not allow anything useful answers as the public model, for this token or for good; nobody can see it.

**SubMix**: λ_i is the largest weight at which the two halves of part i differ by at most β; the answer mixes with
the mean λ* (`common`) or with each λ_i. Charges are leave-one-out. A token whose charge would reach any part's
budget (strictly, as printed) is not charged, the protocol STOPs, and from then on the public model answers. Its
promise is instance-level; the stopping time, charges and weights are private.

Spent and healthy parts take the same arithmetic. Does not charge or draw: see `reticent.prediction.predictor`.
"""

from dataclasses import dataclass, field

import numpy as np

from reticent.accounting.mixing_charge import common_share
from reticent.accounting.mixing_excess import Pull, filtered_pmf_charges, leave_one_out_charges, mixture_pmf
from reticent.core.errors import ConfigError
from reticent.core.event import FilteredCharge, RealisedCharge
from reticent.core.model import Floats
from reticent.core.randomness import Randomness
from reticent.prediction.mechanism import Layout, Moment, Release, largest_cost, renyi_measure
from reticent.prediction.mixing_weight import filtered_weights, half_weights
from reticent.prediction.shaping import Shaping

HASTE = 1.5  # how much faster than evenly a part may spend what remains
_LEAST_CAP = 2.0**-40  # the ledger's unit: a smaller charge cannot be paid exactly
_MARGIN = 1.0 - 1e-9  # aim below the cap by more than the solver's rounding


@dataclass(frozen=True, slots=True)
class SubMixF:
    """SubMix-F at one order, with a public limit λmax of the mixing weights."""

    layout: Layout
    order: float = 2.0
    weight_limit: float = 0.5
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not self.order > 1.0:
            raise ConfigError("a Rényi order must be above 1", found=self.order)
        if not 0.0 < self.weight_limit < 1.0:
            raise ConfigError("the limit of the mixing weights must lie in (0, 1)", found=self.weight_limit)
        common_share(self.layout.parts, self.weight_limit)

    @property
    def name(self) -> str:
        """Short name for tables."""
        return "submix-f"

    @property
    def measure(self) -> str | None:
        """Rényi nats at its order, a part."""
        return renyi_measure(self.order)

    @property
    def price(self) -> float | None:
        """None: what an answer costs depends on the data."""
        return None

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token of SubMix-F.

        Guarantee: each cost is at least the Rényi divergence, in the worse direction, between this release and the
        same with that part replaced by the public model, whatever the other parts hold; it is a function of that
        part, the public model and the transcript, and never above what remains on the part's account.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        parts = self.layout.part_pmfs(shaped.private)  # [k, S]
        remaining = np.maximum(np.asarray(moment.remaining, dtype=np.float64), 0.0)
        caps = remaining * min(1.0, HASTE / max(moment.left, 1)) * _MARGIN
        pull = Pull(parts, shaped.public, self.order)
        weights = filtered_weights(pull, caps, parts=self.layout.parts, weight_limit=self.weight_limit)
        costs = filtered_pmf_charges(pull, weights, parts=self.layout.parts, weight_limit=self.weight_limit)
        fits = (caps >= _LEAST_CAP) & (costs <= remaining)
        weights, costs = np.where(fits, weights, 0.0), np.where(fits, costs, 0.0)
        pmf = mixture_pmf(parts, shaped.public, weights, common=False)
        return Release(shaped.spread(pmf), costs, FilteredCharge(self.order, largest_cost(costs)))


@dataclass(frozen=True, slots=True)
class SubMix:
    """Algorithm 2 at one order with target leakage β = `leakage`; `common` mixes with the mean weight λ*."""

    layout: Layout
    leakage: float
    order: float = 2.0
    common: bool = True
    shaping: Shaping = field(default_factory=Shaping)

    def __post_init__(self) -> None:
        if not self.order > 1.0:
            raise ConfigError("a Rényi order must be above 1", found=self.order)
        if not self.leakage > 0.0:
            raise ConfigError("the target leakage must be positive", found=self.leakage)
        if not self.layout.has_halves:
            self.layout.half_pmfs(np.empty((len(self.layout.rows), 1)))  # raises with a hint

    @property
    def name(self) -> str:
        """Short name for tables."""
        return "submix" if self.common else "submix-per-part"

    @property
    def measure(self) -> str | None:
        """Rényi nats at its order, a part."""
        return renyi_measure(self.order)

    @property
    def price(self) -> float | None:
        """None: what an answer costs depends on the data."""
        return None

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token of Algorithm 2, or of the public model once it has stopped.

        Guarantee: before the stop each cost is the divergence this very release has against the removal of that
        part, in the worse direction. Instance-level: nothing is said of other data.
        """
        self.layout.require(rows)
        shaped = self.shaping.shape(rows)
        parts = self.layout.part_pmfs(shaped.private)  # [k, S]
        first, second = self.layout.half_pmfs(shaped.private)
        weights = half_weights(first, second, shaped.public, order=self.order, leakage=self.leakage)
        costs = leave_one_out_charges(parts, shaped.public, weights, order=self.order, common=self.common)
        mixture = mixture_pmf(parts, shaped.public, weights, common=self.common)
        stops = moment.stopped or not bool((costs < moment.remaining).all())
        pmf = shaped.public if stops else mixture
        charged = np.zeros_like(costs) if stops else costs
        return Release(shaped.spread(pmf), charged, RealisedCharge(self.order, largest_cost(charged)), stops)
