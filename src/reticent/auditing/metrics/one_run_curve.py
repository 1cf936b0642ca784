"""One-run audit of a trade-off curve (Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-DP in one run").

Coins and guesses as in `one_run`. Let F(x) = 1 − f(x) be the greatest power of a test at false-positive rate x, g
its inverse, c' the number of guesses of m coins, p_j the chance of exactly j right ones. For every coin, "guessed
right and at least i right in all" in one world is "guessed wrong and at least i − 1 right" in the other; F is
concave, so averaging over coins and worlds gives for all i

    r_i ≤ F(h_{i−1}),   r_i = Σ_{j≥i} (j/m) p_j,   h_i = Σ_{j≥i} ((c' − j)/m) p_j

If P[at least c right] were γ, then r_c ≥ γ c/m, and going down from there, with least possible mass at each level,

    h_i = max(h_{i+1}, g(r_{i+1})),   r_i = r_{i+1} + (h_i − h_{i+1}) i/(c' − i)

the mass r_0 + h_0 must not pass c'/m, which is what all levels hold together. If it does, c right guesses refute f
at level γ. (Least mass is right: if the true (r, h) has r ≥ r*, r + h ≥ r* + h* and r − r* ≥ (h − h*) i/(c' − i)
at level i, it has so at the next.)

With f = f_{ε,δ} the bound is one on ε(δ), whatever the mechanism. With the Gaussian family it is one on μ: what is
refuted is "μ-GDP", so its ε(δ) bounds the mechanism's only if the mechanism's curve is a Gaussian one. The two
never share a metric.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from reticent.auditing.metrics.one_run import FAIR_COINS, EpsilonBound, Guesses, guess_coins, largest_refuted
from reticent.core.randomness import Randomness

Inverse = Callable[[float], float]


def approximate_inverse(epsilon: float, delta: float) -> Inverse:
    """g of (ε, δ)-DP: least false-positive rate of a test with a given power."""

    def inverse(power: float) -> float:
        return max(
            0.0, math.exp(-epsilon) * (power - delta), 1.0 - delta - math.exp(min(epsilon, 700.0)) * (1.0 - power)
        )

    return inverse


def gaussian_inverse(mu: float) -> Inverse:
    """g of μ-GDP: Φ(Φ⁻¹(power) − μ)."""
    from scipy.special import ndtr, ndtri  # deferred: keeps the command line quick to start

    def inverse(power: float) -> float:
        return float(ndtr(ndtri(min(power, 1.0)) - mu)) if power > 0.0 else 0.0

    return inverse


def refutes_curve(inverse: Inverse, m: int, *, guesses: int, correct: int, error: float) -> bool:
    """Whether `correct` right guesses of `guesses` of m coins refute the curve.

    Guarantee: a mechanism with that trade-off curve is refuted with chance at most `error`.
    """
    if not 0 <= correct <= guesses <= m or guesses < 1 or not 0.0 < error < 1.0:
        raise ValueError("a one-run audit needs 0 <= correct <= guesses <= m and an error in (0, 1)")
    right = error * correct / m  # r
    wrong = error * (guesses - correct) / m  # h
    for level in range(correct - 1, -1, -1):
        above = max(wrong, inverse(right))
        if above == wrong:  # r stays as well: nothing changes further down
            break
        right += (above - wrong) * level / (guesses - level)
        wrong = above
        if right + wrong > guesses / m:
            return True
    return right + wrong > guesses / m


def one_run_epsilon_by_curve(
    scores: ArrayLike,
    is_included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    guesses: Sequence[Guesses] = (),
    randomness: Randomness | None = None,
) -> EpsilonBound:
    """Largest ε whose (ε, delta) trade-off curve one run refutes.

    Guarantee: training that is (ε, delta)-DP for adding or removing one target exceeds ε here with chance at most
    1 − confidence, over the coins and the training.
    """
    if not 0.0 <= delta <= 1.0:
        raise ValueError("delta must be in [0, 1]")
    epsilon = _largest_parameter(
        scores,
        is_included,
        family=lambda e: approximate_inverse(e, delta),
        confidence=confidence,
        guesses=guesses,
        randomness=randomness,
    )
    n = len(np.asarray(is_included))
    return EpsilonBound(
        epsilon=epsilon, delta=delta, confidence=confidence, n=n, method="one run, curve", assumes=FAIR_COINS
    )


def one_run_gaussian_mu(
    scores: ArrayLike,
    is_included: ArrayLike,
    *,
    confidence: float = 0.95,
    guesses: Sequence[Guesses] = (),
    randomness: Randomness | None = None,
) -> float:
    """Largest μ for which one run refutes μ-GDP.

    Guarantee: training that is μ-GDP for adding or removing one target exceeds μ here with chance at most
    1 − confidence. Says nothing of (ε, δ) unless the training's trade-off curve is Gaussian.
    """
    return _largest_parameter(
        scores,
        is_included,
        family=gaussian_inverse,
        confidence=confidence,
        guesses=guesses,
        randomness=randomness,
    )


def _largest_parameter(
    scores: ArrayLike,
    is_included: ArrayLike,
    *,
    family: Callable[[float], Inverse],
    confidence: float,
    guesses: Sequence[Guesses],
    randomness: Randomness | None,
) -> float:
    """Largest parameter of a family of growing curves that a way of guessing refutes at its share."""
    if not 0.0 < confidence < 1.0:
        raise ValueError("confidence must be in (0, 1)")
    trials = guess_coins(scores, is_included, guesses=guesses, randomness=randomness)
    m, error = len(np.asarray(is_included)), (1.0 - confidence) / len(trials)
    found = []
    for trial, correct in trials:

        def is_refuted(parameter: float, total: int = trial.total, correct: int = correct) -> bool:
            return refutes_curve(family(parameter), m, guesses=total, correct=correct, error=error)

        found.append(largest_refuted(is_refuted))
    return max(found)
