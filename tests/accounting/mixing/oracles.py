"""What SubMix and SubMix-F charge, by their definitions: part by part, from logarithms, on core's divergence.

The slow, obvious versions of `reticent.accounting.mixing.charge`, which takes pmfs and runs compiled loops.
Rows are log-pmfs; `exact_excesses` works in arbitrary precision on pmfs.
"""

from collections.abc import Sequence
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

from reticent.accounting.mixing.charge import common_share
from reticent.core.arrays import Floats
from reticent.core.divergence import log_moment, symmetric_renyi_divergence


def log_mixture(log_p: ArrayLike, log_q: ArrayLike, weight: ArrayLike) -> Floats:
    """log(λ P + (1−λ) Q) of log-pmfs [..., V] with weights [...] in [0, 1]."""
    share = np.asarray(weight, dtype=np.float64)[..., None]
    if not ((share >= 0.0) & (share <= 1.0)).all():
        raise ValueError("mixing weights must lie in [0, 1]")
    with np.errstate(divide="ignore"):
        first, second = np.log(share), np.log1p(-share)
    return np.asarray(np.logaddexp(first + np.asarray(log_p, np.float64), second + np.asarray(log_q, np.float64)))


def submix_mixture(log_parts: ArrayLike, log_public: ArrayLike, weights: ArrayLike, *, common: bool) -> Floats:
    """log h [V]: what SubMix samples from, of parts [k, V], the public model [V] and weights λ_i [k].

    `common` mixes with the mean λ* (the paper's Algorithm 2); otherwise each part with its own λ_i (its figure).
    No parts at all (k = 0) leaves the public model.
    """
    parts, public, shares = _checked(log_parts, log_public, weights)
    if len(shares) == 0:
        return public
    if common:
        return log_mixture(_log_mean(parts), public, shares.mean())
    return _log_mean(log_mixture(parts, public[None, :], shares))


def slow_submix_charges(
    log_parts: ArrayLike, log_public: ArrayLike, weights: ArrayLike, *, order: float, common: bool
) -> Floats:
    """Charge of each part [k]: D_a^sym between the mixture and the mixture of the other k−1 parts."""
    parts, public, shares = _checked(log_parts, log_public, weights)
    mixture = submix_mixture(parts, public, shares, common=common)  # [V]
    charges = np.empty(len(shares))
    for i in range(len(shares)):
        rest = np.arange(len(shares)) != i
        without = submix_mixture(parts[rest], public, shares[rest], common=common)  # [V]
        charges[i] = float(symmetric_renyi_divergence(mixture, without, order))
    return charges


def fixed_mixture(log_parts: ArrayLike, log_public: ArrayLike, weights: ArrayLike) -> Floats:
    """log h [V] of SubMix-F: (1/k) Σ λ_i h_i + (1−λ_i) r. A part that is spent or removed has weight 0."""
    return submix_mixture(log_parts, log_public, weights, common=False)


def slow_filtered_charges(
    log_parts: ArrayLike,
    log_public: ArrayLike,
    weights: ArrayLike,
    *,
    order: float,
    parts: int,
    weight_limit: float,
) -> Floats:
    """SubMix-F's charge of each row [...] of `log_parts` [..., V] at weights λ [...] in an ensemble of `parts`."""
    share = common_share(parts, weight_limit)
    weight = np.asarray(weights, dtype=np.float64)
    if not ((weight >= 0.0) & (weight <= weight_limit)).all():
        raise ValueError(f"mixing weights must lie in [0, {weight_limit}]")
    public = np.asarray(log_public, dtype=np.float64)
    shifted = log_mixture(log_parts, public, weight / (parts * share))  # log G_i, [..., V]
    worse = np.maximum(log_moment(shifted, public, order), log_moment(public, shifted, order))
    return np.asarray(_diluted(worse, share) / (order - 1.0))


def _diluted(log_excess: Floats, share: float) -> Floats:
    """log(w e^m + 1 − w), exact both for tiny m and where e^m overflows."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = np.log1p(share * np.expm1(np.minimum(log_excess, 1.0)))
        far = np.logaddexp(np.log(share) + log_excess, np.log1p(-share))
    return np.asarray(np.where(log_excess < 1.0, near, far))


def _log_mean(rows: Floats) -> Floats:
    """log of the mean pmf of log-pmfs [k, V], as [V]."""
    return np.asarray(np.logaddexp.reduce(rows, axis=0) - np.log(len(rows)))


def _checked(log_parts: ArrayLike, log_public: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The three arrays in float64, with shapes [k, V], [V] and [k]."""
    parts = np.asarray(log_parts, dtype=np.float64)
    public = np.asarray(log_public, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    if public.ndim != 1 or parts.ndim != 2 or parts.shape != (len(shares), len(public)):
        raise ValueError(
            f"need parts [k, V], public [V], weights [k]; found {parts.shape}, {public.shape}, {shares.shape}"
        )
    return parts, public, shares


def exact_excesses(p: Sequence[Any], q: Sequence[Any], order: float) -> tuple[mp.mpf, mp.mpf]:
    """I_a(P‖Q) − 1 and I_a(Q‖P) − 1 of two pmfs [V] with 60 digits, centred as core's are."""
    with mp.workdps(60):
        rows = [[mp.mpf(x) for x in row] for row in (p, q)]
        a = mp.mpf(order)
        return tuple(  # type: ignore[return-value]
            mp.fsum(y * ((x / y) ** a - 1 - a * (x / y - 1)) for x, y in zip(one, other, strict=True))
            for one, other in (rows, rows[::-1])
        )
