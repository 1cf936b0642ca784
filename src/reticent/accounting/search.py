"""The least value of a function between two points, by golden sections (Kiefer 1953).

Brent's method needs fewer calls, but `scipy.optimize` takes longer to import than all of our searches take.
"""

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def least_between(
    function: Callable[[float], float], low: float, high: float, *, within: float
) -> tuple[float, float]:
    """The least value that was seen and its place, which is `within` of a minimum where there is only one."""
    seen: list[tuple[float, float]] = []

    def at(place: float) -> float:
        value = function(place)
        seen.append((value, place))
        return value

    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = at(left), at(right)
    while high - low > within:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
    return min(seen)
