"""The largest chance of an event in one world, given its chance in the neighbouring one and a Rényi guarantee.

Seeing only whether an event happened is post-processing, so the two Bernoulli variables obey the same bound:

    D_a(p1 ‖ p0) ≤ d   and   D_a(p0 ‖ p1) ≤ d,    I_a(p‖q) = p^a q^(1−a) + (1−p)^a (1−q)^(1−a)

Solved for p1 this is the tightest consequence of one (order, d) for an event. p1 is a reconstructed secret's
probability (`leakage`) or a test's power (`tradeoff`). Both directions hold because neighbours are symmetric.

Everything is in log space: p0 may be 2^−1000.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from reticent.accounting.curve import RenyiCurve
from reticent.core.arrays import Floats
from reticent.core.divergence import renyi_divergence

_RESOLUTION = 1e-10  # of the logarithm that is returned
_SECTIONS = 64  # one call on 64 points costs little more than one on 2
_SECTIONS_OF_MANY = 16  # where many chances are solved at once, the points are the cost
_CLOSER = 9  # orders between the two neighbours of the best one, so many times; its logarithm is right to 1e-3 then
_REFINEMENTS = 5


def _check(order: float, epsilon: float) -> None:
    """Refuse what is no Rényi point; also NaN, of which nothing would follow."""
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")
    if not epsilon >= 0.0:
        raise ValueError(f"a divergence is at least 0, found {epsilon}")


def largest_log_probability(log_p0: float, order: float, *, epsilon: float) -> float:
    """log p1 of the greatest p1 that (order, epsilon) allows an event of chance p0, rounded up; at most 0.

    Guarantee: if both directions of D_order between two worlds are at most `epsilon` and an event has chance
    at most p0 in one, it has at most the returned chance in the other.
    """
    return float(largest_log_probabilities(np.array([log_p0]), order, epsilon=epsilon)[0])


def least_log_probability(log_p0: float, points: Iterable[tuple[float, float]]) -> float:
    """The least `largest_log_probability` of several Rényi points (order, epsilon).

    Guarantee: as `largest_log_probability`, for any of the points.
    """
    return _least_of_points(log_p0, list(points))[0]


def least_log_probability_on(curve: RenyiCurve, log_p0: float) -> float:
    """The least `largest_log_probability` over the orders of a curve: a coarse grid first, then ever closer orders.

    Guarantee: as `largest_log_probability`, for some order of the curve; a better order may exist.
    """
    orders = curve.coarse_orders()
    found, best = _least_of_points(log_p0, curve.points(orders))
    for _ in range(_REFINEMENTS):
        place = int(np.searchsorted(orders, best))
        low, high = orders[max(place - 1, 0)], orders[min(place + 1, len(orders) - 1)]
        if not low < best < math.inf or high == math.inf:
            break
        orders = np.array(sorted({*(1.0 + np.geomspace(low - 1.0, high - 1.0, _CLOSER)).tolist(), best}))
        least, order = _least_of_points(log_p0, curve.points(orders))
        if least < found:
            found, best = least, order
    return found


def _least_of_points(log_p0: float, points: list[tuple[float, float]]) -> tuple[float, float]:
    """The least chance that any point allows, with the point's order; 0 and ∞ where there is none.

    A point that allows the least chance found so far cannot give a smaller one. One look at all of them tells, and
    only the one that is furthest from allowing it is searched, until none is left.
    """
    for order, epsilon in points:
        _check(order, epsilon)
    pure = [
        largest_log_probability(log_p0, order, epsilon=epsilon) for order, epsilon in points if order == math.inf
    ]
    found, best = min(pure, default=0.0), math.inf
    left = sorted(
        (point for point in points if point[0] < math.inf and point[1] < math.inf),
        key=lambda point: float(_classic(log_p0, point[0], epsilon=point[1])),
    )
    place = 0  # the point with the least classic bound comes first, so that few are searched
    while left:
        order, epsilon = left.pop(place)
        least = largest_log_probability(log_p0, order, epsilon=epsilon)
        if least < found:
            found, best = least, order
        if left:
            orders, epsilons = np.array(left).T  # [n]
            excess = _divergence(np.full(len(left), found), np.full(len(left), log_p0), orders) - epsilons
            place = int(np.argmax(excess))
            if not excess[place] > 0.0:
                break
    return found, best


def largest_log_probabilities(log_p0: Floats, order: float, *, epsilon: float) -> Floats:
    """The same for many chances [n] at once.

    Guarantee: as `largest_log_probability`, for each of them.
    """
    log_p0 = np.asarray(log_p0, dtype=np.float64)
    if not (log_p0 <= 0.0).all():
        raise ValueError("log p0 must be at most 0")
    _check(order, epsilon)
    if epsilon == math.inf:
        return np.zeros_like(log_p0)
    if order == math.inf:
        below = log_complement(np.minimum(0.0, log_complement(log_p0) - epsilon))
        return np.asarray(np.minimum(np.minimum(0.0, log_p0 + epsilon), below))
    high = np.maximum(log_p0, _classic(log_p0, order, epsilon=epsilon))  # [n]

    def divergence(log_p1: Floats) -> Floats:  # [n, sections] in and out
        return _divergence(log_p1, log_p0[:, None], order)

    return _last_allowed(divergence, epsilon, ends=(log_p0, high))


def largest_advantage(order: float, *, epsilon: float) -> float:
    """The greatest total variation p1 − p0 between two worlds that (order, epsilon) allows, rounded up.

    Guarantee: the set of allowed (p0, p1) is convex and symmetric under (p0, p1) → (1 − p1, 1 − p0), so the
    greatest difference is reached where p0 = 1 − p1.
    """
    _check(order, epsilon)
    if epsilon == math.inf:
        return 1.0
    if order == math.inf:
        return math.tanh(epsilon / 2.0)

    @np.errstate(divide="ignore")  # a gap of 1 is an infinite divergence
    def divergence(gap: Floats) -> Floats:
        return _divergence(np.log1p(gap) - math.log(2.0), np.log1p(-gap) - math.log(2.0), order)

    return float(_last_allowed(divergence, epsilon, ends=(np.array([0.0]), np.array([1.0])))[0])


def log_complement(log_p: Floats) -> Floats:
    """log(1 − p) from log p, exact at both ends."""
    log_p = np.asarray(log_p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        near_one = np.log(-np.expm1(np.minimum(log_p, 0.0)))
        return np.asarray(np.where(log_p > -math.log(2.0), near_one, np.log1p(-np.exp(np.minimum(log_p, -0.5)))))


def _classic(log_p0: Floats | float, order: float, *, epsilon: float) -> Floats:
    """I_a ≥ p1^a p0^(1−a) alone already bounds log p1: nothing above can be allowed."""
    bound = epsilon + log_p0 if order == math.inf else (order - 1.0) * (epsilon + log_p0) / order
    return np.asarray(np.minimum(0.0, bound))


def _last_allowed(divergence: Callable[[Floats], Floats], epsilon: float, *, ends: tuple[Floats, Floats]) -> Floats:
    """Points [n] between the ends [n] up to which a rising divergence stays within epsilon, rounded up.

    Every round cuts the bracket into sections and keeps the one in which epsilon is passed; its upper end is
    returned, which is not allowed itself, or is the given end.
    """
    low, high = (np.array(end) for end in ends)  # copies: ends are narrowed below
    sections = _SECTIONS if len(low) < 8 else _SECTIONS_OF_MANY
    share = np.arange(1, sections + 1) / sections  # [sections], the last is the upper end
    while (high - low > _RESOLUTION).any():
        cuts = low[:, None] + (high - low)[:, None] * share  # [n, sections]
        allowed = divergence(cuts) <= epsilon
        passed = np.where(allowed.all(axis=1), sections - 1, np.argmin(allowed, axis=1))  # [n]
        rows = np.arange(len(low))
        narrowed = np.where(passed > 0, cuts[rows, np.maximum(passed - 1, 0)], low)
        # Where all is allowed the upper end itself is the answer: close the bracket on it.
        low, high = np.where(allowed.all(axis=1), cuts[rows, passed], narrowed), cuts[rows, passed]
    return high


def _divergence(log_p1: Floats, log_p0: Floats, order: float | Floats) -> Floats:
    """The greater direction of D_a between Bernoulli variables, element by element."""
    events = np.stack(np.broadcast_arrays(log_p1, log_p0))  # [2, ...]
    worlds = np.stack([events, log_complement(events)], axis=-1)  # [2, ..., 2]
    # Both directions in one call: on arrays this small the calls are the cost.
    directions = renyi_divergence(worlds, worlds[::-1], order)  # [2, ...]
    return np.asarray(directions.max(axis=0))
