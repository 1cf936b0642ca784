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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.light_imports import privacy_losses
from reticent.core.arrays import Floats

Complexes = NDArray[np.complex128]
Span = tuple[int, int]  # the first and the last cell of a sum that are kept, counted from its least

_CUT = 1e-15  # mass outside the span; charged as an infinite loss, as dp-accounting does
_ORDERS = 20  # of Chernoff's bound, either way
_BLOCK = 1024  # cells
_VANISHED = 80.0  # nats: a frequency that is e^-80 of the whole changes no mass by more than that


def connected(deltas: Floats, first: int, *, spacing: float) -> Any:
    """One side whose δ is `deltas` [n ≥ 2] at the grid's points from `first` on, and joined between them.

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
    return privacy_losses().pld_pmf.DensePLDPmf(spacing, first, np.maximum(masses, 0.0), float(falling[-1]), True)


def _sides(distribution: Any) -> list[Any]:
    """The sides of dp-accounting's distribution, removing first: one where both are the same."""
    sides = [distribution._pmf_remove, distribution._pmf_add]
    return [side.to_dense_pmf() for side in (sides[:1] if sides[0] is sides[1] else sides)]


def span_of_sums(one: Any, count: int) -> list[Span]:
    """The cells of `count` such steps together that hold all but 1e-15 of the mass, for each side."""
    return [_span(np.asarray(side._probs), count) for side in _sides(one)]


def _span(masses: Floats, count: int) -> Span:
    """By Chernoff's bound at orders k/n for n masses: log E e^{kS/n} of the sum is `count` times that of a step."""
    size = len(masses)
    slack = math.log(2.0 / _CUT)
    ends = []
    for rise in (np.exp(np.arange(size) / size), np.exp(-np.arange(size) / size)):
        weighted, reached = masses, []
        for k in range(1, _ORDERS + 1):
            weighted = weighted * rise
            total = float(weighted.sum())
            if total > 0.0:
                reached.append((count * math.log(total) + slack) * size / k)
        ends.append(min(reached, default=math.inf))
    highest = (size - 1) * count
    return max(0, math.floor(-min(ends[1], 0.0))), int(min(highest, math.ceil(min(ends[0], highest))))


def composed(one: Any, count: int, spans: list[Span]) -> Any:
    """dp-accounting's distribution of `count` steps, on the cells of `spans`.

    Guarantee: pessimistic if the step is: what lies outside the spans counts as an infinite loss.
    """
    if count == 1:
        return one
    made = [_repeated(side, count, span) for side, span in zip(_sides(one), spans, strict=True)]
    return privacy_losses().privacy_loss_distribution.PrivacyLossDistribution(*made)


def _repeated(side: Any, count: int, span: Span) -> Any:
    from scipy.fft import irfft, next_fast_len, rfft

    low, high = span
    size = next_fast_len(max(high - low + 1, side.size), real=True)
    wrapped = irfft(power(rfft(side._probs, size), count), size)  # [size], the sum's cells modulo the size
    masses = np.roll(wrapped, -low)[: high - low + 1]
    infinite = _CUT - math.expm1(count * math.log1p(-side._infinity_mass))
    first = side._lower_loss * count + low
    return privacy_losses().pld_pmf.DensePLDPmf(side._discretization, first, masses, infinite, True)


def power(spectrum: Complexes, count: int) -> Complexes:
    """The spectrum [n] of `count` equal steps; most of its frequencies vanish and are left at 0.

    Guarantee: no mass that is made of it is off by more than e^-80, far below the round-off that is allowed for.
    """
    powers = np.zeros_like(spectrum)
    kept = spectrum.real**2 + spectrum.imag**2 > math.exp(-2.0 * _VANISHED / count)
    powers[kept] = spectrum[kept] ** count
    return powers


class ComposedLosses:
    """δ(ε) of dp-accounting's distribution, for many ε."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self._sides = [
            (float(side._infinity_mass), Tails(side._probs, side._lower_loss, spacing=float(side._discretization)))
            for side in _sides(distribution)
        ]

    def delta(self, epsilon: float) -> float:
        """The greater δ of both sides; round-off of the masses can make it negative.

        Guarantee: the distribution's own, to rounding of its masses' sum.
        """
        return max(infinite + tails.above(epsilon) for infinite, tails in self._sides)


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
