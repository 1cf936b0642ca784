"""Rényi divergence between finite distributions, by definition: what every faster computation must equal.

Mixing takes faster implementations, chosen in `reticent.accounting.mixing.curves`; tests hold each to this one.

    I_a(P‖Q) = Σ P^a Q^(1−a),    D_a(P‖Q) = log I_a / (a − 1),    D_∞ = max log(P/Q)

Everything is float64 and starts from log-probabilities. Near P = Q the sum Σ P^a Q^(1−a) is 1 plus a tiny
excess that plain arithmetic rounds away, so the excess is computed by itself, centred (Σ(P − Q) = 0):

    I_a − 1 = Σ Q φ_a(u),   u = log(P/Q),   φ_a(u) = e^{au} − 1 − a(e^u − 1) ≥ 0

For a = 2 that is Σ (P − Q)²/Q. Far from P = Q the direct sum in log space is exact and cannot overflow.

Does not normalise its inputs: rows must be log-pmfs (see `log_normalise`).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from reticent.core.arrays import Floats

_SERIES_RADIUS = 0.05  # |a u| below which φ is summed as a series
_UNDERFLOW = -650.0  # logarithms below this are not trusted to survive exp
_SERIES_TERMS = 10  # 0.05^12 / 12! is far below float64's precision relative to the leading term


def log_normalise(logits: ArrayLike) -> Floats:
    """Log-pmf of each row of `logits` [..., V], in float64."""
    rows = np.asarray(logits, dtype=np.float64)
    top = rows.max(axis=-1, keepdims=True)
    shifted = rows - top
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def log_sum_exp(rows: Floats) -> Floats:
    """log Σ exp over the last axis [..., n]; +inf if any entry is. Several times as fast as scipy's general one."""
    top = rows.max(axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    summed = np.log(np.exp(rows - safe).sum(axis=-1)) + safe[..., 0]
    return np.asarray(np.where(np.isposinf(top[..., 0]), np.inf, summed))


def _phi(u: Floats, order: float | Floats) -> Floats:
    """φ_a(u) = e^{au} − 1 − a(e^u − 1), without cancellation near u = 0; a − 1 at u = −∞."""
    with np.errstate(over="ignore", invalid="ignore"):
        direct = np.expm1(order * u) - order * np.expm1(u)
    small = np.abs(order * u) < _SERIES_RADIUS
    if not small.any():
        return np.asarray(direct)
    v = np.where(small, u, 0.0)
    series = np.zeros_like(v)
    power = np.ones_like(v)
    for k in range(1, _SERIES_TERMS + 2):  # Σ_{k≥2} (a^k − a) u^k / k!
        power = power * v / k
        if k >= 2:
            series += (order**k - order) * power
    return np.where(small, series, direct)


def log_moment(log_p: ArrayLike, log_q: ArrayLike, order: float | Floats) -> Floats:
    """log I_a(P‖Q) ≥ 0 of log-pmfs [..., V] (broadcast), as [...]; +inf where P has mass and Q none.

    The order is one for all, or [...], one for each.

    Guarantee: relative error stays near machine precision both as P → Q and as the moment overflows.
    """
    if not np.all((np.asarray(order) > 1.0) & (np.asarray(order) < math.inf)):
        raise ValueError(f"the moment needs a finite order above 1, found {order}")
    order = order[..., None] if isinstance(order, np.ndarray) else order
    p, q = np.broadcast_arrays(np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64))
    if np.isnan(p).any() or np.isnan(q).any():
        raise ValueError("log-probabilities contain NaN")
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        u = np.where(np.isneginf(p), -np.inf, p - q)  # [..., V]; +inf where only Q vanishes
        weight = np.exp(q)
        terms = np.where(weight > 0, weight * _phi(u, order), 0.0)
        excess = terms.sum(axis=-1)
        # Where Q underflows in exp its term of the centred sum is lost, though P^a Q^(1−a) may be the greatest.
        hidden = (np.isfinite(q) & (q < _UNDERFLOW) & (u > 0)).any(axis=-1)
        far = ~(excess < 1.0) | hidden  # also where the centred sum overflowed to inf or nan
        result = np.log1p(np.where(far, 0.0, np.maximum(excess, 0.0)))
        if far.any():
            exponent = np.where(np.isneginf(p), -np.inf, order * p + (1.0 - order) * q)
            result = np.where(far, log_sum_exp(exponent), result)
        only_p = (np.isneginf(q) & ~np.isneginf(p)).any(axis=-1)
    return np.asarray(np.where(only_p, np.inf, np.maximum(result, 0.0)))


def renyi_divergence(log_p: ArrayLike, log_q: ArrayLike, order: float | Floats) -> Floats:
    """D_a(P‖Q) in nats of log-pmfs [..., V] (broadcast), as [...].

    Any order in (1, ∞] for all, or [...], a finite one for each.
    """
    if not isinstance(order, np.ndarray) and order == math.inf:
        p, q = np.broadcast_arrays(np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64))
        if np.isnan(p).any() or np.isnan(q).any():
            raise ValueError("log-probabilities contain NaN")
        with np.errstate(invalid="ignore"):
            u = np.where(np.isneginf(p), -np.inf, p - q)
        return np.asarray(np.maximum(u.max(axis=-1), 0.0))
    return np.asarray(log_moment(log_p, log_q, order) / (order - 1.0))


def symmetric_renyi_divergence(log_p: ArrayLike, log_q: ArrayLike, order: float) -> Floats:
    """The greater of D_a(P‖Q) and D_a(Q‖P): what a mechanism must be charged for two neighbours."""
    forward = renyi_divergence(log_p, log_q, order)
    return np.asarray(np.maximum(forward, renyi_divergence(log_q, log_p, order)))
