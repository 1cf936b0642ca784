"""ROC curves of membership scores: area, true-positive rate at a false-positive rate, and their intervals.

    AUC = P[member > non-member] + P[equal]/2                    Mann–Whitney, ties by midranks

Its interval is the hull of two: DeLong's (1988) on the logit scale, which adapts to any distribution but is a point
at AUC 1; and Newcombe's method 5 (2006), a score interval with Hanley–McNeil's variance, sound at the ends.

    TPR(α) = P[member > t],  t with P[non-member > t] = α

The sample's threshold is random, and at α = 0.001 that randomness is most of the error. The share of non-members
above their own k-th largest score is Beta(k, n − k + 1) (smaller, with ties), so an order statistic whose rate is
at most α, and one whose rate is at least α, are known with any confidence whatever the distribution;
Clopper–Pearson on the members above them gives the ends.

Scores may be ±∞ but never NaN.

Records of one owner are not independent: who writes as the training data does scores high with every text. Where
`Owners` are given, they are what is taken as independent: DeLong's variance becomes Obuchowski's (1997), which
sums placements within owners (an owner may have members and non-members), with Student's t for few owners;
Newcombe's sizes shrink by the ratio of the two variances; and every count of a rate is that of
`core.statistics.proportion` by owner.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.metrics.intervals import student_quantile
from reticent.core.arrays import Flags, Floats
from reticent.core.errors import UsageError
from reticent.core.statistics.estimate import Estimate as Estimate
from reticent.core.statistics.proportion import Share, effective_trials

Ints = NDArray[np.int64]
_BISECTIONS = 80


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """The owner of each member [m] and non-member [n], by number; one owner may have both."""

    members: Ints
    nonmembers: Ints

    @classmethod
    def of(cls, owners: Sequence[str], is_member: ArrayLike) -> "Owners | None":
        """The owners of labelled targets; None where each has one target: nothing to group."""
        _, numbers = np.unique(np.asarray(owners, dtype=str), return_inverse=True)
        labels = np.asarray(is_member, dtype=np.bool_)
        if len(numbers) != len(labels):
            raise ValueError(f"expected {len(labels)} owners, found {len(numbers)}")
        if len(numbers) == 0 or numbers.max() + 1 == len(numbers):
            return None
        return cls(numbers[labels].astype(np.int64), numbers[~labels].astype(np.int64))

    @property
    def count(self) -> int:
        """How many owners there are."""
        return len(np.unique(np.concatenate([self.members, self.nonmembers])))

    @property
    def has_mixed(self) -> bool:
        """Whether some owner has members and non-members."""
        return bool(np.isin(self.members, self.nonmembers).any())

    @property
    def effective(self) -> tuple[int, int]:
        """Independent members and non-members that say at least as much as these."""
        return effective_count(self.members), effective_count(self.nonmembers)


def effective_count(owners: ArrayLike) -> int:
    """Independent records that say at least as much as records of these owners do."""
    return math.floor(effective_trials(np.unique(owners, return_counts=True)[1].tolist()) + 1e-9)


def as_scores(scores: ArrayLike, *, name: str) -> Floats:
    """A non-empty float64 vector of scores, refused where one is no number."""
    vector = np.asarray(scores, dtype=np.float64)
    if vector.ndim != 1 or len(vector) == 0:
        raise ValueError(f"{name}: expected a non-empty vector of scores, found shape {vector.shape}")
    if np.isnan(vector).any():
        raise ValueError(f"{name}: {int(np.isnan(vector).sum())} of {len(vector)} scores are NaN")
    return vector


def labelled(scores: ArrayLike, is_member: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores [n] and boolean labels [n], refused unless both classes are there."""
    values, labels = as_scores(scores, name="membership scores"), np.asarray(is_member)
    if labels.dtype != np.bool_ or labels.shape != values.shape:
        raise ValueError(f"labels must be booleans of shape {values.shape}, found {labels.dtype} {labels.shape}")
    if labels.all() or not labels.any():
        raise UsageError(
            "membership inference needs members and non-members",
            found=f"{int(labels.sum())} members of {len(labels)} targets",
            hint="give held-out texts of the same kind beside the training texts",
        )
    return values, labels


