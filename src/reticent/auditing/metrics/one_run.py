"""Lower bound on ε from one training run (Steinke, Nasr and Jagielski 2023).

m targets are included each by its own fair coin; after training, the auditor guesses some of the coins, by score:
the highest are "in", the lowest "out", the rest is not guessed. If training is (ε, δ)-DP, the number W of correct
guesses of r is dominated (theorem 5.2) as

    P[W ≥ v] ≤ β + 2 m δ α,   β = P[B ≥ v],   α = max_i P[v > B ≥ v − i]/i,   B ~ Binomial(r, e^ε/(1 + e^ε))

As published it is no bound near 1: with 4 coins, ε = 0 and δ = 0.05 one right guess has chance 0.984 under the
worst mechanism, where it says 0.9625. (Over all mechanisms of few coins, by linear programming in the tests, it
fails above 0.87 only.) Above ½ the p-value is therefore 1.

The lower bound is the least ε that this p-value does not refute. For i ≤ 2mδ the term β + (2mδ/i) P[v > B ≥ v − i]
need not grow with ε; it is replaced by (2mδ/i) P[B ≥ v − i], which is larger and does. With 2mδ ≤ 1 nothing
changes.

How many to guess must be fixed before the labels are seen; several numbers are tested at their shares of the error
(Bonferroni). Equal scores are ordered by chance, never by place: members often come first in the input.

Assumes fair, independent coins (a fixed half is not that) and add-or-remove neighbours; the targets' scores may
depend on each other in any way. `one_run_curve` tests a whole trade-off curve on the same guesses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reticent.auditing.metrics.roc import as_scores
from reticent.core.randomness import Randomness

FAIR_COINS = "each target was included by its own fair coin"
_LARGEST_EPSILON = 100.0
_BISECTIONS = 60
_LARGEST_P_VALUE = 0.5  # beyond it the theorem is not relied on


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """ε is at least `epsilon` at `delta`, with `confidence`; 0 says that nothing was found, not that ε is 0."""

    epsilon: float
    delta: float
    confidence: float
    n: int
    method: str
    assumes: str


@dataclass(frozen=True, slots=True, order=True)
class Guesses:
    """How many targets are guessed "in" and how many "out"."""

    members: int
    nonmembers: int

    def __post_init__(self) -> None:
        if min(self.members, self.nonmembers) < 0 or self.members + self.nonmembers < 1:
            raise ValueError("at least one guess is needed")

    @property
    def total(self) -> int:
        """All guesses (r)."""
        return self.members + self.nonmembers


def default_guesses(m: int) -> tuple[Guesses, ...]:
    """A 64th, a 16th and a quarter of m targets guessed on either side, and a 16th guessed "in" alone.

    Few, sure guesses find most where scores have tails (Gaussian noise), many where each says little.
    """
    both = {Guesses(count, count) for share in (64, 16, 4) if 2 * (count := max(1, m // share)) <= m}
    return tuple(sorted(both | {Guesses(max(1, m // 16), 0)}))


def one_run_epsilon(
    scores: ArrayLike,
    is_included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    guesses: Sequence[Guesses] = (),
    randomness: Randomness | None = None,
) -> EpsilonBound:
    """Largest ε refuted at `delta` by guessing the coins of one run from `scores`; `default_guesses` without any.

    Guarantee: training that is (ε, delta)-DP for adding or removing one target exceeds ε here with chance at most
    1 − confidence, over the coins and the training.
    """
    if not 0.0 <= delta <= 1.0 or not 0.0 < confidence < 1.0:
        raise ValueError("delta must be in [0, 1] and confidence in (0, 1)")
    trials = guess_coins(scores, is_included, guesses=guesses, randomness=randomness)
    m = len(np.asarray(is_included))
    error = (1.0 - confidence) / len(trials)
    found = []
    for trial, correct in trials:

        def is_refuted(epsilon: float, total: int = trial.total, correct: int = correct) -> bool:
            return one_run_p_value(m, total, correct=correct, epsilon=epsilon, delta=delta) <= error

        found.append(largest_refuted(is_refuted))
    return EpsilonBound(
        epsilon=max(found), delta=delta, confidence=confidence, n=m, method="one run", assumes=FAIR_COINS
    )


def one_run_p_value(m: int, guesses: int, *, correct: int, epsilon: float, delta: float) -> float:
    """Chance of at least `correct` right guesses of `guesses` of m coins, at most, under (epsilon, delta)-DP.

    Guarantee: an upper bound on that chance, 1 where the theorem gives more than ½; it does not fall as epsilon
    grows.
    """
    if not (0 <= correct <= guesses <= m and epsilon >= 0.0 and 0.0 <= delta <= 1.0):
        raise ValueError("a one-run audit needs 0 <= correct <= guesses <= m, epsilon >= 0 and delta in [0, 1]")
    from scipy.special import bdtrc  # P[B > k]; deferred: keeps the command line quick to start

    rate = 1.0 / (1.0 + math.exp(-epsilon))
    beta = 1.0 if correct == 0 else float(bdtrc(correct - 1, guesses, rate))
    if delta == 0.0 or correct == 0:
        return beta  # pure differential privacy: exact at every chance
    steps = np.arange(1, correct + 1)  # i
    reach = np.append(bdtrc(correct - steps[:-1] - 1, guesses, rate), 1.0)  # P[B ≥ v − i]; v − i = 0 at the end
    weight = 2.0 * m * delta / steps
    terms = np.where(weight <= 1.0, beta + weight * (reach - beta), weight * reach)
    bound = float(terms.max())
    return bound if bound <= _LARGEST_P_VALUE else 1.0


def guess_coins(
    scores: ArrayLike, is_included: ArrayLike, *, guesses: Sequence[Guesses], randomness: Randomness | None
) -> list[tuple[Guesses, int]]:
    """Each way of guessing with its number of correct guesses. Labels are used to count, never to guess."""
    values = as_scores(scores, name="one-run scores")
    included = np.asarray(is_included)
    if included.dtype != np.bool_ or included.shape != values.shape:
        raise ValueError(f"inclusion must be booleans of shape {values.shape}, found {included.shape}")
    trials = tuple(guesses) or default_guesses(len(values))
    if max(trial.total for trial in trials) > len(values):
        raise ValueError(f"more guesses than the {len(values)} targets")
    shuffled = (randomness or Randomness.seeded(0)).permutation(len(values))
    order = shuffled[np.argsort(-values[shuffled], kind="stable")]  # highest first, ties by chance
    result = []
    for trial in trials:
        right_in = int(included[order[: trial.members]].sum())
        right_out = int((~included[order[len(order) - trial.nonmembers :]]).sum())
        result.append((trial, right_in + right_out))
    return result


def largest_refuted(is_refuted: Callable[[float], bool]) -> float:
    """Largest ε in [0, 100] refuted by a test that refutes all smaller ones too; 0 where not even 0 is."""
    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, _LARGEST_EPSILON
    if is_refuted(high):
        return high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low
