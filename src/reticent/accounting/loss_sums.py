"""Privacy losses on a grid: one step from its δ(ε), the sum of many steps, and the δ(ε) of such a sum.

    one step         connect-the-dots (Doroshenko et al. 2022, algorithm 1): δ(ε) is right at the grid's points
    T equal steps    the T-th power of one step's Fourier transform, within the span that Chernoff's bound leaves it
    δ(ε)             m_∞ + Σ_{l > ε} p_l (1 − e^{ε − l})

These are what dp-accounting computes, several times quicker, and the tests hold them to it. It puts every mass into
a dictionary, takes a log-sum-exp of the whole grid for each of 40 orders (powers of one vector on a grid), and goes
over the whole grid for every ε. Here the masses are summed by blocks once, Σ p and Σ p e^{l_b − l} of a block that
begins at l_b, and an ε cuts one block.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats

Complexes = NDArray[np.complex128]
Span = tuple[int, int]  # the first and the last cell of a sum that are kept, counted from its least

_CUT = 1e-15  # mass outside the span; charged as an infinite loss, as dp-accounting does
_ORDERS = 20  # of Chernoff's bound, either way
_BLOCK = 1024  # cells
_VANISHED = 80.0  # nats: a frequency that is e^-80 of the whole changes no mass by more than that
_ODD = (1, 3, 5, 9, 15, 25, 27, 45, 75, 81)  # an FFT of one of these times a power of two is quick


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Masses [n] of the losses first·h, (first + 1)·h, …, and the mass of an infinite loss."""

    first: int
    masses: Floats
    infinite: float
    spacing: float

    def span(self, count: int) -> Span:
        """The cells of `count` such steps together that hold all but 1e-15 of the mass.

        By Chernoff's bound at orders k/n for n masses: log E e^{kS/n} of the sum is `count` times that of a step.
        """
        size = len(self.masses)
        slack = math.log(2.0 / _CUT)
        ends = []
        for rise in (np.exp(np.arange(size) / size), np.exp(-np.arange(size) / size)):
            weighted, reached = self.masses, []
            for k in range(1, _ORDERS + 1):
                weighted = weighted * rise
                total = float(weighted.sum())
                if total > 0.0:
                    reached.append((count * math.log(total) + slack) * size / k)
            ends.append(min(reached, default=math.inf))
        highest = (size - 1) * count
        return max(0, math.floor(-min(ends[1], 0.0))), int(min(highest, math.ceil(min(ends[0], highest))))

    def repeated(self, count: int, span: Span) -> "Losses":
        """`count` such steps together, on the cells of the span.

        Guarantee: pessimistic if the step is: what lies outside the span counts as an infinite loss.
        """
        if count == 1:
            return self
        low, high = span
        size = _quick_size(max(high - low + 1, len(self.masses)))
        # [size], the sum's cells modulo the size
        wrapped = np.fft.irfft(power(np.fft.rfft(self.masses, size), count), size)
        masses = np.roll(wrapped, -low)[: high - low + 1]
        infinite = _CUT - math.expm1(count * math.log1p(-self.infinite))
        return Losses(self.first * count + low, masses, infinite, self.spacing)

    def with_step(self, other: "Losses") -> "Losses":
        """These losses and those of another release on the same grid, together."""
        cells = len(self.masses) + len(other.masses) - 1
        size = _quick_size(cells)
        masses = np.fft.irfft(np.fft.rfft(self.masses, size) * np.fft.rfft(other.masses, size), size)[:cells]
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return Losses(self.first + other.first, masses, infinite, self.spacing)

    def positive(self) -> tuple[Floats, Floats]:
        """The losses above 0 and their masses, that of an infinite loss at the end."""
        masses = np.maximum(self.masses, 0.0)  # the FFT rounds below 0
        losses = self.spacing * (self.first + np.arange(len(masses)))
        above = (losses > 0.0) & (masses > 0.0)
        return np.append(losses[above], np.inf), np.append(masses[above], max(0.0, self.infinite))


