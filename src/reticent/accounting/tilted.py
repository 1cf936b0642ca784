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
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from reticent.accounting.curve import leaves
from reticent.accounting.light_imports import ndtr
from reticent.accounting.loss_sums import Tails, power
from reticent.accounting.prices.by_event import price_of
from reticent.accounting.prices.hockey_stick import Direction
from reticent.core.arrays import Floats
from reticent.core.divergence import log_sum_exp
from reticent.core.event import Event, SampledGaussian
from reticent.core.guarantee import Neighbours

_REACH: Final = 37.0  # deviations: 1e-299 of the mass is beyond
_TOLERANCE: Final = 1e-3  # nats: what the grid may add to ε
_COARSEST: Final = 4e-3
_MOST_CELLS: Final = 1 << 21
_DEVIATIONS: Final = 12.0  # of the tilted sum, on either side of ε
_RAISED: Final = 1e-8
_ROUND_OFF: Final = 16.0 * 2.0**-52  # allowance per step and per cell, as in `pld`
_TILTS: Final = np.geomspace(0.05, 2000.0, 60)
_BLOCK: Final = 64  # cells whose moments are taken at once: e^{2000 · 64 · 0.004} is still a float


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
    curve = _curve(event, neighbours, log_p0=log_p0, epsilon=None)
    if curve is None:
        return None
    cells = range(curve.first, curve.last)

    def log_chance(cell: int) -> float:
        return float(np.logaddexp(curve.spacing * cell + log_p0, curve.log_delta(curve.spacing * cell)))

    # e^ε p0 + δ(ε) is convex in e^ε, and straight between the cells: it falls up to its least value and rises then.
    best = bisect_left(cells, True, key=lambda cell: log_chance(cell) <= log_chance(cell + 1))
    return min(0.0, log_chance(curve.first + best))


