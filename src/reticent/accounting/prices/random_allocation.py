"""The privacy loss distribution of random allocation: a unit takes part in exactly one of t Gaussian steps.

Whatever the steps compute, and however they depend on earlier ones, what they release is post-processing of t
numbers (Chua et al. 2024; Feldman and Shenfeld 2025, 2026), as N(b v, σ²I) is made from N(b, σ²) for any ‖v‖ ≤ 1:

    with the unit     P = 1/t Σ_i N(e_i, σ² I_t)
    without it        Q = N(0, σ² I_t)
    ratio             R = dP/dQ = 1/t Σ_i Y_i,   Y_i = exp(x_i/σ² − 1/2σ²) independent under Q, of mean 1

    remove one        δ(ε) = E_Q (R − e^ε)_+            add one     δ(ε) = E_Q (1 − e^ε R)_+

Both are expectations of convex functions of R. A spread of Y_i that keeps its mean makes R larger in the convex
order, sums keep that order, and so does every further spread: all δ can only grow. Y_i is spread onto the points
e^{kh} of a grid (each value shared between its two neighbours), sums of two are spread again, and t is reached by
doubling. The error is of second order in h. The tail above the grid is charged as if it revealed everything.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from reticent.accounting.light_imports import ndtr
from reticent.accounting.loss_sums import Losses
from reticent.accounting.prices.price import LossDistribution, Price
from reticent.core.arrays import Floats
from reticent.core.event import RandomAllocation, SampledGaussian
from reticent.core.guarantee import Neighbours

_REACH = 8.6  # standard deviations: beyond it lies 4e-18 of a Gaussian
_CELLS = 5000
_NEGLIGIBLE = math.log(1e-9)  # terms of a sum below this share of the mean are shared between it and 0


@dataclass(frozen=True, slots=True)
class RatioDistribution:
    """Masses under Q of the values e^{(first + i)·spacing}, of 0, and the mass of P that is charged in full."""

    spacing: float
    first: int
    masses: Floats  # [n]
    zero: float
    lost: float

    def values(self) -> Floats:
        """The values of the grid [n]."""
        return np.asarray(np.exp(self.spacing * (self.first + np.arange(len(self.masses)))))


def allocation_ratio(noise_multiplier: float, batches: int, *, spacing: float) -> RatioDistribution:
    """The ratio R of one epoch of `batches` steps, spread upwards in the convex order.

    Guarantee: E f(R) of the returned distribution, plus `lost` for the tail of P, is at least the true one for both
    convex functions of the module's text, at every ε.
    """
    low, high = _span(noise_multiplier, batches)
    ladder = _Ladder(spacing, math.floor(low / spacing), math.ceil(high / spacing))
    part = ladder.single(noise_multiplier, batches)
    total: RatioDistribution | None = None
    remaining = batches
    while True:
        if remaining & 1:
            total = part if total is None else ladder.summed(total, part)
        remaining >>= 1
        if not remaining:
            assert total is not None
            return total
        part = ladder.summed(part, part)


def _losses(event: RandomAllocation, _: Neighbours, spacing: float) -> tuple[tuple[Losses, ...], int]:
    """Those of the ratio and of its inverse."""
    ratio = allocation_ratio(event.noise_multiplier, event.batches, spacing=spacing)
    masses, first, last = ratio.masses, ratio.first, ratio.first + len(ratio.masses) - 1
    removed = Losses(first, masses * ratio.values(), ratio.lost, spacing)
    added = Losses(-last, masses[::-1].copy(), ratio.zero, spacing)
    # Its sums were made of as many cells once for every doubling.
    return (removed, added), len(masses) * (2 + event.batches.bit_length())


def _least_spacing(event: RandomAllocation, _: Neighbours) -> float:
    """One that keeps the work to a second or two: the grid of a ratio has so many cells."""
    low, high = _span(event.noise_multiplier, event.batches)
    return (high - low) / _CELLS


def _span(sigma: float, batches: int) -> tuple[float, float]:
    """Logarithms of the least and the greatest value of the grid."""
    top = 0.5 / sigma**2 + _REACH / sigma
    bottom = -0.5 / sigma**2 - _REACH / sigma
    if batches > 1:
        bottom = max(bottom, _NEGLIGIBLE - 1.0 / sigma)
    return bottom - math.log(batches), top


class _Ladder:
    """Distributions on one grid e^{kh}, k = first … last, and 0."""

    def __init__(self, spacing: float, first: int, last: int) -> None:
        self.spacing = spacing
        self.first = first
        self.size = last - first + 1
        self.grid = np.exp(spacing * np.arange(first, last + 1))  # [n]
        # Within so many cells a smaller term can lift a sum by a whole cell or more.
        self._near = min(self.size, math.ceil(-math.log(math.expm1(spacing)) / spacing) + 1)

    def single(self, sigma: float, batches: int) -> RatioDistribution:
        """Y/t under Q: masses and means of the cells, shared between the ends of each so that both are kept."""
        x = sigma**2 * np.log(self.grid * batches) + 0.5  # [n]
        mass = _between(x / sigma)  # of Q, [n − 1]
        mean = _between((x - 1.0) / sigma) / batches  # E_Q[Y/t; cell] is the mass that P's component has there
        low, high = self.grid[:-1], self.grid[1:]
        upper = np.clip((mean - low * mass) / (high - low), 0.0, mass)
        masses = np.zeros(self.size)
        masses[:-1] += mass - upper
        masses[1:] += upper
        below_mass, below_mean = float(ndtr(x[0] / sigma)), float(ndtr((x[0] - 1.0) / sigma)) / batches
        lifted = min(below_mass, below_mean / self.grid[0])
        masses[0] += lifted
        above_mass, above_mean = float(ndtr(-x[-1] / sigma)), float(ndtr((1.0 - x[-1]) / sigma)) / batches
        zero = below_mass - lifted + above_mass
        return RatioDistribution(self.spacing, self.first, masses, zero, above_mean)

    def summed(self, a: RatioDistribution, b: RatioDistribution) -> RatioDistribution:
        """The sum of two independent ones: e^{ih} + e^{jh} stands o(i − j) cells above the greater of i and j."""
        p, q, size = a.masses, b.masses, self.size
        room = math.ceil(math.log(2.0) / self.spacing) + 2
        out = np.zeros(size + room)
        step = math.expm1(self.spacing)
        for distance in range(self._near):
            lift = math.exp(-self.spacing * distance)  # of the sum, in units of the greater term
            cells = math.floor(math.log1p(lift) / self.spacing)
            base = math.exp(cells * self.spacing)
            share = min(1.0, max(0.0, (1.0 + lift - base) / (base * step)))
            both = p[distance:] * q[: size - distance]
            if distance:
                both += q[distance:] * p[: size - distance]
            start = distance + cells
            out[start : start + len(both)] += (1.0 - share) * both
            out[start + 1 : start + 1 + len(both)] += share * both
        for greater, lesser in ((p, q), (q, p)):
            self._add_far(out, greater, lesser)
        out[:size] += p * b.zero + q * a.zero
        beyond = out[size:]
        values = self.grid[-1] * np.exp(self.spacing * np.arange(1, len(beyond) + 1))
        lost = a.lost + b.lost + float(beyond @ values)
        zero = a.zero * b.zero + float(beyond.sum())
        return RatioDistribution(self.spacing, self.first, out[:size].copy(), zero, lost)

    def _add_far(self, out: Floats, greater: Floats, lesser: Floats) -> None:
        """Terms so small that a sum stays within the cell of the greater one: all of them at once."""
        near, size = self._near, self.size
        if near >= size:
            return
        mass, mean = np.cumsum(lesser)[: size - near], np.cumsum(lesser * self.grid)[: size - near]
        upper = mean / (self.grid[near:] * math.expm1(self.spacing))
        out[near:size] += greater[near:] * (mass - upper)
        out[near + 1 : size + 1] += greater[near:] * upper


def _between(z: Floats) -> Floats:
    """Φ(z_{i+1}) − Φ(z_i) for ascending z [n], as [n − 1], from the tail that is nearer."""
    left, right = ndtr(z), ndtr(-z)
    return np.asarray(np.where(z[:-1] > 0.0, right[:-1] - right[1:], left[1:] - left[:-1]))


RANDOM_ALLOCATION: Final = Price(
    RandomAllocation,
    distribution=LossDistribution(losses=_losses, least_spacing=_least_spacing),
    simplest=lambda event: SampledGaussian(event.noise_multiplier, 1.0) if event.batches == 1 else event,
)