def midranks(values: Floats) -> Floats:
    """Ranks [n] from 1, equal values sharing the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[place], dtype=np.float64)


def auc(members: ArrayLike, nonmembers: ArrayLike) -> float:
    """Chance that a member outscores a non-member, ties counted half."""
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    return auc_of_ranks(midranks(np.concatenate([x, y])), np.arange(len(x) + len(y)) < len(x))


def auc_of_ranks(ranks: Floats, is_member: Flags) -> float:
    """AUC from midranks [n] for labels [n]; 1/2 where a class is missing."""
    m = int(is_member.sum())
    if m in (0, len(is_member)):
        return 0.5
    return float((ranks[is_member].sum() - m * (m + 1) / 2.0) / (m * (len(is_member) - m)))


def auc_interval(
    members: ArrayLike, nonmembers: ArrayLike, *, confidence: float = 0.95, owners: Owners | None = None
) -> Estimate:
    """AUC with its two-sided interval (hull of DeLong's on the logit scale and Newcombe's), by owner if given."""
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    value = auc(x, y)
    variance, (m, n), degrees = _spread(x, y, owners)
    z = student_quantile(confidence, degrees)
    low = _newcombe_lower(value, m, n, z)
    high = 1.0 - _newcombe_lower(1.0 - value, m, n, z)
    if 0.0 < value < 1.0 and variance is not None:
        centre = math.log(value) - math.log1p(-value)
        half = z * math.sqrt(variance) / (value * (1.0 - value))
        low, high = min(low, _logistic(centre - half)), max(high, _logistic(centre + half))
    return Estimate(value, min(low, value), max(high, value))


def _spread(x: Floats, y: Floats, owners: Owners | None) -> tuple[float | None, tuple[float, float], float]:
    """Variance of an AUC (None where it cannot be estimated), sizes of samples as good, degrees of freedom.

    DeLong's where targets are independent, Obuchowski's where owners are.
    """
    above, below = _placements(x, y)
    m, n = len(x), len(y)
    alone = float(above.var(ddof=1) / m + below.var(ddof=1) / n) if min(m, n) > 1 else None
    if owners is None:
        return alone, (m, n), math.inf
    few = min(len(np.unique(owners.members)), len(np.unique(owners.nonmembers)))
    if few < 2 or alone is None or alone == 0.0:
        inside, outside = owners.effective
        return None, (max(1, inside), max(1, outside)), max(1, few - 1)
    variance = obuchowski_variance(above, below, owners)
    # A design effect below 1 comes from owners on both sides; it is not trusted to shorten an interval.
    design = max(1.0, variance / alone)
    return max(variance, alone), (m / design, n / design), few - 1


def _placements(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Share of non-members below each member [m], and of members above each non-member [n]; ties counted half."""
    both = midranks(np.concatenate([x, y]))
    return (both[: len(x)] - midranks(x)) / len(y), 1.0 - (both[len(x) :] - midranks(y)) / len(x)


def obuchowski_variance(above: Floats, below: Floats, owners: Owners) -> float:
    """Obuchowski's variance of the AUC: placements [m], [n] summed within owners, both sides together.

    Σᵢ (uᵢ/M + vᵢ/N)² with uᵢ, vᵢ an owner's placements minus the AUC, the terms of either side scaled for the
    owners it has (1997, equations 4 to 7).
    """
    m, n, area = len(above), len(below), float(above.mean())
    numbers = np.unique(np.concatenate([owners.members, owners.nonmembers]), return_inverse=True)[1]
    u = np.bincount(numbers[:m], weights=above - area, minlength=numbers.max() + 1)
    v = np.bincount(numbers[m:], weights=below - area, minlength=numbers.max() + 1)
    inside, outside = len(np.unique(owners.members)), len(np.unique(owners.nonmembers))
    whole = len(u)
    s10 = inside / (inside - 1) * float(u @ u) / m**2
    s01 = outside / (outside - 1) * float(v @ v) / n**2
    s11 = whole / (whole - 1) * float(u @ v) / (m * n)
    return max(0.0, s10 + s01 + 2.0 * s11)