def connected(deltas: Floats, first: int, *, spacing: float) -> Losses:
    """Losses whose δ is `deltas` [n ≥ 2] at the grid's points from `first` on, and joined between them.

    Guarantee: pessimistic, as δ is convex in e^ε. δ that rises by more than rounding is refused.
    """
    if not ((deltas >= 0.0) & (deltas <= 1.0)).all() or (np.diff(deltas) > 1e-12).any():
        raise ValueError("δ must fall as ε grows, within [0, 1]")
    falling = np.minimum.accumulate(deltas)
    steps = np.diff(falling)  # [n − 1]
    grown = math.expm1(spacing)
    masses = np.empty_like(falling)  # [n]
    masses[0] = 1.0 - falling[0] + steps[0] / grown
    masses[1:-1] = (steps[1:] - steps[:-1] * math.exp(spacing)) / grown
    masses[-1] = steps[-1] / math.expm1(-spacing)
    return Losses(first, np.maximum(masses, 0.0), float(falling[-1]), spacing)


def joined(deltas: Callable[[Floats], Floats], limits: tuple[float, float], *, spacing: float) -> Losses:
    """The losses on the grid between the limits whose δ joins the exact ones, `deltas`, at the grid's points."""
    first, last = math.floor(limits[0] / spacing), math.ceil(limits[1] / spacing)
    return connected(deltas(spacing * np.arange(first, last + 1, dtype=np.float64)), first, spacing=spacing)


def _quick_size(size: int) -> int:
    """The least size of a quick FFT that is at least `size`."""
    return min(odd << max(0, (-(-size // odd) - 1).bit_length()) for odd in _ODD)


def power(spectrum: Complexes, count: int) -> Complexes:
    """The spectrum [n] of `count` equal steps; most of its frequencies vanish and are left at 0.

    Guarantee: no mass that is made of it is off by more than e^-80, far below the round-off that is allowed for.
    """
    powers = np.zeros_like(spectrum)
    kept = spectrum.real**2 + spectrum.imag**2 > math.exp(-2.0 * _VANISHED / count)
    powers[kept] = spectrum[kept] ** count
    return powers


class ComposedLosses:
    """δ(ε) of losses of one side or two (the same one is given once), for many ε."""

    def __init__(self, sides: Sequence[Losses]) -> None:
        self.sides = tuple(sides)
        self._tails = [Tails(side.masses, side.first, spacing=side.spacing) for side in self.sides]

    def delta(self, epsilon: float) -> float:
        """The greater δ of both sides; round-off of the masses can make it negative.

        Guarantee: that of the losses, to rounding of their masses' sum.
        """
        tails = zip(self.sides, self._tails, strict=True)
        return float(max(side.infinite + tail.above(epsilon) for side, tail in tails))


class Tails:
    """Masses [n] at the losses first·h, (first + 1)·h, …, summed by blocks; p(l) e^{tl} where they are tilted."""

    def __init__(self, masses: Floats, first: int, *, spacing: float, tilt: float = 0.0) -> None:
        self._first, self._spacing, self._tilt = first, spacing, tilt
        blocks = -(-len(masses) // _BLOCK)
        self._masses = np.zeros((blocks, _BLOCK))
        self._masses.reshape(-1)[: len(masses)] = masses
        within = spacing * np.arange(_BLOCK)
        self._upper = self._masses @ np.exp(-tilt * within)  # [blocks]
        self._lower = self._masses @ np.exp(-(1.0 + tilt) * within)  # [blocks]
        self._starts = spacing * (first + _BLOCK * np.arange(blocks))  # [blocks], losses

    def above(self, epsilon: float) -> float:
        """Σ_{l > ε} p(l) e^{−t(l−ε)} (1 − e^{ε−l}): the block that ε cuts cell by cell, those above by sums."""
        above = max(0, math.floor(epsilon / self._spacing) + 1 - self._first)  # the first cell of a greater loss
        cut, start = divmod(above, _BLOCK)
        if cut >= len(self._masses):
            return 0.0
        losses = self._spacing * (self._first + np.arange(above, (cut + 1) * _BLOCK))  # [cells]
        shares = -np.expm1(epsilon - losses) * np.exp(self._tilt * (epsilon - losses))
        further = slice(cut + 1, None)
        nearer = epsilon - self._starts[further]
        kept = self._upper[further] - np.exp(nearer) * self._lower[further]
        return float(shares @ self._masses[cut, start:]) + float((np.exp(self._tilt * nearer) * kept).sum())
