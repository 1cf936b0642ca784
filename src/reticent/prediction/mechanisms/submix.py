"""SubMix (Ginart et al. 2022, Algorithm 2) and SubMix-F, the default: mixtures of parts with the public model.

**SubMix-F**: p_i = λ_i h_i + (1−λ_i) r, λ_i ≤ λmax < 1 public, answer (1/k) Σ p_i. Each part takes the largest λ_i
whose charge stays under a rolling cap, three times its remaining budget over the remaining queries. A part whose
budget does not allow anything useful answers as the public model, for this token or for good; nobody can see it.

**SubMix**: λ_i is the largest weight at which the two halves of part i differ by at most β; the answer mixes with
the mean λ* (`common`) or with each λ_i. Charges are leave-one-out. A token whose charge would reach any part's
budget (strictly, as printed) is not charged, the protocol STOPs, and from then on the public model answers. Its
promise is instance-level; the stopping time, charges and weights are private.

Several texts of one turn are mixed by SubMix-F together where the vocabulary is small, since there most of the time
goes into calls and not into numbers. They mean what they mean one by one: a text may spend what those before it
leave. As a charge only grows with its weight, a text costs its cap at most, or what λmax costs where that is less;
so one look at λmax gives everybody's cap ahead, and one search all weights. Far from the end of the query budget
that look is spared: all before a text are taken to spend their caps, which gives it at most a twentieth less.
Either way a text gets no more than if those mixed with it came one by one, and what they leave of their caps waits
for the texts after them. What is really charged is held against what is really left, text by text, in whole units
of the ledger: a charge never passes what remains, whatever the search did.

Spent and healthy parts take the same arithmetic. Does not charge or draw: see `reticent.prediction.predictor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.mixing.charge import common_share, filtered_charges, leave_one_out_charges, mixture_pmf
from reticent.accounting.mixing.curves import Pull, texts_at_once
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import FilteredCharge, RealisedCharge
from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import (
    Layout,
    Mechanism,
    Moment,
    Release,
    in_units,
    largest_cost,
    renyi_measure,
)
from reticent.prediction.mechanisms.mixing_weight import filtered_weights, half_weights
from reticent.prediction.mechanisms.shaping import Rows, Shaped, Shaping, shape_together

HASTE = 3.0  # how much faster than evenly a part may spend what remains: most tokens cost less than their cap
_LEAST_CAP = 2.0**-40  # the ledger's unit: a smaller charge cannot be paid exactly
_MARGIN = 1.0 - 1e-9  # aim below the cap by more than the solver's rounding
_NEGLIGIBLE = 0.05  # of what remains: what the texts of a turn may spend while the end of the query budget is far


@dataclass(frozen=True, slots=True)
class SubMixF:
    """SubMix-F at one order, with a public limit λmax of the mixing weights."""

    name: ClassVar[str] = "submix-f"
    price: ClassVar[float | None] = None

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
    def measure(self) -> str | None:
        """Rényi nats at its order, a part."""
        return renyi_measure(self.order)

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token of SubMix-F.

        Guarantee: each cost is at least the Rényi divergence, in the worse direction, between this release and the
        same with that part replaced by the public model, whatever the other parts hold; it is a function of that
        part, the public model and the transcript, and never above what remains on the part's account.
        """
        return self.release_together(rows[None], [self.shaping], moment)[0]

    def is_like(self, other: Mechanism) -> bool:
        """Whether the other differs in its shaping at most."""
        return isinstance(other, SubMixF) and replace(other, shaping=self.shaping) == self

    def release_together(self, rows: Rows, shapings: Sequence[Shaping], moment: Moment) -> list[Release]:
        """One token for each of n texts; those with as many, and few, tokens to choose from are mixed together.

        Guarantee: that of `release` for every one of them, where what remains is what the texts before it leave.
        """
        self.layout.require(rows, axes=3)
        found: list[Release] = []
        for shaped in shape_together(rows, shapings, at_once=partial(texts_at_once, self.layout.parts)):
            new = self._mix(shaped, moment)
            moment = _after(moment, new)
            found += new
        return found

    def _mix(self, shaped: Shaped, moment: Moment) -> list[Release]:
        """Releases of texts that have as many tokens to choose from."""
        count, limit = self.layout.parts, self.weight_limit
        parts, public = self.layout.part_rows(shaped.rows), shaped.public  # public [n, S]
        pull = Pull(parts, public, self.order)
        remaining = np.maximum(np.asarray(moment.remaining, dtype=np.float64), 0.0)
        paces = np.minimum(HASTE / np.maximum(moment.left - np.arange(len(public)), 1), 1.0)
        if len(public) == 1 or HASTE * len(public) <= _NEGLIGIBLE * moment.left:
            caps = _even_caps(remaining, paces)
        else:
            most = np.full(pull.parts, limit)
            highest = filtered_charges(pull, most, parts=count, weight_limit=limit)
            caps = _caps(remaining, paces, highest.reshape(len(public), count))
        found = filtered_weights(pull, caps.reshape(-1), parts=count, weight_limit=limit)
        charges = filtered_charges(pull, found, parts=count, weight_limit=limit).reshape(caps.shape)
        costs, fits = _paid(charges, caps >= _LEAST_CAP, remaining)  # [n, k]
        pmfs = shaped.spread(mixture_pmf(parts, public, found.reshape(caps.shape) * fits, common=False))  # [n, V]
        events = [FilteredCharge(self.order, cost) for cost in costs.max(axis=1).tolist()]
        return [Release(*each) for each in zip(pmfs, costs, events, strict=True)]


