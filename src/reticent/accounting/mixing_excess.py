"""The charges of `mixing_charge` from pmfs instead of logarithms: the same numbers, many times faster.

Whole orders take the positive polynomial of `mixing_curves`, which needs no logarithm and cancels nothing. Other
finite orders go through core's Rényi divergence; order ∞ is max |log g|.

Rows must be pmfs of float64 that sum to 1 within its rounding. Does not choose weights, sample or keep count.
"""

import math

import numpy as np

from reticent.accounting.mixing_charge import common_share
from reticent.accounting.mixing_curves import Floats, Pull, columns_at_once, is_polynomial
from reticent.core.divergence import symmetric_renyi_divergence


def symmetric_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """max(D_a(P‖Q), D_a(Q‖P)) of pmfs [..., V] (broadcast), as [...], for any order in (1, ∞].

    Guarantee: equals core's symmetric Rényi divergence to float64's precision; +inf where supports differ.
    """
    p, q = np.broadcast_arrays(p, q)
    if not is_polynomial(order):
        with np.errstate(divide="ignore"):
            return symmetric_renyi_divergence(np.log(p), np.log(q), order)
    sums = np.zeros((2, *p.shape[:-1]))
    step = columns_at_once(p[..., 0].size)
    for start in range(0, p.shape[-1], step):
        place = (..., slice(start, start + step))
        sums += _both_excesses(p[place], q[place], int(order) - 1)
    return _worse(sums, order)


def _worse(sums: Floats, order: float) -> Floats:
    """The divergence of the greater of two excesses [2, ...]."""
    # Where one has mass and the other none a direction is infinite, or infinity times nothing.
    return np.asarray(np.log1p(np.where(np.isnan(sums), np.inf, sums).max(axis=0)) / (order - 1.0))


def _both_excesses(p: Floats, q: Floats, degree: int) -> Floats:
    """I_a − 1 in both directions [2, ...] of one block, a = degree + 1; infinite or NaN where supports differ."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = p / q
        np.copyto(ratio, 1.0, where=(p == 0.0) & (q == 0.0))
        square = (p - q) * (ratio - 1.0)
        inverse = 1.0 / ratio
        forward, reverse = degree * square.sum(axis=-1), degree * np.vecdot(square, inverse)
        up, down = ratio, inverse
        for j in range(1, degree):
            down = down * inverse
            forward = forward + (degree - j) * np.vecdot(square, up)
            reverse = reverse + (degree - j) * np.vecdot(square, down)
            up = up * ratio if j + 1 < degree else up
    return np.stack([forward, reverse])


def filtered_pmf_charges(pull: Pull, weights: Floats, *, parts: int, weight_limit: float) -> Floats:
    """SubMix-F's charge of each part [k] at weights λ [k], from what `Pull` has computed.

    Guarantee: that of `mixing_charge.filtered_charges`, whose numbers it equals. At order ∞ it is the greatest
    |log(G_i/r)|: for the S of that proof (wG + (1−w)S)/(wr + (1−w)S) never leaves the interval of G/r and 1.
    """
    share = common_share(parts, weight_limit)
    if not ((weights >= 0.0) & (weights <= weight_limit)).all():
        raise ValueError(f"mixing weights must lie in [0, {weight_limit}]")
    theta = weights / (parts * share)
    if pull.order == math.inf:
        return pull.divergence(theta)
    return np.asarray(np.log1p(share * pull.excess(theta)) / (pull.order - 1.0))


def leave_one_out_charges(parts: Floats, public: Floats, weights: Floats, *, order: float, common: bool) -> Floats:
    """Algorithm 2's charge of each part [k], from pmfs [k, V] and weights λ [k], with the mixture computed once.

    Guarantee: that of `mixing_charge.submix_charges`, whose numbers it equals, at any order in (1, ∞].
    """
    mixture = mixture_pmf(parts, public, weights, common=common)  # [V]
    of_parts, of_public = _shares_without(weights, common=common)  # [k, k], [k]
    if not is_polynomial(order) or not (weights < 1.0).all():
        without = of_parts @ parts + of_public[:, None] * public  # [k, V]
        return symmetric_divergence(mixture, without, order)
    # The public model has a share in both, so both are positive and no support needs to be looked at.
    sums = np.zeros((2, len(weights)))
    step = columns_at_once(len(weights))
    space = np.empty((4, len(weights), min(step, len(public))))
    with np.errstate(over="ignore"):
        for start in range(0, len(public), step):
            place = slice(start, start + step)
            own = space[..., : len(public[place])]
            without = np.matmul(of_parts, parts[:, place], out=own[0])
            without += np.multiply(of_public[:, None], public[place], out=own[1])
            _add_excesses(sums, mixture[place], without, own[1:], int(order) - 1)
    return _worse(sums, order)


def _shares_without(weights: Floats, *, common: bool) -> tuple[Floats, Floats]:
    """What each part [k, k] and the public model [k] have of the mixture without part i, i = 1..k.

    No share is negative and its own is 0: taking a part out of the sum of all would cancel where it dominates.
    """
    count = len(weights)
    if count == 1:
        return np.zeros((1, 1)), np.ones(1)
    others = (1.0 - np.eye(count)) / (count - 1)
    mean = others @ weights  # [k], of the weights of the others
    return others * (mean[:, None] if common else weights), 1.0 - mean


def _add_excesses(sums: Floats, p: Floats, q: Floats, space: Floats, degree: int) -> None:
    """Add I_a(P‖Q) − 1 and I_a(Q‖P) − 1 of positive p [columns], q [k, columns] to sums [2, k]; overwrites q."""
    square, inverse, term = space
    ones, inverse_p = np.ones_like(p), 1.0 / p
    np.subtract(p, q, out=square)
    square *= square
    np.divide(1.0, q, out=inverse)
    np.multiply(square, inverse, out=term)
    sums[0] += degree * (term @ ones)
    if degree > 1:
        inverse *= p  # P/Q
    for j in range(1, degree):
        term *= inverse
        sums[0] += (degree - j) * (term @ ones)
    sums[1] += degree * (square @ inverse_p)
    if degree > 1:
        q *= inverse_p
    for j in range(1, degree):
        square *= q
        sums[1] += (degree - j) * (square @ inverse_p)


def mixture_pmf(parts: Floats, public: Floats, weights: Floats, *, common: bool) -> Floats:
    """(1/k) Σ λ_i h_i + (1−λ_i) r as pmfs [..., V], of parts [..., k, V], public [..., V] and weights [..., k].

    `common` mixes the mean of the parts with the mean weight.
    """
    count = weights.shape[-1]
    mean = weights.sum(axis=-1, keepdims=True) / count  # [..., 1]
    shares = np.repeat(mean, count, axis=-1) if common else weights
    return np.asarray(((shares / count)[..., None, :] @ parts)[..., 0, :] + (1.0 - mean) * public)
