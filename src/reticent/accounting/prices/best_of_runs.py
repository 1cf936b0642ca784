"""Rényi price of keeping the best of a random number of runs (Papernot and Steinke 2022, theorem 2).

The number of runs K is drawn from the truncated negative binomial distribution with shape η > −1 and rate γ:

    P[K = k] ∝ (1 − γ)^k Π_{l<k} (l + η)/(l + 1)     k = 1, 2, …
    E[K] = η (1 − γ)/(γ (1 − γ^η)),  (1/γ − 1)/log(1/γ) at η = 0,  1/γ at η = 1

Each run is private by itself; the best of them by any score that depends on its output (or on public data) costs

    D_a ≤ d_a + (1 + η) min_b [ (1 − 1/b) d_b + log(1/γ)/b ] + log(E[K])/(a − 1)

where d is the Rényi curve of one run. A fixed number of runs has no such price: it costs the sum of all of them.
"""

import math
from collections.abc import Callable

import numpy as np

_ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 60)


def mean_runs(shape: float, rate: float) -> float:
    """E[K] of the truncated negative binomial distribution."""
    if not (shape > -1.0 and 0.0 < rate < 1.0):
        raise ValueError(f"need a shape above −1 and a rate in (0, 1), found {shape} and {rate}")
    if abs(shape) < 1e-9:
        return (1.0 / rate - 1.0) / math.log(1.0 / rate)
    return shape * (1.0 - rate) / (rate * -math.expm1(shape * math.log(rate)))


def rate_for(mean: float, shape: float) -> float:
    """The rate γ with which K has this mean, by bisection of its logarithm."""
    if not mean > 1.0:
        raise ValueError(f"the mean number of runs must be above 1, found {mean}")
    low, high = math.log(1e-12), math.log1p(-1e-12)
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean_runs(shape, math.exp(middle)) > mean else (low, middle)
    return math.exp(high)


def number_of_runs(uniform: float, *, shape: float, rate: float) -> int:
    """K of the distribution from a uniform number in (0, 1), by its cumulative chances."""
    # P[K = 1] is (1 − γ)/log(1/γ) at η = 0, else η(1 − γ)/(γ^−η − 1); each further chance follows from the last.
    scale = math.log(1.0 / rate) if abs(shape) < 1e-9 else math.expm1(-shape * math.log(rate)) / shape
    runs, chance = 1, (1.0 - rate) / scale
    left = uniform
    while left > chance and chance > 0.0:
        left -= chance
        chance *= (1.0 - rate) * (runs + shape) / (runs + 1)
        runs += 1
    return runs


def best_of_runs_epsilon(curve: Callable[[float], float], order: float, *, shape: float, rate: float) -> float:
    """D_a of the best run, from the Rényi curve of one run; ∞ where nothing is known of that.

    Guarantee: at least the Rényi divergence of `order` between neighbours of the kept run's output, in either
    direction, where K is drawn and kept secret.
    """
    if math.isinf(curve(order)):
        return math.inf
    others: float = min((1.0 - 1.0 / b) * curve(b) + math.log(1.0 / rate) / b for b in _ORDERS.tolist())
    choice = 0.0 if order == math.inf else math.log(mean_runs(shape, rate)) / (order - 1.0)
    return curve(order) + (1.0 + shape) * others + choice
