"""A mean per token over texts, with an interval that treats texts, not tokens, as the independent draws.

    R = Σ s_i / Σ n_i,   R ± t · √(m/(m−1) · Σ (s_i − R n_i)²) / Σ n_i

with s_i the sum over text i of m and n_i its tokens: the ratio estimator of a cluster sample (Cochran 1977, chapter
6), t Student's quantile with m − 1 degrees of freedom. Tokens of one text go together, so an interval over tokens
would be too short. Approximate for few texts. One text says nothing about how texts differ: its interval is
unbounded.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with a two-sided interval."""

    value: float
    low: float
    high: float


def mean_per_token(sums: Sequence[float], tokens: Sequence[int], *, confidence: float = 0.95) -> Estimate:
    """The mean over all tokens of texts with these sums and sizes; infinite sums give an interval without end."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), found {confidence}")
    totals, sizes = np.asarray(sums, dtype=np.float64), np.asarray(tokens, dtype=np.float64)  # [m]
    if totals.shape != sizes.shape or not sizes.sum() > 0.0:
        raise ValueError(f"a mean needs a sum for every text and a token, found {totals.shape}, {sizes.shape}")
    if not np.isfinite(totals).all():
        return Estimate(math.inf, -math.inf, math.inf)
    mean, texts = float(math.fsum(totals) / sizes.sum()), len(totals)
    if texts < 2:
        return Estimate(mean, -math.inf, math.inf)
    from scipy.special import stdtrit  # deferred: keeps the command line quick to start

    spread = math.sqrt(texts / (texts - 1) * float(((totals - mean * sizes) ** 2).sum())) / float(sizes.sum())
    half = float(stdtrit(texts - 1, 0.5 + 0.5 * confidence)) * spread
    return Estimate(mean, mean - half, mean + half)
