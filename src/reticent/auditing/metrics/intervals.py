"""Intervals for measured rates and statistics.

    Clopper–Pearson (1934)   rates p that neither binomial tail refutes: quantiles of beta distributions, exact
    bootstrap (Efron 1979)   quantiles of the statistic over samples drawn again from each sample, approximate;
                             taken further out for few observations (Hesterberg 2015, "expanded percentile"): a
                             mean's interval is then about as long as Student's, n counting owners by what they hold
    order statistics (Gaffke 2005)   a lower limit for the mean of values ≥ 0: the quantile of Σ D_i x_(i), where
                             D are the spacings of n uniform draws and the extra spacing weighs the least value, 0

The first lives in `core.proportion`, with its form for several trials of an owner. All assume independent
observations; a bootstrap draws owners where they are given. No trial is no data: the interval of a
rate is [0, 1], never a point. Intervals of ROC curves are in `roc`.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.core.proportion import clopper_pearson as clopper_pearson
from reticent.core.proportion import rate_lower as rate_lower
from reticent.core.proportion import rate_upper as rate_upper
from reticent.core.randomness import Randomness

Floats = NDArray[np.float64]

_STEP: Final = 0.25
_LOG_U: Final = np.arange(-36.0, 36.0, _STEP)


def bootstrap(
    samples: Sequence[ArrayLike],
    statistic: Callable[..., float],
    *,
    randomness: Randomness,
    confidence: float = 0.95,
    resamples: int = 1000,
    owners: Sequence[Sequence[Hashable] | None] | None = None,
) -> tuple[float, float]:
    """Expanded percentile interval of `statistic(*samples)`; each sample is drawn again by itself.

    `owners` name those of each sample's observations: then whole owners are drawn, with all that is theirs.
    Approximate: too short for skewed statistics of few observations, and a point where all are equal.
    """
    arrays = [np.asarray(sample, dtype=np.float64) for sample in samples]
    if not arrays or any(len(array) == 0 for array in arrays) or resamples < 1:
        raise ValueError("a bootstrap needs non-empty samples and at least one resample")
    whose = [None] * len(arrays) if owners is None else owners
    rows = [_rows_by_owner(len(array), mine) for array, mine in zip(arrays, whose, strict=True)]
    generator = randomness.generator()
    values = [
        statistic(*(array[_drawn_again(mine, generator)] for array, mine in zip(arrays, rows, strict=True)))
        for _ in range(resamples)
    ]
    tail = _expanded((1.0 - _checked(confidence)) / 2.0, min(map(_effective_size, rows)))
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return float(low), float(high)


def _expanded(tail: float, n: float) -> float:
    """The tail of a normal distribution that reaches as far as Student's of a mean of n observations."""
    from scipy.special import ndtr, stdtrit  # deferred: keeps the command line quick to start

    if n <= 1.0:
        return tail
    return float(ndtr(stdtrit(max(1.0, n - 1.0), tail) * math.sqrt(n / (n - 1.0))))


_Rows = int | list[NDArray[np.int64]]  # how many observations there are, or the places of every owner's


def _rows_by_owner(n: int, owners: Sequence[Hashable] | None) -> _Rows:
    """The places of every owner's observations; their number alone where each is its own."""
    if owners is None or len(set(owners)) == n:
        return n
    places: dict[Hashable, list[int]] = {}
    for place, owner in zip(range(n), owners, strict=True):
        places.setdefault(owner, []).append(place)
    return [np.array(mine, dtype=np.int64) for mine in places.values()]


def _effective_size(rows: _Rows) -> float:
    """How many owners of one size would hold as much of the whole as these do (Kish 1965)."""
    if isinstance(rows, int):
        return float(rows)
    sizes = np.array([len(mine) for mine in rows], dtype=np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _drawn_again(rows: _Rows, generator: np.random.Generator) -> NDArray[np.int64]:
    """Places of as many owners as there are, drawn with replacement."""
    if isinstance(rows, int):
        return generator.integers(rows, size=rows)
    drawn = generator.integers(len(rows), size=len(rows))
    return np.concatenate([rows[owner] for owner in drawn])


def mean_lower(values: ArrayLike, *, tail: float) -> float:
    """Lower limit for the expectation of independent values ≥ 0, by Gaffke's order statistics.

    Exact for values that are 0 or one other number (Clopper and Pearson), and never above the sample mean's. In
    general its validity is proved for one and two values and conjectured beyond: the tests of this module simulate
    the hardest known cases. Far sharper for few values than bounds that use the mean alone.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0 or (x < 0.0).any() or not 0.0 < tail < 1.0:
        raise ValueError("at least one value, values at or above 0 and a tail in (0, 1) are needed")
    low, high = 0.0, float(x.max())
    for _ in range(45 if high > 0.0 else 0):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _spacings_below(x, middle) <= tail else (low, middle)
    return low


def _spacings_below(x: Floats, t: float) -> float:
    """P[Σ D_i x_i ≤ t] for spacings D of len(x) uniform draws, the last of them weighing 0.

    D are exponentials over their sum, so it is P[Σ λ_i E_i ≤ 0] with λ = (x − t, −t), by Imhof's (1961) integral.
    """
    weights = np.append(x - t, -t)
    scaled = np.outer(np.exp(_LOG_U), weights / np.abs(weights).max())  # [nodes, n + 1]
    sizes = np.exp(-0.5 * np.log1p(scaled * scaled).sum(axis=1))
    # Over log u the integrand is analytic within π/2 of the line: sums over equal steps err by e^(−π²/step).
    total = _STEP * float((np.sin(np.arctan(scaled).sum(axis=1)) * sizes).sum())
    return 0.5 - total / math.pi


def normal_quantile(confidence: float) -> float:
    """z with P[|Z| ≤ z] = confidence for a standard Gaussian Z."""
    from scipy.special import ndtri

    return float(-ndtri((1.0 - _checked(confidence)) / 2.0))


def shared_confidence(confidence: float, comparisons: int) -> float:
    """Confidence of each of several intervals so that all hold together at `confidence` (Bonferroni).

    Guarantee: the chance that any of `comparisons` intervals misses is at most 1 − confidence.
    """
    if comparisons < 1:
        raise ValueError("comparisons must be at least 1")
    return 1.0 - (1.0 - _checked(confidence)) / comparisons


def _checked(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), found {confidence}")
    return confidence
