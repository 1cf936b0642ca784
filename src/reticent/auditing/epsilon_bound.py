"""Lower bounds on ε from the scores of members and non-members, valid after choosing the threshold.

A test "score > t" between the two worlds with rates (FPR, TPR) contradicts (ε, δ)-DP unless

    TPR ≤ e^ε FPR + δ   and   1 − FPR ≤ e^ε (1 − TPR) + δ                Kairouz, Oh and Viswanath 2015

so  ε ≥ log((TPR − δ)/FPR)  and  ε ≥ log((1 − FPR − δ)/(1 − TPR)),  with TPR bounded from below and FPR from above
(Clopper–Pearson; Jagielski, Ullman and Oprea 2020). Reporting the best of all thresholds without correction "finds"
an ε of 1, now and then above 2, in pure noise (300 scores a side), and ∞ where no non-member passes. So a strategy
must be named:

    FixedThreshold   a threshold chosen without these scores
    Bonferroni       order statistics of ranks 1, 2, 4, … of either sample, each at its share of the error. The rate
                     above a sample's own k-th largest score has the very law that Clopper–Pearson inverts for k − 1
                     of n (less, with ties), so thresholds taken from the data are exact
    Split            the best threshold of one part, tested on the other
    Band             every threshold at once, by the Dvoretzky–Kiefer–Wolfowitz inequality (Massart 1990)

Assumes independent scores: one training run per score. Targets of a single model are not independent; for those use
`one_run`, which needs only that each target was included by its own coin.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.intervals import rate_lower, rate_upper
from reticent.auditing.roc import as_scores
from reticent.core.randomness import Randomness

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FixedThreshold:
    """One threshold, chosen without looking at the scores it is used on."""

    threshold: float


@dataclass(frozen=True, slots=True)
class Bonferroni:
    """Order statistics of ranks 1, `factor`, `factor`², … of each sample, with a union bound over them."""

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not self.factor > 1.0:
            raise ValueError("ranks must grow by a factor above 1")


@dataclass(frozen=True, slots=True)
class Split:
    """Choose the threshold on a random `share` of either sample, test it on the rest."""

    share: float = 0.5
    randomness: Randomness = field(default_factory=lambda: Randomness.seeded(0))

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError("the share used to choose must be in (0, 1)")


@dataclass(frozen=True, slots=True)
class Band:
    """All thresholds at once."""


ThresholdStrategy = FixedThreshold | Bonferroni | Split | Band


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """ε is at least `epsilon` at `delta`, with `confidence`; 0 says that nothing was found, not that ε is 0."""

    epsilon: float
    delta: float
    confidence: float
    n: int
    method: str
    assumes: str
    threshold: float | None = None


def epsilon_lower_bound(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    strategy: ThresholdStrategy | None = None,
) -> EpsilonBound:
    """Largest ε that the scores refute at `delta`; `Bonferroni()` where no strategy is named.

    Guarantee: a mechanism that is (ε, delta)-DP exceeds ε here with chance at most 1 − confidence, for independent
    scores.
    """
    x, y = as_scores(members, name="members"), as_scores(nonmembers, name="non-members")
    if not 0.0 <= delta < 1.0 or not 0.0 < confidence < 1.0:
        raise ValueError("delta must be in [0, 1) and confidence in (0, 1)")
    error = 1.0 - confidence
    chosen = Bonferroni() if strategy is None else strategy
    match chosen:
        case FixedThreshold(threshold):
            best = (_at(x, y, threshold, delta=delta, error=error), threshold)
        case Bonferroni(factor):
            best = _best_of_ranks(x, y, delta=delta, error=error, factor=factor)
        case Split(share, randomness):
            best = _split(x, y, delta=delta, error=error, share=share, randomness=randomness)
        case Band():
            best = _band(x, y, delta=delta, error=error)
    epsilon, where = best
    return EpsilonBound(
        epsilon=max(0.0, epsilon),
        delta=delta,
        confidence=confidence,
        n=len(x) + len(y),
        method=type(chosen).__name__,
        assumes="scores are independent: each target has its own training run",
        threshold=where if epsilon > 0.0 else None,
    )


def epsilon_of_rates(tpr: float, fpr: float, *, delta: float) -> float:
    """Least ε ≥ 0 that allows a test with these rates at `delta`; ∞ where none does."""
    return max(0.0, _log_ratio(tpr - delta, fpr), _log_ratio(1.0 - fpr - delta, 1.0 - tpr))


def _log_ratio(above: float, below: float) -> float:
    if above <= 0.0:
        return -math.inf
    return math.inf if below <= 0.0 else math.log(above / below)


def _at(x: Floats, y: Floats, threshold: float, *, delta: float, error: float) -> float:
    """ε from one threshold: either rate is bounded at half the error."""
    tpr = rate_lower(int((x > threshold).sum()), len(x), tail=error / 2.0)
    fpr = rate_upper(int((y > threshold).sum()), len(y), tail=error / 2.0)
    return epsilon_of_rates(tpr, fpr, delta=delta)


def _ranks(n: int, factor: float) -> list[int]:
    """1, factor, factor², … rounded, up to n; known before the scores are."""
    ranks, value = [], 1.0
    while round(value) <= n:
        ranks.append(round(value))
        value = max(value * factor, value + 1.0)
    return ranks


def _best_of_ranks(x: Floats, y: Floats, *, delta: float, error: float, factor: float) -> tuple[float, float]:
    """The best order statistic of either sample, each tested at its share of the error."""
    high, low = np.sort(y)[::-1], np.sort(x)  # non-members from the top, members from the bottom
    ranks_y, ranks_x = _ranks(len(y), factor), _ranks(len(x), factor)
    tail = error / (2.0 * (len(ranks_y) + len(ranks_x)))  # two limits for every rank
    found = []
    for rank in ranks_y:  # at most rank − 1 of the n non-members pass t
        threshold = float(high[rank - 1])
        tpr = rate_lower(int((x > threshold).sum()), len(x), tail=tail)
        fpr = rate_upper(rank - 1, len(y), tail=tail)
        found.append((epsilon_of_rates(tpr, fpr, delta=delta), threshold))
    for rank in ranks_x:  # at most rank − 1 of the m members stay below t
        threshold = float(low[rank - 1])
        fnr = rate_upper(rank - 1, len(x), tail=tail)
        tnr = rate_lower(int((y < threshold).sum()), len(y), tail=tail)
        found.append((epsilon_of_rates(1.0 - fnr, 1.0 - tnr, delta=delta), threshold))
    return max(found, key=lambda pair: pair[0])


def _split(
    x: Floats, y: Floats, *, delta: float, error: float, share: float, randomness: Randomness
) -> tuple[float, float]:
    """Choose among the order statistics of one part, test on the other."""
    parts = []
    for name, scores in (("members", x), ("non-members", y)):
        order = randomness.child(name).permutation(len(scores))
        cut = round(share * len(scores))
        if not 0 < cut < len(scores):
            raise ValueError(f"{name}: too few scores to split, found {len(scores)}")
        parts.append((scores[order[:cut]], scores[order[cut:]]))
    (x_choose, x_test), (y_choose, y_test) = parts
    _, best = _best_of_ranks(x_choose, y_choose, delta=delta, error=error, factor=1.2)
    return _at(x_test, y_test, best, delta=delta, error=error), best


def _band(x: Floats, y: Floats, *, delta: float, error: float) -> tuple[float, float]:
    """The best threshold with both empirical curves moved by their uniform error."""
    thresholds = np.unique(np.concatenate([x, y]))
    tpr = 1.0 - np.searchsorted(np.sort(x), thresholds, side="right") / len(x)  # [k] shares above each threshold
    fpr = 1.0 - np.searchsorted(np.sort(y), thresholds, side="right") / len(y)
    width = math.log(2.0 / error) / 2.0  # P[sup(F̂ − F) > e] ≤ exp(−2 n e²), at half the error
    tpr = np.maximum(tpr - math.sqrt(width / len(x)), 0.0)
    fpr = np.minimum(fpr + math.sqrt(width / len(y)), 1.0)
    values = [epsilon_of_rates(float(a), float(b), delta=delta) for a, b in zip(tpr, fpr, strict=True)]
    best = int(np.argmax(values))
    return values[best], float(thresholds[best])
