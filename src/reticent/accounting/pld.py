"""(ε, δ) of composed events by privacy loss distributions, for Gaussian and Laplace events, sampled or not.

The privacy loss of one step is in its price (`prices`), discretised pessimistically, mostly by connect-the-dots
(Doroshenko et al. 2022), and composed by FFT, both in `loss_sums`. Any number of plain Gaussians is one Gaussian,
whose δ(ε) alone needs no discretisation at all.

Error, always upwards: a grid of spacing t adds at most about T t²/4 to ε over T steps; `_spacing` keeps that below
5e-5 unless a step's grid would grow past 130,000 cells, or the composed one past 8 million: then it is coarser.
Round-off of the FFT reaches about 1e-16 per step and cell and can make a computed δ negative, so an allowance
above it is added to every δ: about 1e-9 for 186,000 steps. Below that, and for more steps than a useful grid can
hold, a Rényi curve says more.

Random allocation and groups of units are priced for adding or removing. To replace is to remove and to add, so

    δ_replace(ε) ≤ δ(s) + e^s δ(ε − s)     for every 0 ≤ s ≤ ε,  δ of the whole composed event

Not here: events without a known privacy loss distribution, which raise UnsupportedEvent.
"""

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, reduce

import numpy as np

from reticent.accounting.curve import leaves
from reticent.accounting.loss_sums import ComposedLosses, Losses
from reticent.accounting.prices.by_event import distribution_of, price_of
from reticent.accounting.prices.hockey_stick import Direction, step_delta
from reticent.core.arrays import Floats
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Event, NonPrivate, SampledGaussian
from reticent.core.guarantee import Neighbours

_TOLERANCE = 5e-5  # what discretisation may add to ε
_COARSEST = 1e-3
_MOST_COMPOSED = 1 << 23  # cells of the composed one: seconds and hundreds of megabytes
_GREATEST_EXPONENT = 700.0  # of e that float64 holds; any split is valid, so those above are not needed
_POINTS = 48  # of a profile that is written down
_LEAST_DELTA = 1e-12  # to which they reach
_SPLITS = 33  # ways to share ε between removing and adding
_USELESS = 1.0  # nats: a coarser grid proves nothing that a Rényi curve does not
_ROUND_OFF = 16.0 * 2.0**-52  # allowance per step and per cell; measured round-off stays 4 times below


