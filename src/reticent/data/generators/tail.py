"""How often things repeat: a truncated power law, as in real logs: most appear once, a few dozens of times.

    P(n) ∝ n^−2 for 1 ≤ n ≤ 60:    61 % once, 4 % at least 12 times, 1 % at least 30 times; 2.9 on average

Draws are stratified (64 quantiles at a time, shuffled), so that already a corpus of a few hundred records shows the
whole shape, long end included, and not only in expectation.
"""

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Generic, TypeVar

import numpy as np

from reticent.core.randomness import Randomness

MOST_REPEATS: Final = 60
_EXPONENT: Final = 2.0
_STRATA: Final = 64

Thing = TypeVar("Thing")


def tail_sizes(total: int, randomness: Randomness) -> list[int]:
    """Numbers of records per owner that follow the law and sum to `total` exactly (the last one is cut)."""
    if total < 0:
        raise ValueError(f"the number of records must be at least 0, found {total}")
    ranks = np.arange(1, MOST_REPEATS + 1, dtype=np.float64)
    cumulative = np.cumsum(ranks**-_EXPONENT)
    cumulative /= cumulative[-1]
    sizes: list[int] = []
    left = total
    while left > 0:
        quantiles = (randomness.permutation(_STRATA) + randomness.uniform(_STRATA)) / _STRATA  # [64]
        for size in (np.searchsorted(cumulative, quantiles) + 1).tolist():
            taken = min(int(size), left)
            if taken:
                sizes.append(taken)
            left -= taken
    return sizes


class Favourites(Generic[Thing]):
    """Things drawn again and again with weights 1/(rank + 9) (Zipf–Mandelbrot): lawyers and towns that cases share.

    The shift keeps the first of them from standing in every third text.
    """

    def __init__(self, things: Sequence[Thing]) -> None:
        self._things = list(things)
        self._weights = list(accumulate(1.0 / (rank + 9) for rank in range(1, len(self._things) + 1)))

    def draw(self, source: random.Random) -> Thing:
        """One thing, the first ones more often."""
        return source.choices(self._things, cum_weights=self._weights)[0]
