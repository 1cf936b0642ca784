"""Orders of what updates give away, over several seeds: which scores are higher, with intervals.

One training decides little: whether a small model learns a phrase by heart hangs on the seed and on the phrase's
words. So an experiment is repeated with other seeds (other weights, other orders of the text, other phrases), each
repetition gives one number, and differences are taken *within* a repetition.

    difference_s = mean of the first scores in repetition s − mean of the second ones in repetition s
    interval     = mean ± t(confidence, n − 1) · deviation / √n                  Student's t over n repetitions

Where there is no difference, the interval lies above 0 by chance at a rate of (1 − confidence) / 2 at most, if the
repetitions' differences are Gaussian; with few of them that is an assumption.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproductions.updates.regimes import Update
from reticent.core.statistics.estimate import mean_per_token

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over repetitions and its interval."""

    mean: float
    low: float
    high: float
    repetitions: int

    @property
    def is_positive(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > 0.0

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} … {self.high:.2f})"


def spread(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Spread:
    """The mean of one number a repetition; of one repetition nothing is known but its value."""
    if not values:
        raise ValueError("a spread needs values")
    found = mean_per_token(values, [1] * len(values), confidence=confidence)
    return Spread(found.value, found.low, found.high, len(values))


def class_spread(updates: Sequence[Update], beginning: str = "", *, confidence: float = CONFIDENCE) -> Spread:
    """Mean DS of the canaries whose name begins so, over repetitions of one update."""
    return spread([update.mean_score(beginning) for update in updates], confidence=confidence)


def class_difference(
    updates: Sequence[Update], first: Sequence[str], second: Sequence[str], *, confidence: float = CONFIDENCE
) -> Spread:
    """How much higher canaries of the first classes score than those of the second ones, within repetitions."""
    differences = [_mean(update, first) - _mean(update, second) for update in updates]
    return spread(differences, confidence=confidence)


def regime_difference(
    first: Sequence[Update], second: Sequence[Update], *, confidence: float = CONFIDENCE
) -> Spread:
    """How much higher canaries score after the first updates than after the second ones, seed by seed."""
    pairs = zip(first, second, strict=True)
    return spread([one.mean_score() - other.mean_score() for one, other in pairs], confidence=confidence)


def _mean(update: Update, classes: Sequence[str]) -> float:
    return float(np.mean([update.mean_score(name) for name in classes]))
