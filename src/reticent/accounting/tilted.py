"""δ(ε) far below round-off: privacy loss distributions that are tilted before they are convolved.

A convolution by FFT has errors of 1e-16 of the whole mass, so `pld` knows nothing of δ below some 1e-10. Here the
masses of one step are tilted first, p_t(l) = p(l) e^{tl}/M(t), so that the whole mass of T steps stands near ε:

    δ(ε) = M(t)^T e^{−tε} Σ_{l > ε} p_t^{*T}(l) e^{−t(l−ε)} (1 − e^{ε−l})

The factor is Chernoff's bound, and the sum has errors of 1e-16 of *it* (Gopi, Lee and Wutschitz 2021 for the plain
convolution; tilting is Esscher 1932). Everything is rounded upwards:

    one step     connect-the-dots (Doroshenko et al. 2022): the mass of a cell goes to its two ends so that P and Q
                 keep theirs. Cells are differences of normal tails taken on the small side, right to 1e-12 of
                 themselves; each is raised by 1e-8 for that and for splitting it
    above        the mass above the window, by Chernoff's bound at other tilts, counts as lost, and so does what one
                 step leaves beyond 37 deviations
    below        the FFT folds the mass below the window into it: more mass than there is
    round-off    as in `pld`, of the tilted mass

Known for Poisson-sampled Gaussian steps, Gaussians, and what is composed of them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from reticent.accounting.curve import leaves
from reticent.accounting.prices.hockey_stick import Direction
from reticent.core.event import Event, Gaussian, SampledGaussian
from reticent.core.guarantee import Neighbours

Floats = NDArray[np.float64]

_REACH: Final = 37.0  # deviations: 1e-299 of the mass is beyond
_TOLERANCE: Final = 1e-3  # nats: what the grid may add to ε
_COARSEST: Final = 4e-3
_MOST_CELLS: Final = 1 << 21
_DEVIATIONS: Final = 12.0  # of the tilted sum, on either side of ε
_RAISED: Final = 1e-8
_ROUND_OFF: Final = 16.0 * 2.0**-52  # allowance per step and per cell, as in `pld`
_TILTS: Final = np.geomspace(0.05, 2000.0, 60)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """Masses [n] of one kind of step at the losses first·h, (first + 1)·h, …, and how often it is taken."""

    first: int
    masses: Floats
    lost: float
    count: int

    def losses(self, spacing: float) -> Floats:
        """The losses of the masses [n]."""
        return _grid(spacing, self.first, self.first + len(self.masses))


def tilted_log_probability(event: Event, neighbours: Neighbours, *, log_p0: float) -> float | None:
    """log of the greatest chance p1 of an event of chance p0 in the neighbouring world: min_ε e^ε p0 + δ(ε).

    None where the event is not of Gaussian steps, or its grid would be too large.

    Guarantee: no event of chance p0 in one world has a greater chance in the other.
    """
    curves = _curves(event, neighbours, log_p0=log_p0, epsilon=None)
    if curves is None:
        return None
    epsilons, log_deltas = curves
    return min(0.0, float(np.logaddexp(epsilons + log_p0, log_deltas).min()))


def _curves(
    event: Event, neighbours: Neighbours, *, log_p0: float, epsilon: float | None
) -> tuple[Floats, Floats] | None:
    """A grid of ε [n] around the best one for p0, or around a given one, and log δ [n] of the worse direction."""
    sums = _sums(event, neighbours)
    if sums is None:
        return None
    spacing = sums[0].spacing
    if epsilon is None:
        epsilon = max(each.best_epsilon(log_p0) for each in sums)
    centre = math.floor(epsilon / spacing)
    width = max(each.width(centre) for each in sums)
    if width > _MOST_CELLS:
        return None
    bottom = centre - width // 2
    curves = [each.log_deltas(centre, width) for each in sums]
    first = max(0, centre - width // 4)  # from there on nothing was folded into the window that belongs there
    log_deltas = np.max([curve[first - bottom :] for curve in curves], axis=0)
    return _grid(spacing, first, bottom + width), log_deltas


@lru_cache(maxsize=8)
def _sums(event: Event, neighbours: Neighbours) -> "tuple[_Sum, ...] | None":
    """The loss in every direction; None where the event is not of Gaussian steps or too fine a grid is needed."""
    counts = _counted(event)
    if not counts:
        return None
    spacing = min(_COARSEST, math.sqrt(4.0 * _TOLERANCE / sum(counts.values())))
    ways = (Direction.REMOVE, Direction.ADD) if neighbours is Neighbours.ADD_REMOVE else (Direction.REPLACE,)
    sums = []
    for way in ways:
        steps = [_step(leaf, way, spacing, count) for leaf, count in counts.items()]
        if None in steps:
            return None
        sums.append(_Sum.of(tuple(step for step in steps if step is not None), spacing))
    return tuple(sums)


def _counted(event: Event) -> dict[SampledGaussian, int] | None:
    """How often each kind of step was taken, all Gaussians as one; None where something else is among them."""
    counts: dict[SampledGaussian, int] = {}
    precision = 0.0
    for leaf, count in leaves(event):
        match leaf:
            case Gaussian(noise) | SampledGaussian(noise, 1.0):
                precision += count / noise**2
            case SampledGaussian():
                counts[leaf] = counts.get(leaf, 0) + count
            case _:
                return None
    if precision > 0.0:
        counts[SampledGaussian(precision**-0.5, 1.0)] = 1
    return counts


def _step(leaf: SampledGaussian, way: Direction, spacing: float, count: int) -> _Step | None:
    """One step on the grid; None where it would have too many cells."""
    sigma, q = leaf.noise_multiplier, leaf.sampling_rate
    low, high = (_loss(x, way, sigma, q) for x in (-1.0 - _REACH * sigma, 1.0 + _REACH * sigma))
    first, last = math.floor(low / spacing), math.ceil(high / spacing)
    if last - first > _MOST_CELLS:
        return None
    edges = _places(_grid(spacing, first, last + 1), way, sigma, q)  # x [n + 1], from −∞ on
    ahead = q * _masses(edges, 1.0, sigma) + (1.0 - q) * _masses(edges, 0.0, sigma)  # of M_1, [n]
    other = _masses(edges, 0.0, sigma)
    if way is Direction.REPLACE:
        other = q * _masses(edges, -1.0, sigma) + (1.0 - q) * other
    lost = float(ndtr(-(edges[-1] - 1.0) / sigma))
    if way is Direction.ADD:  # P and Q change places and losses their sign
        ahead, other, first, last = other[::-1], ahead[::-1], -last, -first
        lost = float(ndtr(edges[0] / sigma))
    # A cell's mass P and Q goes to its ends a and b: a + b = P, a e^{−l} + b e^{−l−h} = Q.
    losses = _grid(spacing, first, last)
    upper = np.clip((ahead - np.exp(losses) * other) / -math.expm1(-spacing), 0.0, ahead)  # b
    masses = np.append(ahead - upper, 0.0) + np.insert(upper, 0, 0.0)
    return _Step(first, (1.0 + _RAISED) * masses, lost, count)


def _grid(spacing: float, first: int, after: int) -> Floats:
    return spacing * np.arange(first, after, dtype=np.float64)


def _loss(x: float, way: Direction, sigma: float, q: float) -> float:
    """The privacy loss at x, of M_1 against N_0 or against M_−1."""

    def mixture(shifted: float) -> float:
        grown = shifted / sigma**2
        return grown if q == 1.0 else float(np.logaddexp(math.log1p(-q), math.log(q) + grown))

    return mixture(x - 0.5) - (mixture(-x - 0.5) if way is Direction.REPLACE else 0.0)


def _places(losses: Floats, way: Direction, sigma: float, q: float) -> Floats:
    """Where the loss of M_1 against N_0 (or M_−1) reaches each of `losses` [n]; −∞ below its least value."""
    if way is Direction.REPLACE:
        if q == 1.0:
            return 0.5 * sigma**2 * losses
        log_c = 0.5 / sigma**2 + math.log1p(-q) - math.log(q)
        with np.errstate(divide="ignore"):
            log_sinh = 0.5 * np.abs(losses) + np.log(-np.expm1(-np.abs(losses))) - math.log(2.0)
        product = log_c + log_sinh
        reached = np.where(product < 300.0, np.arcsinh(np.exp(np.minimum(product, 300.0))), math.log(2.0) + product)
        return np.asarray(np.sign(losses) * sigma**2 * (0.5 * np.abs(losses) + reached))
    with np.errstate(divide="ignore"):
        excess = np.where(losses > 30.0, losses, np.log(np.maximum(0.0, np.expm1(np.minimum(losses, 30.0)) + q)))
    return np.asarray(0.5 + sigma**2 * (excess - math.log(q)))


def _masses(edges: Floats, mean: float, sigma: float) -> Floats:
    """Normal masses [n] between the edges [n + 1], as differences of the smaller tails."""
    z = (edges - mean) / sigma
    left, right = ndtr(z), ndtr(-z)
    return np.asarray(np.where(z[:-1] > 0.0, right[:-1] - right[1:], left[1:] - left[:-1]))


def _log_sum(logs: Floats) -> float:
    """log Σ e^x over `logs` [n]. Many are needed, and scipy's general one takes several times as long."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """The loss of all steps in one direction: its steps, the spacing h, and log E e^{tL} for every tilt t."""

    steps: tuple[_Step, ...]
    spacing: float
    moments: Floats

    @classmethod
    def of(cls, steps: tuple[_Step, ...], spacing: float) -> "_Sum":
        """The sum with its moments."""
        moments = np.zeros(len(_TILTS))
        for step in steps:
            kept = step.masses > 0.0
            logs, losses = np.log(step.masses[kept]), step.losses(spacing)[kept]
            moments += step.count * np.array([_log_sum(logs + t * losses) for t in _TILTS.tolist()])
        return cls(steps, spacing, moments)

    def best_epsilon(self, log_p0: float) -> float:
        """About the ε of the least e^ε p0 + δ(ε), with Chernoff's bound as δ."""
        # min over t and ε of max(ε + log p0, log M(t) − tε): equal at ε = (log M − log p0)/(1 + t).
        return max(0.0, float(((self.moments - log_p0) / (1.0 + _TILTS)).min()))

    def log_above(self, loss: float) -> float:
        """Chernoff's bound on the log of the mass above a loss."""
        return float((self.moments - _TILTS * loss).min())

    def tilt(self, centre: int) -> float:
        """The tilt of the least Chernoff bound there: any tilt is valid, this one has the least round-off."""
        return float(_TILTS[int(np.argmin(self.moments - _TILTS * self.spacing * centre))])

    def width(self, centre: int) -> int:
        """Cells of a window, a power of two: a dozen deviations of the tilted sum on either side, twice over."""
        t, variance = self.tilt(centre), 0.0
        for step in self.steps:
            losses = step.losses(self.spacing)
            weights, _ = _tilted(step, losses, t)
            variance += step.count * float(weights @ (losses - weights @ losses) ** 2)
        cells = 4.0 * (_DEVIATIONS * math.sqrt(variance) + 2.0) / self.spacing
        return 1 << math.ceil(math.log2(max(1024.0, cells)))

    def log_deltas(self, centre: int, width: int) -> Floats:
        """log δ [width] at the ε of the window's cells, (centre − width/2)·h on."""
        t, spacing = self.tilt(centre), self.spacing
        spectrum = np.ones(width // 2 + 1, dtype=np.complex128)
        log_moment, shift, cells = 0.0, 0, 0
        for step in self.steps:
            masses, moment = _tilted(step, step.losses(spacing), t)
            folded = np.bincount(np.arange(len(masses)) % width, weights=masses, minlength=width)
            spectrum *= np.fft.rfft(folded) ** step.count
            log_moment += step.count * moment
            shift += step.count * step.first
            cells += len(masses)
        # Cell j of the result is the loss (shift + j)·h modulo the window's width.
        bottom = centre - width // 2
        convolved = np.roll(np.fft.irfft(spectrum, width), (shift - bottom) % width)  # [width]
        losses = _grid(spacing, bottom, bottom + width)
        above = _tail(np.maximum(convolved, 0.0), spacing, t)
        noise = _ROUND_OFF * (sum(step.count for step in self.steps) + width + cells)
        lost = math.fsum(step.count * step.lost for step in self.steps)
        log_lost = np.logaddexp(self.log_above(losses[-1]), math.log(lost) if lost > 0.0 else -math.inf)
        return np.asarray(np.logaddexp(log_moment - t * losses + np.log(above + noise), log_lost))


def _tilted(step: _Step, losses: Floats, t: float) -> tuple[Floats, float]:
    """The tilted masses, which sum to 1, and log M(t)."""
    with np.errstate(divide="ignore"):
        logs = np.log(step.masses) + t * losses
    total = float(logsumexp(logs))
    return np.exp(logs - total), total


def _tail(masses: Floats, spacing: float, t: float) -> Floats:
    """Σ_{l > ε} p(l) e^{−t(l−ε)} (1 − e^{ε−l}) at every cell ε [n], by two filters from the top.

    No term is negative, so nothing cancels.
    With r_k = Σ_{j ≥ k} p_j e^{−(1+t)(l_j − l_k)}, δ_k e^{…} falls by e^{−th} a cell and gains (1 − e^{−h}) r.
    """
    from scipy.signal import lfilter

    reach = lfilter([1.0], [1.0, -math.exp(-(1.0 + t) * spacing)], masses[::-1])  # r, from the top
    gained = -math.expm1(-spacing) * math.exp(-t * spacing) * np.append(0.0, reach[:-1])
    return np.asarray(lfilter([1.0], [1.0, -math.exp(-t * spacing)], gained)[::-1])