def _newcombe_lower(value: float, m: float, n: float, z: float) -> float:
    """Least θ with θ̂ − θ ≤ z √V(θ), where V is Hanley and McNeil's variance with both sizes at their mean."""
    effective = (m + n) / 2.0
    low, high = 0.0, value * (1.0 - 1e-12)
    for _ in range(_BISECTIONS):
        theta = 0.5 * (low + high)
        shape = 1.0 + (effective - 1.0) * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta))
        excess = value - theta - z * math.sqrt(theta * (1.0 - theta) * shape / (m * n))
        low, high = (theta, high) if excess > 0.0 else (low, theta)
    return low


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else math.exp(x) / (1.0 + math.exp(x))


def fewest_nonmembers(fpr: float) -> int:
    """Non-members below which a false-positive rate cannot be seen at all: 1/fpr."""
    return math.ceil(1.0 / fpr - 1e-9)


def tpr_at_fpr(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    fpr: float,
    confidence: float = 0.95,
    owners: Owners | None = None,
) -> Estimate | None:
    """True-positive rate at false-positive rate `fpr`, or None with fewer than 1/fpr non-members.

    The value is the share of members above the least threshold that at most `fpr` of the non-members pass.

    Guarantee: the interval holds the population's rate with at least `confidence`, for independent targets of any
    distribution, the threshold's randomness included. Below about 4.4/fpr non-members (at 95 %) its low end is 0.
    With owners it is approximate, for independent owners of any distribution within: non-members count as the
    n²/Σ nᵢ² independent ones that are as good even if all of an owner pass together.
    """
    if not 0.0 < fpr < 1.0:
        raise ValueError(f"a false-positive rate is in (0, 1), found {fpr}")
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    if len(y) < fewest_nonmembers(fpr):
        return None
    descending = np.sort(y)[::-1]
    tail = (1.0 - confidence) / 4.0  # two ends, each with two ways to fail: the threshold and the members
    as_good = float(len(y))
    if owners is not None:
        as_good = effective_trials(np.unique(owners.nonmembers, return_counts=True)[1].tolist())
    strict, lax = _rank_below(fpr, len(y), as_good, tail), _rank_above(fpr, len(y), as_good, tail)
    whose = None if owners is None else owners.members.tolist()
    allowed = math.floor(fpr * len(y) + 1e-9)
    rate = float((x > _of_rank(descending, allowed + 1)).mean())
    low, high = 0.0, 1.0
    if strict:
        low = Share.of((x > _of_rank(descending, strict)).tolist(), whose).lower(tail=tail)
    if lax <= len(y):
        high = Share.of((x >= _of_rank(descending, lax)).tolist(), whose).upper(tail=tail)
    return Estimate(rate, min(low, rate), max(high, rate))


def _of_rank(descending: Floats, rank: int) -> float:
    """The non-members' score of that rank from the top; −∞ below all."""
    return float(descending[rank - 1]) if rank <= len(descending) else -math.inf


def _rank_below(fpr: float, n: int, as_good: float, tail: float) -> int:
    """Greatest k whose rate (above the k-th largest) passes `fpr` with chance at most `tail`; 0 if none.

    k − 1 of n records above count as (k − 1) n*/n of the n* = `as_good` independent ones.
    """
    from scipy.special import betaincc  # P[Beta(k, n−k+1) > x]

    def is_beyond(k: int) -> bool:  # from some k on
        above = (k - 1) * (as_good / n)
        return not betaincc(above + 1.0, as_good - above, fpr) <= tail

    return bisect_left(range(1, n + 1), True, key=is_beyond)


def _rank_above(fpr: float, n: int, as_good: float, tail: float) -> int:
    """Least k whose rate (above the k-th largest) is below `fpr` with chance at most `tail`; n+1 if none."""
    from scipy.special import betainc

    def is_sure(k: int) -> bool:  # from some k on
        above = k * (as_good / n)
        return bool(betainc(above, as_good - above + 1.0, fpr) <= tail)

    return 1 + bisect_left(range(1, n + 1), True, key=is_sure)
