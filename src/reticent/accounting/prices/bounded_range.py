"""Rényi price of a draw whose log-probabilities move within an interval: bounded range (Durfee and Rogers 2019)."""

import math
from typing import Final

from reticent.accounting.prices.price import Price, distance
from reticent.core.event import ExponentialSampling


def _bounded_range(width: float, order: float) -> float:
    """D_a of two distributions whose log-ratios lie in an interval of length `width`, exactly.

    By convexity the worst pair has two points with log-ratios t and t − width (Dong, Durfee and Rogers 2020), and
    the worst t solves e^−t = a C / ((a − 1) A), A = 1 − e^{−a width}, C = e^{−width} − e^{−a width}.
    Never above width²·a/8 (Cesar and Rogers 2021), which is used where the exact form would cancel.
    """
    if order == math.inf:
        return width
    concentrated = order * width**2 / 8.0
    if order * width < 0.01:
        return concentrated
    log_a = math.log(-math.expm1(-order * width))
    log_c = -width + math.log(-math.expm1(-(order - 1.0) * width))
    top = log_a + math.log(order - 1.0) - math.log(order) - log_c
    log_moment = order * top + log_c - math.log(order - 1.0) - math.log(-math.expm1(-width))
    return min(width, concentrated, max(log_moment, 0.0) / (order - 1.0))


EXPONENTIAL_SAMPLING: Final = Price(
    ExponentialSampling,
    renyi=lambda event, order, neighbours: _bounded_range(distance(neighbours) * event.epsilon, order),
)
