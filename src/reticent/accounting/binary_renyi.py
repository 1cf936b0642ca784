"""The largest chance of an event in one world, given its chance in the neighbouring one and a Rényi guarantee.

Seeing only whether an event happened is post-processing, so the two Bernoulli variables obey the same bound:

    D_a(p1 ‖ p0) ≤ d   and   D_a(p0 ‖ p1) ≤ d,    I_a(p‖q) = p^a q^(1−a) + (1−p)^a (1−q)^(1−a)

Solved for p1 this is the tightest consequence of one (order, d) for an event. p1 is a reconstructed secret's
probability (`leakage`) or a test's power (`tradeoff`). Both directions hold because neighbours are symmetric.

Everything is in log space: p0 may be 2^−1000.
"""

import math
from collections.abc import Callable

import numpy as np

from reticent.core.divergence import symmetric_renyi_divergence

_RESOLUTION = 1e-10  # of the root, which is moved up by twice as much


def largest_log_probability(log_p0: float, order: float, *, epsilon: float) -> float:
    """log p1 of the greatest p1 that (order, epsilon) allows an event of chance p0, rounded up; at most 0.

    Guarantee: if both directions of D_order between two worlds are at most `epsilon` and an event has chance
    at most p0 in one, it has at most the returned chance in the other.
    """
    if not log_p0 <= 0.0:
        raise ValueError("log p0 must be at most 0")
    if epsilon < 0.0:
        raise ValueError(f"a divergence is at least 0, found {epsilon}")
    if log_p0 == 0.0 or epsilon == math.inf:
        return 0.0
    if order == math.inf:
        return min(0.0, log_p0 + epsilon, log_complement(-epsilon + log_complement(log_p0)))
    # I_a ≥ p1^a p0^(1−a) alone already gives the classic bound: nothing above it can be allowed.
    low, high = log_p0, min(0.0, (order - 1.0) * (epsilon + log_p0) / order)
    return _last_allowed(lambda log_p1: _divergence(log_p1, log_p0, order), epsilon, ends=(low, high))


def largest_advantage(order: float, *, epsilon: float) -> float:
    """The greatest total variation p1 − p0 between two worlds that (order, epsilon) allows, rounded up.

    Guarantee: the set of allowed (p0, p1) is convex and symmetric under (p0, p1) → (1 − p1, 1 − p0), so the
    greatest difference is reached where p0 = 1 − p1.
    """
    if epsilon == math.inf:
        return 1.0
    if order == math.inf:
        return math.tanh(epsilon / 2.0)

    def divergence(gap: float) -> float:
        return _divergence(math.log1p(gap) - math.log(2.0), math.log1p(-gap) - math.log(2.0), order)

    return _last_allowed(divergence, epsilon, ends=(0.0, 1.0 - 1e-15))


def log_complement(log_p: float) -> float:
    """log(1 − p) from log p, exact at both ends."""
    if log_p >= 0.0:
        return -math.inf
    return math.log(-math.expm1(log_p)) if log_p > -math.log(2.0) else math.log1p(-math.exp(log_p))


def _last_allowed(divergence: Callable[[float], float], epsilon: float, *, ends: tuple[float, float]) -> float:
    """The point between `ends` up to which a rising divergence stays within epsilon, rounded up."""
    from scipy.optimize import brentq

    low, high = ends
    if high <= low or divergence(high) <= epsilon:
        return max(low, high)
    # The root mostly lies just below the upper end: go down in growing steps until it is enclosed.
    step, below = (high - low) / 256.0, high
    while below > low:
        below = max(low, high - step)
        if divergence(below) <= epsilon:
            break
        high, step = below, 4.0 * step
    while not math.isfinite(divergence(high)):  # would mislead the search
        middle = 0.5 * (below + high)
        below, high = (middle, high) if divergence(middle) <= epsilon else (below, middle)
        if high - below < _RESOLUTION:
            return high
    root = float(brentq(lambda point: divergence(point) - epsilon, below, high, xtol=_RESOLUTION, rtol=8.9e-16))
    return min(ends[1], root + 2.0 * _RESOLUTION)


def _divergence(log_p1: float, log_p0: float, order: float) -> float:
    """The greater direction of D_a between two Bernoulli variables."""
    first = np.array([log_p1, log_complement(log_p1)])  # [2]
    second = np.array([log_p0, log_complement(log_p0)])  # [2]
    return float(symmetric_renyi_divergence(first, second, order))
