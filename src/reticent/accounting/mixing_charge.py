"""What one token of SubMix or SubMix-F costs each part: pure functions on float64 log-probabilities.

SubMix (Ginart et al. 2022, Algorithm 2) mixes k parts h_i with the public model r and charges part i the
symmetric Rényi divergence between the mixture and the mixture without it. That number is the divergence this
very release had: it depends on all parts, so it is private, and the promise made of it is instance-level
(`reticent.core.event.RealisedCharge`).

SubMix-F mixes p_i = λ_i h_i + (1−λ_i) r with a fixed divisor, h = (1/k) Σ p_i; a removed part contributes r. With
λ_i ≤ λmax < 1 public,

    w = 1/k + (1−1/k)(1−λmax),    G_i = r + λ_i/(k w) (h_i − r),
    charge = log(w·I_a + 1 − w)/(a−1),    I_a the greater of I_a(G_i‖r) and I_a(r‖G_i).

Proof: every other p_j ≥ (1−λmax) r, so the mixture without part i is w r + (1−w) S and the mixture with it
w G_i + (1−w) S for the same pmf S; I_a is jointly convex and I_a(S‖S) = 1. The charge does not depend on the
other parts, hence each part has a Rényi filter of its own (Feldman and Zrnic 2021).

Does not choose λ, sample, or keep count. Rows must be log-pmfs; the Rényi divergence itself is core's.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.core.divergence import log_moment, symmetric_renyi_divergence

Floats = NDArray[np.float64]


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


def submix_charges(
    log_parts: ArrayLike, log_public: ArrayLike, weights: ArrayLike, *, order: float, common: bool
) -> Floats:
    """Charge of each part [k]: D_a^sym between the mixture and the mixture of the other k−1 parts.

    Guarantee: the Rényi divergence, in the worse direction, that releasing one token of `submix_mixture` has
    against the same release with part i removed from the partition, for these very parts and this context.
    With one part, removal leaves the public model. Nothing is promised for other data.
    """
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


def common_share(parts: int, weight_limit: float) -> float:
    """w = 1/k + (1−1/k)(1−λmax): how much of any mixture is surely the public model once one part is out."""
    if parts < 1:
        raise ValueError(f"parts must be at least 1, found {parts}")
    if not 0.0 < weight_limit < 1.0:
        raise ValueError(f"the limit of the mixing weights must lie in (0, 1), found {weight_limit}")
    return 1.0 / parts + (1.0 - 1.0 / parts) * (1.0 - weight_limit)


def filtered_charges(
    log_parts: ArrayLike,
    log_public: ArrayLike,
    weights: ArrayLike,
    *,
    order: float,
    parts: int,
    weight_limit: float,
) -> Floats:
    """SubMix-F's charge of each row [...] of `log_parts` [..., V] at weights λ [...] in an ensemble of `parts`.

    Guarantee: an upper bound, whatever the other parts hold, on the symmetric D_a between one token of
    `fixed_mixture` and the same with this part replaced by the public model, as long as every part keeps
    λ ≤ `weight_limit`. It depends on this part, the public model and the context alone, so charges add up under a
    per-part filter into an ordinary (a, ε) Rényi guarantee at part level.
    """
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
