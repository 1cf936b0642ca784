"""From Rényi divergence to (ε, δ) and back.

    improved   ε = d + log(1 − 1/a) − log(δ a)/(a − 1)       Canonne, Kamath and Steinke 2020, proposition 12;
                                                             Balle et al. 2020, equation 20
    at ε = 0   δ = √(1 − e^−d)                               Bretagnolle and Huber, as KL ≤ D_a
    classic    ε = d + log(1/δ)/(a − 1)                      Mironov 2017, proposition 3; what the papers print

The order is optimised continuously by `RenyiCurve.minimise`. The Gaussian-DP central limit approximation is not
here on purpose: it is not an upper bound (4.49 where the truth is above 6.6).
"""

import math
from dataclasses import dataclass

from reticent.accounting.curve import RenyiCurve


@dataclass(frozen=True, slots=True)
class Converted:
    """A value together with the Rényi order that gave it."""

    value: float
    order: float


def epsilon_from_renyi(order: float, renyi: float, *, delta: float) -> float:
    """ε at `delta` of a mechanism whose D_order is at most `renyi`.

    Guarantee: (order, renyi)-RDP implies (ε, delta)-DP with the returned ε.
    """
    _check_delta(delta)
    if renyi == math.inf:
        return math.inf
    if order == math.inf:
        return renyi
    if delta == 0.0:
        return 0.0 if renyi == 0.0 else math.inf
    if -math.expm1(-renyi) <= delta**2:
        return 0.0
    return max(0.0, renyi + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1.0))


def log_delta_from_renyi(order: float, renyi: float, *, epsilon: float) -> float:
    """log δ at `epsilon` of a mechanism whose D_order is at most `renyi`; −inf where δ is 0.

    Guarantee: (order, renyi)-RDP implies (epsilon, δ)-DP with the returned δ.
    """
    if epsilon < 0.0:
        raise ValueError(f"epsilon must be at least 0, found {epsilon}")
    if renyi == math.inf:
        return 0.0
    if renyi == 0.0 or (order == math.inf and renyi <= epsilon):
        return -math.inf
    at_zero = 0.5 * math.log(-math.expm1(-renyi))
    if order == math.inf:
        return min(0.0, at_zero)
    improved = (order - 1.0) * (renyi - epsilon + math.log1p(-1.0 / order)) - math.log(order)
    return min(0.0, at_zero, improved)


def classic_epsilon_from_renyi(order: float, renyi: float, *, delta: float) -> float:
    """ε by the conversion of the papers, for comparison: valid, never below `epsilon_from_renyi`."""
    _check_delta(delta)
    if order == math.inf or renyi == math.inf:
        return renyi
    return renyi + math.log(1.0 / delta) / (order - 1.0) if delta > 0.0 else math.inf


def rdp_epsilon(curve: RenyiCurve, *, delta: float) -> Converted:
    """Least ε at `delta` over all orders of a curve.

    Guarantee: a mechanism with this Rényi curve is (value, delta)-DP.
    """
    _check_delta(delta)
    best, order = curve.minimise(lambda a, d: epsilon_from_renyi(a, d, delta=delta))
    return Converted(best, order)


def rdp_delta(curve: RenyiCurve, *, epsilon: float) -> Converted:
    """Least δ at `epsilon` over all orders of a curve.

    Guarantee: a mechanism with this Rényi curve is (epsilon, value)-DP.
    """
    best, order = curve.minimise(lambda a, d: log_delta_from_renyi(a, d, epsilon=epsilon))
    return Converted(math.exp(best), order)


def _check_delta(delta: float) -> None:
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must be in [0, 1], found {delta}")
