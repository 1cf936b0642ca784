"""(ε, δ) of composed events by privacy loss distributions, for Gaussian, sampled Gaussian and Laplace events.

The privacy loss of one step is discretised pessimistically by connect-the-dots (Doroshenko et al. 2022) and
composed by FFT, both in dp-accounting; the δ(ε) of the single step is exact (`hockey_stick`). Any number of plain
Gaussians is one Gaussian, whose δ(ε) alone needs no discretisation at all.

Error, always upwards: a grid of spacing t adds at most about T t²/4 to ε over T steps; `_spacing` keeps that below
5e-5 unless a step's grid would grow past 130,000 cells, or the composed one past 8 million: then it is coarser.
Round-off of the FFT reaches about 1e-16 per step and cell and can make dp-accounting's δ negative, so an allowance
above it is added to every δ: about 1e-9 for 186,000 steps. Below that, and for more steps than a useful grid can
hold, a Rényi curve says more.

Not here: events without a known privacy loss distribution, which raise UnsupportedEvent.
"""

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.curve import leaves
from reticent.accounting.prices.hockey_stick import Direction, loss_range, step_delta
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Event, Gaussian, Laplace, NonPrivate, SampledGaussian
from reticent.core.guarantee import Neighbours

Floats = NDArray[np.float64]

_TOLERANCE = 5e-5  # what discretisation may add to ε
_COARSEST = 1e-3
_MOST_CELLS = 130_000  # cells of one step's distribution: a second of work on one core
_MOST_COMPOSED = 1 << 23  # cells of the composed one: seconds and hundreds of megabytes
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
        self._neighbours = neighbours
        self._tolerance = tolerance
        # T Gaussians with multipliers σ_i are one with 1/σ² = Σ 1/σ_i².
        precision = math.fsum(
            n / leaf.noise_multiplier**2 for leaf, n in counts.items() if isinstance(leaf, Gaussian)
        )
        self._gaussian = precision**-0.5 if precision > 0.0 else None
        self._stepwise = {leaf: n for leaf, n in counts.items() if isinstance(leaf, SampledGaussian | Laplace)}
        self._distribution: Any = None
        self.is_out_of_reach = False  # too many steps for any grid: nothing is proved here
        self._points: dict[tuple[int, float], tuple[tuple[float, float], ...]] = {}
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
        if self._distribution is None:
            assert self._gaussian is not None
            exact = _gaussian_delta(np.array([epsilon]), self._gaussian, self._neighbours)
            return max(float(exact[0]), 5e-324)  # never 0: what underflowed must not read as pure privacy
        found = float(self._distribution.get_delta_for_epsilon(float(epsilon)))
        return min(1.0, max(0.0, found) + self.round_off)

    def epsilon(self, delta: float) -> float:
        """Least ε that this accountant proves at δ, rounded up by at most 1e-6; ∞ where it can prove none."""
        if not 0.0 <= delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1], found {delta}")
        if delta == 0.0 and not self.is_empty:
            return math.inf  # δ of a Gaussian is never 0; where it is computed as 0 it has underflowed
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while not self.delta(high) <= delta:
            low, high = high, 2.0 * high
            if high > 1e5:
                return math.inf
        while high - low > 1e-6 * max(1.0, high):
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
        made = self._distribution
        if made is None and self._gaussian is not None:
            made, _ = _step_distribution(Gaussian(self._gaussian), self._neighbours, _COARSEST)
        if made is None:
            return (np.zeros(0), np.zeros(0)), (np.zeros(0), np.zeros(0))
        return _positive(made._pmf_remove), _positive(made._pmf_add)

    def points(self, count: int = 48, *, least_delta: float = 1e-12) -> tuple[tuple[float, float], ...]:
        """Proved (ε, δ) points from ε = 0 up to where δ reaches `least_delta` (or the accountant's floor); kept."""
        if (count, least_delta) not in self._points:
            self._points[count, least_delta] = self._compute_points(count, least_delta)
        return self._points[count, least_delta]

    def _compute_points(self, count: int, least_delta: float) -> tuple[tuple[float, float], ...]:
        if self.is_unprotected or self.is_empty or self.is_out_of_reach:
            return ((0.0, self.delta(0.0)),)
        floor = max(least_delta, 2.0 * self.round_off)
        high = self.epsilon(floor) if self.delta(0.0) > floor else 0.0
        if not math.isfinite(high):  # practically unprotected: what is proved at 0 is all that is worth saying
            return ((0.0, self.delta(0.0)),)
        grid = np.unique(np.concatenate([[0.0], high * np.linspace(0.0, 1.0, count) ** 1.5]))
        return tuple((float(epsilon), self.delta(float(epsilon))) for epsilon in grid)

    def _compose(self) -> None:
        """Discretise every kind of step and convolve; sets the distribution and its round-off allowance."""
        steps = sum(self._stepwise.values())
        parts: list[tuple[Event, int]] = list(self._stepwise.items())
        if self._gaussian is not None:
            parts.append((Gaussian(self._gaussian), 1))
        spacing = _spacing(self._stepwise, self._neighbours, self._tolerance)
        while True:
            made = [(*_step_distribution(leaf, self._neighbours, spacing), count) for leaf, count in parts]
            excess = sum(_composed_cells(one, count) for one, _, count in made) / _MOST_COMPOSED
            if excess <= 1.0:
                break
            spacing *= max(2.0, excess)
            if spacing > _USELESS:
                self.is_out_of_reach = True
                return
        total: Any = None
        for one, _, count in made:
            composed = one.self_compose(count) if count > 1 else one
            total = composed if total is None else total.compose(composed)
        cells = sum(size for _, size, _ in made)
        self._distribution = total
        self.round_off = _ROUND_OFF * (steps + cells)


