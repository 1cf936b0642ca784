"""Exact δ(ε) of one Poisson-sampled Gaussian step, for each way in which neighbours differ.

δ(ε) = Σ (P − e^ε Q)_+ for the pairs of `sampled_gaussian`. The privacy loss grows with x, so P − e^ε Q is positive
right of one point x*, and δ is a difference of Gaussian tails:

    remove one   P = M_1, Q = N_0     x* = 1/2 + σ² log((e^ε − 1 + q)/q)
    add one      P = N_0, Q = M_1     mirror image: δ_add(ε) = 1 − e^ε + e^ε δ_remove(−ε)
    replace one  P = M_1, Q = M_−1    x* = σ² (ε/2 + arsinh(c sinh(ε/2))),  c = e^{1/2σ²} (1 − q)/q

With q = 1 the first is the analytic Gaussian mechanism (Balle and Wang 2018). Composition is in `pld`.
"""

import math
from enum import Enum

import numpy as np

from reticent.accounting.light_imports import log_ndtr, ndtr
from reticent.core.arrays import Floats

_LARGE = 300.0  # of a logarithm: what is larger is multiplied by adding logarithms


class Direction(Enum):
    """Which world is P, the one whose output is seen."""

    REMOVE = "remove"
    ADD = "add"
    REPLACE = "replace"


def step_delta(epsilons: Floats, direction: Direction, *, noise_multiplier: float, sampling_rate: float) -> Floats:
    """δ at each of `epsilons` [n] (negative ones too) of one step, as [n].

    Guarantee: the hockey-stick divergence of the pair, to float64 rounding; never below 0 nor above 1.
    """
    epsilon = np.asarray(epsilons, dtype=np.float64)
    # Left of 0 the mirror image keeps the small quantities small: δ_PQ(−ε) = 1 − e^−ε + e^−ε δ_QP(ε).
    mirrored = {Direction.REMOVE: Direction.ADD, Direction.ADD: Direction.REMOVE}.get(direction, direction)
    right = epsilon >= 0.0
    left = -epsilon[~right]
    result = np.empty_like(epsilon)
    result[right] = _delta(epsilon[right], direction, noise_multiplier, sampling_rate)
    result[~right] = -np.expm1(-left) + np.exp(-left) * _delta(left, mirrored, noise_multiplier, sampling_rate)
    return np.asarray(np.clip(np.where(np.isnan(result), 1.0, result), 0.0, 1.0))  # unknown is unprotected


def _delta(epsilon: Floats, direction: Direction, sigma: float, q: float) -> Floats:
    """δ at epsilons ≥ 0 [n]; σ and q as in the formulas above."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if direction is Direction.REMOVE:
            excess = np.expm1(epsilon) + q
            log_excess = np.where(epsilon < _LARGE, np.log(excess), epsilon)
            x = 0.5 + sigma**2 * (log_excess - math.log(q))
            return np.asarray(q * ndtr((1.0 - x) / sigma) - _product(excess, log_excess, -x / sigma))
        if direction is Direction.ADD:
            excess = np.expm1(-epsilon) + q  # the ratio's distance from its least value, 1 − q
            log_excess = -epsilon if q == 1.0 else np.log(np.maximum(excess, 0.0))
            x = 0.5 + sigma**2 * (log_excess - math.log(q))
            grown = np.ones_like(epsilon) if q == 1.0 else np.exp(epsilon) * excess
            behind = _product(q * np.exp(epsilon), epsilon + math.log(q), (x - 1.0) / sigma)
            return np.asarray(np.where(log_excess > -np.inf, grown * ndtr(x / sigma) - behind, 0.0))
        x = sigma**2 * (0.5 * epsilon + _arsinh_product(epsilon, sigma, q))
        ahead = q * ndtr((1.0 - x) / sigma)
        behind = _product(q * np.exp(epsilon), epsilon + math.log(q), (-1.0 - x) / sigma)
        if q == 1.0:
            return np.asarray(ahead - behind)
        centre = _product((1.0 - q) * np.expm1(epsilon), epsilon + math.log1p(-q), -x / sigma)
        return np.asarray(ahead - centre - behind)


def _product(factor: Floats, log_factor: Floats, z: Floats) -> Floats:
    """factor × Φ(z), by logarithms where the factor is large and Φ may be nothing but an underflow."""
    result = np.asarray(factor * ndtr(z))
    large = ~(log_factor < _LARGE)
    if large.any():
        result[large] = np.exp(log_factor[large] + log_ndtr(z[large]))
    return result


def _arsinh_product(epsilon: Floats, sigma: float, q: float) -> Floats:
    """arsinh(c sinh(ε/2)) with log c = 1/2σ² + log((1 − q)/q), which may be too large for c itself."""
    if q == 1.0:
        return np.zeros_like(epsilon)
    log_c = 0.5 / sigma**2 + math.log1p(-q) - math.log(q)
    log_sinh = 0.5 * epsilon + np.log(-np.expm1(-epsilon)) - math.log(2.0)
    log_product = log_c + log_sinh
    return np.asarray(np.where(log_product < 300.0, np.arcsinh(np.exp(log_product)), math.log(2.0) + log_product))


def loss_range(direction: Direction, *, noise_multiplier: float, sampling_rate: float) -> tuple[float, float]:
    """Least and greatest privacy loss within 9.8 standard deviations of all means; 1e-22 of the mass is beyond."""
    reach = 9.8 * noise_multiplier

    def loss(x: float) -> float:
        ahead = _log_mixture(x - 0.5, noise_multiplier, sampling_rate)
        return ahead - _log_mixture(-x - 0.5, noise_multiplier, sampling_rate) * (direction is Direction.REPLACE)

    low, high = loss(-1.0 - reach), loss(1.0 + reach)
    return (-high, -low) if direction is Direction.ADD else (low, high)


def _log_mixture(shifted: float, sigma: float, q: float) -> float:
    """log(1 − q + q e^{shifted/σ²})."""
    if q == 1.0:
        return shifted / sigma**2
    return float(np.logaddexp(math.log1p(-q), math.log(q) + shifted / sigma**2))
