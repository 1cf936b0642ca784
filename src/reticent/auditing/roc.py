"""ROC curves of membership scores: area, true-positive rate at a false-positive rate, and their intervals.

    AUC = P[member > non-member] + P[equal]/2                    Mann–Whitney, ties by midranks

Its interval is the hull of two: DeLong's (1988) on the logit scale, which adapts to any distribution but is a point
at AUC 1; and Newcombe's method 5 (2006), a score interval with Hanley–McNeil's variance, sound at the ends.

    TPR(α) = P[member > t],  t with P[non-member > t] = α

The sample's threshold is random, and at α = 0.001 that randomness is most of the error. The share of non-members
above their own k-th largest score is Beta(k, n − k + 1) (smaller, with ties), so an order statistic whose rate is
at most α, and one whose rate is at least α, are known with any confidence whatever the distribution;
Clopper–Pearson on the members above them gives the ends.

Scores may be ±∞ but never NaN. Independent targets are assumed; of several records of one owner use `groups`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.intervals import normal_quantile, rate_lower, rate_upper
from reticent.core.estimate import Estimate as Estimate

Floats = NDArray[np.float64]
_BISECTIONS = 80


def as_scores(scores: ArrayLike, *, name: str) -> Floats:
    """A non-empty float64 vector of scores, refused where one is no number."""
    vector = np.asarray(scores, dtype=np.float64)
    if vector.ndim != 1 or len(vector) == 0:
        raise ValueError(f"{name}: expected a non-empty vector of scores, found shape {vector.shape}")
    if np.isnan(vector).any():
        raise ValueError(f"{name}: {int(np.isnan(vector).sum())} of {len(vector)} scores are NaN")
    return vector


def midranks(values: Floats) -> Floats:
    """Ranks [n] from 1, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[place], dtype=np.float64)


def auc(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Chance that a member outscores a non-member, ties counted half."""
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    ranks = midranks(np.concatenate([x, y]))
    return float((ranks[: len(x)].sum() - len(x) * (len(x) + 1) / 2.0) / (len(x) * len(y)))


def auc_interval(members: ArrayLike, nonmembers: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """AUC with its two-sided interval (hull of DeLong's on the logit scale and Newcombe's)."""
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    value = auc(x, y)
    z = normal_quantile(confidence)
    low = _newcombe_lower(value, len(x), len(y), z)
    high = 1.0 - _newcombe_lower(1.0 - value, len(x), len(y), z)
    if 0.0 < value < 1.0 and min(len(x), len(y)) > 1:
        centre = math.log(value) - math.log1p(-value)
        half = z * math.sqrt(_delong_variance(x, y)) / (value * (1.0 - value))
        low, high = min(low, _logistic(centre - half)), max(high, _logistic(centre + half))
    return Estimate(value, min(low, value), max(high, value))


def _delong_variance(x: Floats, y: Floats) -> float:
    """DeLong's variance of the AUC from the placements of each score among the other sample."""
    both = midranks(np.concatenate([x, y]))
    above = (both[: len(x)] - midranks(x)) / len(y)  # [m] share of non-members below each member
    below = (both[len(x) :] - midranks(y)) / len(x)  # [n] share of members below each non-member
    return float(above.var(ddof=1) / len(x) + below.var(ddof=1) / len(y))


def _newcombe_lower(value: float, m: int, n: int, z: float) -> float:
    """Least θ with θ̂ − θ ≤ z √V(θ), where V is Hanley and McNeil's variance with both sizes at their mean."""
    effective = (m + n) / 2.0

    def excess(theta: float) -> float:
        shape = 1.0 + (effective - 1.0) * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta))
        return value - theta - z * math.sqrt(theta * (1.0 - theta) * shape / (m * n))

    low, high = 0.0, value * (1.0 - 1e-12)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return low


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else math.exp(x) / (1.0 + math.exp(x))


def fewest_nonmembers(fpr: float) -> int:
    """Non-members below which a false-positive rate cannot be seen at all: 1/fpr."""
    return math.ceil(1.0 / fpr - 1e-9)


def tpr_at_fpr(
    members: ArrayLike, nonmembers: ArrayLike, *, fpr: float, confidence: float = 0.95
) -> Estimate | None:
    """True-positive rate at false-positive rate `fpr`, or None with fewer than 1/fpr non-members.

    The value is the share of members above the least threshold that at most `fpr` of the non-members pass.

    Guarantee: the interval holds the population's rate with at least `confidence`, for independent targets of any
    distribution, the threshold's randomness included. Below about 4.4/fpr non-members (at 95 %) its low end is 0.
    """
    if not 0.0 < fpr < 1.0:
        raise ValueError(f"a false-positive rate is in (0, 1), found {fpr}")
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    if len(y) < fewest_nonmembers(fpr):
        return None
    descending = np.sort(y)[::-1]
    tail = (1.0 - confidence) / 4.0  # two ends, each with two ways to fail: the threshold and the members
    strict, lax = _rank_below(fpr, len(y), tail), _rank_above(fpr, len(y), tail)
    allowed = math.floor(fpr * len(y) + 1e-9)
    value = _above(x, descending, allowed + 1)
    low = rate_lower(_above(x, descending, strict), len(x), tail=tail) if strict else 0.0
    high = rate_upper(int((x >= descending[lax - 1]).sum()), len(x), tail=tail) if lax <= len(y) else 1.0
    rate = value / len(x)
    return Estimate(rate, min(low, rate), max(high, rate))


def _above(x: Floats, descending: Floats, rank: int) -> int:
    """Members strictly above the non-members' score of that rank."""
    return int((x > descending[rank - 1]).sum()) if rank <= len(descending) else len(x)


def _rank_below(fpr: float, n: int, tail: float) -> int:
    """Greatest k whose rate (above the k-th largest) passes `fpr` with chance at most `tail`; 0 if none."""
    from scipy.special import bdtr  # P[Beta(k, n−k+1) > x] = P[Bin(n, x) ≤ k−1]

    ranks = np.arange(1, n + 1)
    return int(np.count_nonzero(bdtr(ranks - 1, n, fpr) <= tail))


def _rank_above(fpr: float, n: int, tail: float) -> int:
    """Least k whose rate (above the k-th largest) is below `fpr` with chance at most `tail`; n+1 if none."""
    from scipy.special import bdtr

    ranks = np.arange(1, n + 1)
    return n + 1 - int(np.count_nonzero(1.0 - bdtr(ranks - 1, n, fpr) <= tail))