def _curve(event: Event, neighbours: Neighbours, *, log_p0: float, epsilon: float | None) -> "_Curve | None":
    """δ(ε) around the best ε for p0, or around a given one."""
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
    first = max(0, centre - width // 4)  # from there on nothing was folded into the window that belongs there
    windows = tuple(each.window(centre, width) for each in sums)
    return _Curve(windows, spacing, first, centre + width // 2 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """log δ of the worse direction at any ε between the first cell and the last."""

    windows: "tuple[_Window, ...]"
    spacing: float
    first: int
    last: int

    def log_delta(self, epsilon: float) -> float:
        """log δ at ε."""
        return max(window.log_delta(epsilon) for window in self.windows)


@lru_cache(maxsize=8)
def _sums(event: Event, neighbours: Neighbours) -> "tuple[_Sum, ...] | None":
    """The loss in every direction; None where the event is not of Gaussian steps or too fine a grid is needed."""
    counts = _counted(event)
    if not counts:
        return None
    spacing = min(_COARSEST, math.sqrt(4.0 * _TOLERANCE / sum(counts.values())))
    kinds = []  # of steps: each in every direction
    for leaf, count in counts.items():
        cells = _cells(leaf, neighbours, spacing)
        if cells is None:
            return None
        ways = [cells, cells.mirrored()] if neighbours is Neighbours.ADD_REMOVE else [cells]
        kinds.append([way.step(spacing, count) for way in ways])
    return tuple(
        _Sum(steps, spacing, np.sum([step.count * _log_moments(step, spacing) for step in steps], axis=0))
        for steps in zip(*kinds, strict=True)
    )


def _counted(event: Event) -> dict[SampledGaussian, int] | None:
    """How often each kind of step was taken, all Gaussians as one; None where something else is among them."""
    counts: dict[SampledGaussian, int] = {}
    precision = 0.0
    for leaf, count in leaves(event):
        known = price_of(leaf).as_sampled_gaussian
        if known is None:
            return None
        step = known(leaf)
        if step.sampling_rate == 1.0:
            precision += count / step.noise_multiplier**2
        else:
            counts[step] = counts.get(step, 0) + count
    if precision > 0.0:
        counts[SampledGaussian(precision**-0.5, 1.0)] = 1
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Masses [n] of P and Q between the losses first·h, (first + 1)·h, …, and P's mass above and Q's below them."""

    first: int
    ahead: Floats
    other: Floats
    above: float
    below: float

    def mirrored(self) -> "_Cells":
        """P and Q change places, and losses their sign."""
        first = -(self.first + len(self.ahead))
        return _Cells(first, self.other[::-1], self.ahead[::-1], self.below, self.above)

    def step(self, spacing: float, count: int) -> _Step:
        """A cell's mass P and Q goes to its ends a and b: a + b = P, a e^{−l} + b e^{−l−h} = Q."""
        losses = _grid(spacing, self.first, self.first + len(self.ahead))
        upper = np.clip((self.ahead - np.exp(losses) * self.other) / -math.expm1(-spacing), 0.0, self.ahead)  # b
        masses = np.append(self.ahead - upper, 0.0) + np.insert(upper, 0, 0.0)
        return _Step(self.first, (1.0 + _RAISED) * masses, self.above, count)


def _cells(leaf: SampledGaussian, neighbours: Neighbours, spacing: float) -> _Cells | None:
    """One step, of removing or replacing one, on the grid; None where it would have too many cells."""
    sigma, q = leaf.noise_multiplier, leaf.sampling_rate
    way = Direction.REMOVE if neighbours is Neighbours.ADD_REMOVE else Direction.REPLACE
    low, high = (_loss(x, way, sigma, q) for x in (-1.0 - _REACH * sigma, 1.0 + _REACH * sigma))
    first, last = math.floor(low / spacing), math.ceil(high / spacing)
    if last - first > _MOST_CELLS:
        return None
    edges = _places(_grid(spacing, first, last + 1), way, sigma, q)  # x [n + 1], from −∞ on
    other = _masses(edges, 0.0, sigma)
    ahead = q * _masses(edges, 1.0, sigma) + (1.0 - q) * other  # of M_1, [n]
    if way is Direction.REPLACE:
        other = q * _masses(edges, -1.0, sigma) + (1.0 - q) * other
    above, below = ndtr(-(edges[-1] - 1.0) / sigma), ndtr(edges[0] / sigma)
    return _Cells(first, ahead, other, float(above), float(below))


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
    """Normal masses [n] between the ascending edges [n + 1], as differences of the smaller tails."""
    z = (edges - mean) / sigma
    tails = ndtr(-np.abs(z))
    masses = np.abs(np.diff(tails))
    left = int(np.searchsorted(z, 0.0, side="right")) - 1  # the cell that holds 0, where one does
    if 0 <= left < len(masses):
        masses[left] = ndtr(z[left + 1]) - ndtr(z[left])
    return np.asarray(masses)


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """The loss of all steps in one direction: its steps, the spacing h, and log E e^{tL} for every tilt t."""

    steps: tuple[_Step, ...]
    spacing: float
    moments: Floats

    def best_epsilon(self, log_p0: float) -> float:
        """About the ε of the least e^ε p0 + δ(ε), with Chernoff's bound as δ."""
        # min over t and ε of max(ε + log p0, log M(t) − tε): equal at ε = (log M − log p0)/(1 + t).
        return max(0.0, float(((self.moments - log_p0) / (1.0 + _TILTS)).min()))

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

    def window(self, centre: int, width: int) -> "_Window":
        """The convolved masses of `width` cells, (centre − width/2)·h on."""
        t, spacing = self.tilt(centre), self.spacing
        spectrum = np.ones(width // 2 + 1, dtype=np.complex128)
        log_moment, shift, cells = 0.0, 0, 0
        for step in self.steps:
            masses, moment = _tilted(step, step.losses(spacing), t)
            folded = np.bincount(np.arange(len(masses)) % width, weights=masses, minlength=width)
            spectrum *= power(np.fft.rfft(folded), step.count)
            log_moment += step.count * moment
            shift += step.count * step.first
            cells += len(masses)
        # Cell j of the result is the loss (shift + j)·h modulo the window's width.
        bottom = centre - width // 2
        convolved = np.roll(np.fft.irfft(spectrum, width), (shift - bottom) % width)  # [width]
        lost = math.fsum(step.count * step.lost for step in self.steps)
        above = float((self.moments - _TILTS * (spacing * (bottom + width - 1))).min())  # Chernoff's bound
        return _Window(
            tails=Tails(np.maximum(convolved, 0.0), bottom, spacing=spacing, tilt=t),
            tilt=t,
            log_moment=log_moment,
            round_off=_ROUND_OFF * (sum(step.count for step in self.steps) + width + cells),
            log_lost=float(np.logaddexp(above, math.log(lost) if lost > 0.0 else -math.inf)),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Window:
    """The tilted sum around one ε, and what was lost of it."""

    tails: Tails
    tilt: float
    log_moment: float
    round_off: float
    log_lost: float

    def log_delta(self, epsilon: float) -> float:
        """log δ at an ε of the window."""
        kept = math.log(self.tails.above(epsilon) + self.round_off)
        return float(np.logaddexp(self.log_moment - self.tilt * epsilon + kept, self.log_lost))


def _log_moments(step: _Step, spacing: float) -> Floats:
    """log M(t) of one step at every tilt: block by block, e^{tl} being the block's factor times the cell's."""
    blocks = -(-len(step.masses) // _BLOCK)
    masses = np.zeros((blocks, _BLOCK))
    masses.reshape(-1)[: len(step.masses)] = step.masses
    within = np.exp(np.outer(spacing * np.arange(_BLOCK), _TILTS))  # [_BLOCK, tilts]
    starts = spacing * (step.first + _BLOCK * np.arange(blocks, dtype=np.float64))  # [blocks], losses
    with np.errstate(divide="ignore"):
        logs = np.log(masses @ within) + np.outer(starts, _TILTS)  # [blocks, tilts]
    return log_sum_exp(logs.T)


def _tilted(step: _Step, losses: Floats, t: float) -> tuple[Floats, float]:
    """The tilted masses, which sum to 1, and log M(t)."""
    with np.errstate(divide="ignore"):
        logs = np.log(step.masses) + t * losses
    total = float(log_sum_exp(logs))
    return np.exp(logs - total), total