def _even_caps(remaining: Floats, paces: Floats) -> Floats:
    """What each text of a turn may cost each part [n, k] where those before it spend theirs: hardly less.

    `remaining` [k] is what is left before the first; each charge is rounded up, by less than the ledger's unit.
    """
    number = np.arange(len(paces))
    kept = np.concatenate([[1.0], np.cumprod(1.0 - paces[:-1])])  # [n]
    left = np.maximum(kept[:, None] * remaining - (number * _LEAST_CAP)[:, None], 0.0)
    return left * (paces * _MARGIN)[:, None]


def _caps(remaining: Floats, paces: Floats, highest: Floats) -> Floats:
    """What each text of a turn may cost each part [n, k], from what is left before the first [k].

    `highest` [n, k] is what each costs at most, at λmax. A text costs that, or its cap where that is less.
    """
    caps = np.empty_like(highest)
    for number, pace in enumerate(paces):
        caps[number] = remaining * pace * _MARGIN
        costs = np.where(caps[number] >= _LEAST_CAP, np.minimum(highest[number], caps[number] / _MARGIN), 0.0)
        remaining = np.maximum(remaining - in_units(costs), 0.0)
    return caps


def _paid(charges: Floats, is_enough: NDArray[np.bool_], remaining: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Costs [n, k] and which charges are made: those that, with all before them, are at most what is left [k].

    In the ledger's units, so that sums are exact. One that would pass what is left with those before it counts for
    the ones after it nevertheless: whatever the search did, nothing is passed.
    """
    units = in_units(charges)
    alone = is_enough & (units <= remaining)
    fits = alone & (np.where(alone, units, 0.0).cumsum(axis=0) <= remaining)
    return np.where(fits, charges, 0.0), fits


@dataclass(frozen=True, slots=True)
class SubMix:
    """Algorithm 2 at one order with target leakage β = `leakage`; `common` mixes with the mean weight λ*."""

    price: ClassVar[float | None] = None

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

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:  # noqa: ARG002
        """One token of Algorithm 2, or of the public model once it has stopped.

        Guarantee: before the stop each cost is the divergence this very release has against the removal of that
        part, in the worse direction. Instance-level: nothing is said of other data.
        """
        self.layout.require(rows)
        return self._mix(self.shaping.shape(rows), moment)

    def is_like(self, other: Mechanism) -> bool:
        """Whether the other differs in its shaping at most."""
        return isinstance(other, SubMix) and replace(other, shaping=self.shaping) == self

    def release_together(self, rows: Rows, shapings: Sequence[Shaping], moment: Moment) -> list[Release]:
        """One token for each of n texts, one after the other.

        Guarantee: that of `release` for every one of them; after one that stops all are the public model's.
        """
        self.layout.require(rows, axes=3)
        found: list[Release] = []
        for shaped in shape_together(rows, shapings):
            found.append(self._mix(shaped.text(0), moment))
            moment = _after(moment, found[-1:])
        return found

    def _mix(self, shaped: Shaped, moment: Moment) -> Release:
        private = shaped.private  # [2k, S]
        parts = self.layout.part_pmfs(private)  # [k, S]
        first, second = self.layout.half_pmfs(private)
        weights = half_weights(first, second, shaped.public, order=self.order, leakage=self.leakage)
        costs = leave_one_out_charges(parts, shaped.public, weights, order=self.order, common=self.common)
        mixture = mixture_pmf(parts, shaped.public, weights, common=self.common)
        stops = moment.stopped or not bool((costs < moment.remaining).all())
        pmf = shaped.public if stops else mixture
        charged = np.zeros_like(costs) if stops else costs
        return Release(shaped.spread(pmf), charged, RealisedCharge(self.order, largest_cost(charged)), stops)


def _after(moment: Moment, releases: Sequence[Release]) -> Moment:
    """The moment of the text that comes after those."""
    remaining = moment.remaining - in_units(np.stack([release.costs for release in releases])).sum(axis=0)  # exact
    stopped = moment.stopped or any(release.stops for release in releases)
    return replace(moment, remaining=remaining, left=max(1, moment.left - len(releases)), stopped=stopped)
