"""Trade-off curve of a guarantee: what power any membership test can have at a false-positive rate.

For a test between two neighbouring worlds with false-positive rate α the power is at most the least of

    e^ε α + δ,   1 − e^−ε (1 − δ − α)      for every proved (ε, δ)
    the binary Rényi inequality              for every proved (order, ε), see `binary_renyi`

Each is concave in α, so their least is; f(α) = 1 − power is the trade-off function of f-DP (Dong, Roth and Su
2022). The area under the greatest ROC curve bounds every AUC, and its greatest height over the diagonal every
advantage.

Which metric may be compared with which guarantee is decided in `ceiling`, not here.
"""

import math
from functools import lru_cache

import numpy as np

from reticent.accounting.bounds.approximate import advantage_bound, log_probability_bounds
from reticent.accounting.bounds.binary_renyi import largest_advantage, largest_log_probabilities
from reticent.core.arrays import Floats
from reticent.core.guarantee import Guarantee

_Points = tuple[tuple[float, float], ...]
_NODES = 200
_ORDERS = 3  # of the proved Rényi points, solved exactly for each chance


def log_chance_ceilings(guarantee: Guarantee, log_p0: Floats, *, copies: int = 1) -> Floats:
    """log T(p0) [n]: the greatest chance of events in one world that have chance p0 [n] in the other.

    Rényi points count for one unit only: they do not scale with groups.

    Guarantee: no event has a higher chance in a world that is `copies` units away; 1 where nothing was proved.
    """
    return _log_chance_ceilings(guarantee.points, guarantee.renyi_points, log_p0, copies=copies)


def _log_chance_ceilings(points: _Points, renyi_points: _Points, log_p0: Floats, *, copies: int = 1) -> Floats:
    """log T(p0) [n] by proved points (ε, δ) and (order, ε)."""
    log_p0 = np.asarray(log_p0, dtype=np.float64)
    least = np.zeros_like(log_p0)
    for epsilon, delta in points:
        least = np.minimum(least, log_probability_bounds(log_p0, epsilon, delta=delta, copies=copies))
    if copies > 1:
        return least
    renyi = [(order, epsilon) for order, epsilon in renyi_points if epsilon != math.inf]
    if not renyi:
        return least
    possible = np.isfinite(log_p0)
    least[~possible] = -np.inf  # a finite divergence of any order: what never happens never happens
    # The closed form (e^ε p0)^((a−1)/a) finds the orders that matter for each chance; the exact inequality sharpens
    # those. Leaving the others out is safe: every order alone gives an upper bound.
    share = np.array([1.0 if order == math.inf else (order - 1.0) / order for order, _ in renyi])  # [orders]
    rough = share[:, None] * (
        np.array([epsilon for _, epsilon in renyi])[:, None] + log_p0[possible]
    )  # [orders, n]
    chosen = np.argsort(np.argsort(rough, axis=0, kind="stable"), axis=0) < _ORDERS  # [orders, n]
    for (order, epsilon), wanted in zip(renyi, chosen, strict=True):
        places = np.flatnonzero(possible)[wanted]
        if len(places):
            allowed = largest_log_probabilities(log_p0[places], order, epsilon=epsilon)
            least[places] = np.minimum(least[places], allowed)
    return least


def true_positive_rate_ceiling(guarantee: Guarantee, fpr: float) -> float:
    """Greatest true-positive rate at false-positive rate `fpr` that the guarantee allows any test.

    Guarantee: no test between two neighbouring worlds has a higher one; 1 where nothing was proved.
    """
    if not 0.0 <= fpr <= 1.0:
        raise ValueError(f"a false-positive rate is in [0, 1], found {fpr}")
    log_fpr = math.log(fpr) if fpr > 0.0 else -math.inf
    return math.exp(float(log_chance_ceilings(guarantee, np.array([log_fpr]))[0]))


def advantage_ceiling(guarantee: Guarantee) -> float:
    """Greatest true-positive minus false-positive rate, the total variation, that the guarantee allows.

    Guarantee: no test between two neighbouring worlds has a higher one.
    """
    allowed = [advantage_bound(e, delta=d) for e, d in guarantee.points]
    allowed += [largest_advantage(a, epsilon=d) for a, d in guarantee.renyi_points]
    return min([1.0, *allowed])


def auc_ceiling(guarantee: Guarantee) -> float:
    """Greatest area under a ROC curve that the guarantee allows, rounded up.

    Guarantee: no test between two neighbouring worlds has a higher one. The ceiling is concave, so between two
    nodes it lies below the lines through the neighbouring pairs of nodes; the area under those is summed.
    """
    return _greatest_area(guarantee.points, guarantee.renyi_points)


@lru_cache(maxsize=64)  # an audit compares the AUC of every attack with one guarantee
def _greatest_area(points: _Points, renyi_points: _Points) -> float:
    fpr = _nodes()  # [n]
    with np.errstate(divide="ignore"):
        power = np.exp(_log_chance_ceilings(points, renyi_points, np.log(fpr)))  # [n]
    return min(1.0, concave_area(fpr, power))


def concave_area(x: Floats, y: Floats) -> float:
    """Upper bound on ∫ of a non-decreasing concave function at most 1, known at ascending nodes x [n] as y [n]."""
    slopes = np.diff(y) / np.diff(x)  # [n − 1]
    total = 0.0
    for i in range(len(x) - 1):
        width, rise = x[i + 1] - x[i], y[i + 1] - y[i]
        steep = slopes[i - 1] if i > 0 else math.inf  # the slope inside lies between its neighbours'
        flat = slopes[i + 1] if i + 2 < len(x) else 0.0
        total += width * y[i] + _cap_area(float(width), float(rise), steep=float(steep), flat=max(float(flat), 0.0))
    return float(total)


def _cap_area(width: float, rise: float, *, steep: float, flat: float) -> float:
    """Area over the left end's level under two lines: rising by `steep` from it, by `flat` to the right end."""
    at_left = rise - flat * width  # height of the right-hand line at the left end
    if at_left <= 0.0:
        return 0.5 * width * rise
    if steep == math.inf:
        return 0.5 * width * (at_left + rise)
    if steep <= flat:
        return 0.5 * width * rise
    meet = min(at_left / (steep - flat), width)
    peak = steep * meet
    return 0.5 * meet * peak + 0.5 * (width - meet) * (peak + rise)


def _nodes() -> Floats:
    """Rates [n] from 0 to 1, dense at both ends where ceilings bend."""
    half = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, _NODES // 2)])
    return np.array(sorted({*half.tolist(), *(1.0 - half).tolist()}))  # np.unique would load masked arrays