def _positive(side: Any) -> tuple[Floats, Floats]:
    """The losses above 0 of one direction and their masses, that of an infinite loss at the end."""
    dense = side.to_dense_pmf()
    masses = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)  # the FFT rounds below 0
    losses = dense._discretization * (dense._lower_loss + np.arange(len(masses)))
    above = (losses > 0.0) & (masses > 0.0)
    return np.append(losses[above], np.inf), np.append(masses[above], max(0.0, dense._infinity_mass))


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
    return all(isinstance(leaf, _KNOWN) for leaf, _ in leaves(event))


_KNOWN = (Gaussian, SampledGaussian, Laplace, NonPrivate)


def _count(event: Event) -> Counter[Event]:
    """How often each leaf happened; refuses leaves without a privacy loss distribution."""
    counts: Counter[Event] = Counter()
    for leaf, times in leaves(event):
        if not isinstance(leaf, _KNOWN):
            raise UnsupportedEvent(f"no privacy loss distribution is known for the event {type(leaf).__name__}")
        if isinstance(leaf, SampledGaussian) and leaf.sampling_rate == 1.0:
            leaf = Gaussian(leaf.noise_multiplier)
        counts[leaf] += times
    return counts


def _directions(neighbours: Neighbours) -> tuple[Direction, ...]:
    return (Direction.REMOVE, Direction.ADD) if neighbours is Neighbours.ADD_REMOVE else (Direction.REPLACE,)


def _spacing(stepwise: Mapping[SampledGaussian | Laplace, int], neighbours: Neighbours, tolerance: float) -> float:
    """Grid spacing: fine enough for the tolerance, coarse enough for the number of cells."""
    fine = math.sqrt(4.0 * tolerance / sum(stepwise.values()))
    width = 0.0
    for leaf in stepwise:
        if isinstance(leaf, SampledGaussian):
            for direction in _directions(neighbours):
                low, high = loss_range(
                    direction, noise_multiplier=leaf.noise_multiplier, sampling_rate=leaf.sampling_rate
                )
                width = max(width, high - low)
        elif isinstance(leaf, Laplace):
            width = max(width, 4.0 / leaf.scale)
    coarsest = _COARSEST * math.sqrt(max(1.0, tolerance / _TOLERANCE))
    return max(min(fine, coarsest), width / _MOST_CELLS)


def _step_distribution(leaf: Event, neighbours: Neighbours, spacing: float) -> tuple[Any, int]:
    """dp-accounting's distribution of one step on the grid, and its number of cells."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    if isinstance(leaf, Laplace):
        distance = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0
        one = privacy_loss_distribution.from_laplace_mechanism(
            leaf.scale, sensitivity=distance, value_discretization_interval=spacing
        )
        return one, math.ceil(2.0 * distance / leaf.scale / spacing)
    assert isinstance(leaf, Gaussian | SampledGaussian)
    rate = leaf.sampling_rate if isinstance(leaf, SampledGaussian) else 1.0
    noise = leaf.noise_multiplier
    masses, cells = [], 0
    for direction in _directions(neighbours):
        low, high = loss_range(direction, noise_multiplier=noise, sampling_rate=rate)
        first, last = math.floor(low / spacing), math.ceil(high / spacing)
        grid = spacing * np.arange(first, last + 1, dtype=np.float64)  # [cells]
        deltas = step_delta(grid, direction, noise_multiplier=noise, sampling_rate=rate)
        masses.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(spacing, first, last, deltas))
        cells += last - first + 1
    return privacy_loss_distribution.PrivacyLossDistribution(*masses), cells


def _composed_cells(one: Any, count: int) -> int:
    """Cells that dp-accounting needs for `count` such steps together."""
    from dp_accounting.pld import common

    total = 0
    for side in {id(side): side for side in (one._pmf_remove, one._pmf_add)}.values():
        masses = side.to_dense_pmf()._probs
        low, high = common.compute_self_convolve_bounds(masses, count, 1e-15)  # its own share of cut tails
        total += high - low + 1
    return total


def _gaussian_delta(epsilons: Floats, noise_multiplier: float, neighbours: Neighbours) -> Floats:
    """δ of one Gaussian, exact; replacing one doubles the distance, which is half the noise."""
    noise = noise_multiplier if neighbours is Neighbours.ADD_REMOVE else noise_multiplier / 2.0
    return step_delta(epsilons, Direction.REMOVE, noise_multiplier=noise, sampling_rate=1.0)