class PrivacyProfile:
    """δ as a function of ε, and its inverse, of one event under one relation of neighbours.

    Guarantee: the event is (ε, delta(ε))-DP and (epsilon(δ), δ)-DP; discretisation, truncation and round-off only
    ever raise the numbers.
    """

    def __init__(self, event: Event, neighbours: Neighbours, *, tolerance: float = _TOLERANCE) -> None:
        """`tolerance` is about what discretisation may add to ε; a coarser grid is quicker by its square root."""
        counts = _count(event)
        self.is_empty = not counts
        self.is_unprotected = any(isinstance(leaf, NonPrivate) for leaf in counts)
        self._tolerance = tolerance
        # Replacing one is removing and adding where nothing tighter is proved.
        self._is_twofold = neighbours is not Neighbours.ADD_REMOVE and not all(
            isinstance(leaf, NonPrivate) or distribution_of(leaf).is_known_for_replaced for leaf in counts
        )
        self._neighbours = Neighbours.ADD_REMOVE if self._is_twofold else neighbours
        # T Gaussians with multipliers σ_i are one with 1/σ² = Σ 1/σ_i².
        plain = {
            leaf: n for leaf, n in counts.items() if isinstance(leaf, SampledGaussian) and leaf.sampling_rate == 1.0
        }
        precision = math.fsum(n / leaf.noise_multiplier**2 for leaf, n in plain.items())
        self._gaussian = precision**-0.5 if precision > 0.0 else None
        self._stepwise: dict[Event, int] = {
            leaf: n for leaf, n in counts.items() if leaf not in plain and not isinstance(leaf, NonPrivate)
        }
        self._distribution: ComposedLosses | None = None
        self.is_out_of_reach = False  # too many steps for any grid: nothing is proved here
        self._epsilons: dict[float, float] = {}
        self._points: tuple[tuple[float, float], ...] | None = None
        self.round_off = 0.0
        if self._stepwise and not self.is_unprotected:
            self._compose()

    def delta(self, epsilon: float) -> float:
        """Least δ that this accountant proves at ε ≥ 0."""
        if not epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0, found {epsilon}")
        if self.is_unprotected or self.is_out_of_reach:
            return 1.0
        if self.is_empty:
            return 0.0
        if self._is_twofold:
            splits = np.minimum(epsilon * np.linspace(0.0, 1.0, _SPLITS), _GREATEST_EXPONENT)
            return min(1.0, *(self._one_way(s) + math.exp(s) * self._one_way(epsilon - s) for s in splits.tolist()))
        return self._one_way(epsilon)

    def _one_way(self, epsilon: float) -> float:
        """δ at ε for the neighbours that the distributions are of."""
        if self._distribution is None:
            assert self._gaussian is not None
            exact = _gaussian_delta(np.array([epsilon]), self._gaussian, self._neighbours)
            return max(float(exact[0]), 5e-324)  # never 0: what underflowed must not read as pure privacy
        return min(1.0, max(0.0, self._distribution.delta(epsilon)) + self.round_off)

    def epsilon(self, delta: float) -> float:
        """Least ε that this accountant proves at δ, rounded up by at most 1e-6; ∞ where it can prove none."""
        if not 0.0 <= delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1], found {delta}")
        if delta == 0.0 and not self.is_empty:
            return math.inf  # δ of a Gaussian is never 0; where it is computed as 0 it has underflowed
        if self.delta(0.0) <= delta:
            return 0.0
        if delta not in self._epsilons:
            self._epsilons[delta] = self._solve(delta)
        return self._epsilons[delta]

    def _solve(self, delta: float) -> float:
        """Where δ(ε) falls to `delta`, by bisection: the upper end, at which δ(ε) is within."""
        low, high = 0.0, 1.0
        while not self.delta(high) <= delta:
            low, high = high, 2.0 * high
            if high > 1e5:
                return math.inf
        width = 2.5e-7 * max(1.0, high)
        while high - low > width:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def losses(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Positive privacy losses [n] with their masses [n], of removing one unit and of adding one.

        Each loss is log P/Q of the world P that is seen, its mass that under P; an infinite loss comes last.

        Guarantee: as a pair, no test between the two worlds tells them apart better than these losses do.
        """
        if self.is_unprotected or self.is_out_of_reach or self._neighbours is not Neighbours.ADD_REMOVE:
            raise UnsupportedEvent("no privacy loss distribution of adding and removing one unit is at hand")
        sides = self._distribution.sides if self._distribution else ()
        if not sides and self._gaussian is not None:
            gaussian = SampledGaussian(self._gaussian, 1.0)
            sides, _ = distribution_of(gaussian).losses(gaussian, self._neighbours, _COARSEST)
        if not sides:
            return (np.zeros(0), np.zeros(0)), (np.zeros(0), np.zeros(0))
        return sides[0].positive(), sides[-1].positive()

    def points(self) -> tuple[tuple[float, float], ...]:
        """Proved (ε, δ) points from ε = 0 up to where δ reaches 1e-12 (or the accountant's floor); kept."""
        if self._points is None:
            high, floor = 0.0, max(_LEAST_DELTA, 2.0 * self.round_off)
            is_known = not (self.is_unprotected or self.is_empty or self.is_out_of_reach)
            if is_known and self.delta(0.0) > floor:
                high = self.epsilon(floor)
            if not math.isfinite(high):  # practically unprotected: what is proved at 0 is all that is worth saying
                high = 0.0
            grid = sorted({0.0, *(high * np.linspace(0.0, 1.0, _POINTS) ** 1.5).tolist()})
            self._points = tuple((epsilon, self.delta(epsilon)) for epsilon in grid)
        return self._points

    def _compose(self) -> None:
        """Discretise every kind of step and convolve; sets the distribution and its round-off allowance."""
        steps = sum(self._stepwise.values())
        parts: list[tuple[Event, int]] = list(self._stepwise.items())
        if self._gaussian is not None:
            parts.append((SampledGaussian(self._gaussian, 1.0), 1))
        spacing = _spacing(self._stepwise, self._neighbours, self._tolerance)
        while True:
            made = [
                (*distribution_of(leaf).losses(leaf, self._neighbours, spacing), count) for leaf, count in parts
            ]
            spans = [[side.span(count) for side in sides] for sides, _, count in made]
            excess = sum(high - low + 1 for ends in spans for low, high in ends) / _MOST_COMPOSED
            if excess <= 1.0:
                break
            spacing *= max(2.0, excess)
            if spacing > _USELESS:
                self.is_out_of_reach = True
                return
        repeated = [
            [side.repeated(count, span) for side, span in zip(sides, ends, strict=True)]
            for (sides, _, count), ends in zip(made, spans, strict=True)
        ]
        two = max(len(sides) for sides in repeated)  # one side stands for both where they are the same
        both = zip(*(sides * (two // len(sides)) for sides in repeated), strict=True)
        self._distribution = ComposedLosses([reduce(Losses.with_step, parts) for parts in both])
        self.round_off = _ROUND_OFF * (steps + sum(size for _, size, _ in made))


@lru_cache(maxsize=8)
def privacy_profile(event: Event, neighbours: Neighbours) -> PrivacyProfile:
    """The profile of an event, composed once and kept."""
    return PrivacyProfile(event, neighbours)


def pld_epsilon(event: Event, *, delta: float, neighbours: Neighbours) -> float:
    """ε at `delta` by privacy loss distributions.

    Guarantee: the event is (ε, delta)-DP for these neighbours.
    """
    return privacy_profile(event, neighbours).epsilon(delta)


def has_privacy_profile(event: Event) -> bool:
    """Whether every part of the event has a known privacy loss distribution."""
    simple = (_simplest(leaf) for leaf, _ in leaves(event))
    return all(isinstance(leaf, NonPrivate) or price_of(leaf).distribution is not None for leaf in simple)


def _count(event: Event) -> Counter[Event]:
    """How often each leaf happened, by its simplest name; refuses leaves without a privacy loss distribution."""
    counts: Counter[Event] = Counter()
    for leaf, times in leaves(event):
        leaf = _simplest(leaf)
        if not isinstance(leaf, NonPrivate):
            distribution_of(leaf)
        counts[leaf] += times
    return counts


def _simplest(leaf: Event) -> Event:
    """The same release, or one that costs as much for every relation of neighbours, by a simpler name."""
    simpler = price_of(leaf).simplest(leaf)
    return leaf if simpler == leaf else _simplest(simpler)


def _spacing(stepwise: Mapping[Event, int], neighbours: Neighbours, tolerance: float) -> float:
    """Grid spacing: fine enough for the tolerance, coarse enough for the number of cells."""
    fine = math.sqrt(4.0 * tolerance / sum(stepwise.values()))
    coarsest = _COARSEST * math.sqrt(max(1.0, tolerance / _TOLERANCE))
    return max(min(fine, coarsest), *(distribution_of(leaf).least_spacing(leaf, neighbours) for leaf in stepwise))


def _gaussian_delta(epsilons: Floats, noise_multiplier: float, neighbours: Neighbours) -> Floats:
    """δ of one Gaussian, exact; replacing one doubles the distance, which is half the noise."""
    noise = noise_multiplier if neighbours is Neighbours.ADD_REMOVE else noise_multiplier / 2.0
    return step_delta(epsilons, Direction.REMOVE, noise_multiplier=noise, sampling_rate=1.0)
