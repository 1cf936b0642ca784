"""What (ε, δ) alone allows: the chance of an event, total variation, and groups of units.

For an event of chance p0 in one world and p1 in the other, both directions of (ε, δ)-DP give

    p1 ≤ e^ε p0 + δ      and      p1 ≤ 1 − e^−ε (1 − δ − p0)

and p1 − p0 ≤ (e^ε − 1 + 2δ)/(e^ε + 1) (Kairouz, Oh and Viswanath 2015). A group of κ units is κ steps from one
world to the other: (κε, δ (e^{κε} − 1)/(e^ε − 1)), the tight geometric sum. All in log space.
"""

import math

import numpy as np

from reticent.accounting.bounds.binary_renyi import log_complement
from reticent.core.arrays import Floats


def _check(epsilon: float, delta: float) -> None:
    """Refuse what is no (epsilon, delta); also NaN, of which nothing would follow."""
    if not (epsilon >= 0.0 and 0.0 <= delta <= 1.0):
        raise ValueError(f"need epsilon at least 0 and delta in [0, 1], found {epsilon} and {delta}")


def log_probability_bound(log_p0: float, epsilon: float, *, delta: float, copies: int = 1) -> float:
    """log of the greatest p1 that (epsilon, delta) allows an event of chance p0, for a group of `copies` units.

    Guarantee: valid whichever of the two worlds p0 belongs to; at most 0.
    """
    return float(log_probability_bounds(np.array([log_p0]), epsilon, delta=delta, copies=copies)[0])


def log_probability_bounds(log_p0: Floats, epsilon: float, *, delta: float, copies: int = 1) -> Floats:
    """The same for many chances [n] at once.

    Guarantee: as `log_probability_bound`, for each of them.
    """
    _check(epsilon, delta)
    log_p0 = np.asarray(log_p0, dtype=np.float64)
    if delta >= 1.0 or epsilon == math.inf:
        return np.zeros_like(log_p0)
    reach = copies * epsilon
    log_delta = log_group_delta(epsilon, delta, copies=copies)
    above = np.logaddexp(log_p0 + reach, log_delta)
    left = np.minimum(0.0, np.logaddexp(log_p0, log_delta))  # p0 + δ: what 1 − e^−ε(1 − δ − p0) starts from
    below = log_complement(log_complement(left) - reach)
    return np.asarray(np.minimum(0.0, np.minimum(above, below)))


def log_group_delta(epsilon: float, delta: float, *, copies: int) -> float:
    """log of δ (e^{κε} − 1)/(e^ε − 1), the tight δ of κ units; −inf for δ = 0. It may pass log 1.

    Guarantee: κ units are (κ·epsilon, that)-DP if one is (epsilon, delta)-DP.
    """
    if copies < 1:
        raise ValueError(f"copies must be at least 1, found {copies}")
    if delta == 0.0:
        return -math.inf
    if copies == 1:
        return math.log(delta)
    if epsilon == 0.0:
        return math.log(delta) + math.log(copies)
    growth = copies * epsilon - epsilon  # (e^{κε} − 1)/(e^ε − 1) = e^{κε−ε} (1 − e^{−κε})/(1 − e^−ε)
    shape = math.log(-math.expm1(-copies * epsilon)) - math.log(-math.expm1(-epsilon))
    return math.log(delta) + growth + shape


def advantage_bound(epsilon: float, *, delta: float) -> float:
    """Greatest total variation between neighbours that (epsilon, delta) allows."""
    _check(epsilon, delta)
    if epsilon == math.inf:
        return 1.0
    shrink = math.exp(-epsilon)
    return min(1.0, (-math.expm1(-epsilon) + 2.0 * delta * shrink) / (1.0 + shrink))
