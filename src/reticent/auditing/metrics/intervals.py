"""Intervals for measured rates and statistics.

    Clopper–Pearson (1934)   rates p that neither binomial tail refutes: quantiles of beta distributions, exact
    Student's t over owners (Bell and McCaffrey 2002)   a mean or a ratio of totals: what owners differ by, weighed
                             so that it is not too small for owners of unlike size, with the degrees of freedom of
                             Satterthwaite. Exact for Gaussian owners' means of one variance; approximate otherwise
    bootstrap (Efron 1979)   quantiles of the statistic over samples drawn again from each sample, approximate;
                             taken further out for few observations (Hesterberg 2015, "expanded percentile")
    order statistics (Gaffke 2005)   a lower limit for the mean of values ≥ 0: the quantile of Σ D_i x_(i), where
                             D are the spacings of n uniform draws and the extra spacing weighs the least value, 0

The first lives in `core.statistics.proportion`, with its form for several trials of an owner. All assume
independent observations, or owners where these are given. No trial is no data: the interval of a rate is [0, 1],
never a point. Intervals of ROC curves are in `roc`.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.arrays import Floats
from reticent.core.randomness import Randomness
from reticent.core.statistics.proportion import clopper_pearson as clopper_pearson
from reticent.core.statistics.proportion import rate_lower as rate_lower
from reticent.core.statistics.proportion import rate_upper as rate_upper

# What every finding with such an interval says of it.
APPROXIMATE: Final = "the interval is approximate: Student's t over owners, or over texts that have none named"

_STEP: Final = 0.25
_U: Final = np.exp(np.arange(-36.0, 36.0, _STEP))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Σ x / Σ w over observations, with the variance that it has between owners; w = 1 makes it a mean.

    With shares h of the weight, owners' own ratios r and s = Σ h², the variance is Σ h²(r − value)² / (1 − 2h + s),
    unbiased where owners' ratios have one variance. The degrees of freedom are those of that sum of squares under
    the same model. Where the variance falls with an owner's size, the interval is longer than it need be.
    """

    value: float
    variance: float
    degrees: float  # 0: one owner says nothing of the others

    @classmethod
    def of(
        cls, values: ArrayLike, weights: ArrayLike | None = None, *, owners: Sequence[Hashable] | None = None
    ) -> "Ratio":
        """The ratio of observations x [n] and w [n] ≥ 0; without `owners` each is its own."""
        x = np.asarray(values, dtype=np.float64)
        w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64)
        if x.ndim != 1 or x.shape != w.shape or (w < 0.0).any() or not w.sum() > 0.0:
            raise ValueError("a ratio needs observations, and weights at or above 0 of which one is above")
        if owners is not None:
            places: dict[Hashable, int] = {}
            whose = [places.setdefault(owner, len(places)) for owner, _ in zip(owners, x, strict=True)]
            x = np.bincount(whose, weights=x).astype(np.float64)
            w = np.bincount(whose, weights=w).astype(np.float64)
        x, w = x[w > 0.0], w[w > 0.0]
        value = float(x.sum() / w.sum())
        if len(w) < 2:
            return cls(value, 0.0, 0.0)
        h = w / w.sum()
        s = float(h @ h)
        each = 1.0 - 2.0 * h + s  # Var(r − value), if Var(r) = 1
        scale = h * h / each
        # Σ scale (r − value)² is a quadratic form in r: trace, and trace of its square, in closed form.
        a0, a1, a2 = float(scale.sum()), float(scale @ h), float(scale @ (h * h))
        square = s * s * a0 * a0 + 2.0 * a0 * a2 - 4.0 * s * a0 * a1 + 2.0 * a1 * a1
        square += float((scale * scale) @ (2.0 * each - 1.0))
        degrees = max(1.0, float(scale @ each) ** 2 / square)
        return cls(value, float(scale @ (x / w - value) ** 2), degrees)

    def minus(self, other: "Ratio") -> "Ratio":
        """The difference to a ratio of other, independent observations (Welch 1947)."""
        value, variance = self.value - other.value, self.variance + other.variance
        if not (self.degrees and other.degrees):
            return Ratio(value, variance, 0.0)
        if variance == 0.0:
            return Ratio(value, 0.0, min(self.degrees, other.degrees))
        parts = self.variance**2 / self.degrees + other.variance**2 / other.degrees
        return Ratio(value, variance, variance**2 / parts)

    def interval(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Student's interval; all numbers for one owner, and a point where all owners are alike.

        Approximate: where owners' ratios are skewed, one end is missed more often than stated and the other less.
        """
        if self.degrees == 0.0:
            return -math.inf, math.inf
        half = student_quantile(confidence, self.degrees) * math.sqrt(self.variance)
        return self.value - half, self.value + half


def bootstrap(
    samples: Sequence[ArrayLike],
    statistic: Callable[..., float],
    *,
    randomness: Randomness,
    confidence: float = 0.95,
    resamples: int = 1000,
) -> tuple[float, float]:
    """Expanded percentile interval of `statistic(*samples)`; each sample is drawn again by itself.

    For statistics that are no `Ratio`. Approximate: too short for skewed statistics of few observations, and a
    point where all are equal.
    """
    arrays = [np.asarray(sample, dtype=np.float64) for sample in samples]
    if not arrays or any(len(array) == 0 for array in arrays) or resamples < 1:
        raise ValueError("a bootstrap needs non-empty samples and at least one resample")
    generator = randomness.generator()
    values = [
        statistic(*(array[generator.integers(len(array), size=len(array))] for array in arrays))
        for _ in range(resamples)
    ]
    tail = _expanded((1.0 - _checked(confidence)) / 2.0, min(map(len, arrays)))
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return float(low), float(high)


def _expanded(tail: float, n: int) -> float:
    """The tail of a normal distribution that reaches as far as Student's of a mean of n observations."""
    from scipy.special import ndtr, stdtrit

    if n <= 1:
        return tail
    return float(ndtr(stdtrit(n - 1.0, tail) * math.sqrt(n / (n - 1.0))))


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
    scaled = np.outer(weights / np.abs(weights).max(), _U)  # [n + 1, nodes]
    # Imhof's sin θ/ρ: 1/Π(1 + i λ u) has the angle −θ and the size 1/ρ, and no angle or size need be known for it.
    inverse = np.empty(scaled.shape, dtype=np.complex128)
    inverse.real = 1.0 / (1.0 + scaled * scaled)
    inverse.imag = -scaled * inverse.real
    # Over log u the integrand is analytic within π/2 of the line: sums over equal steps err by e^(−π²/step).
    total = -_STEP * float(inverse.prod(axis=0).imag.sum())
    return 0.5 - total / math.pi


def student_quantile(confidence: float, degrees: float = math.inf) -> float:
    """t with P[|T| ≤ t] = confidence for Student's T, which is a standard Gaussian at infinitely many degrees."""
    from scipy.special import ndtri, stdtrit  # deferred: keeps the command line quick to start

    tail = (1.0 - _checked(confidence)) / 2.0
    return float(-ndtri(tail) if math.isinf(degrees) else -stdtrit(degrees, tail))


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
