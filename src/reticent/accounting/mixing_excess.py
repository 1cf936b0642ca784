"""The charges of `mixing_charge` from pmfs instead of logarithms: the same numbers, many times faster.

Whole orders take the positive polynomial of `mixing_curves`, which needs no logarithm and cancels nothing. Other
finite orders go through core's Rényi divergence; order ∞ is max |log g|.

Rows must be pmfs of float64 that sum to 1 within its rounding. Does not choose weights, sample or keep count.
"""

import math

import numpy as np

from reticent.accounting.mixing_charge import common_share
from reticent.accounting.mixing_curves import Floats, Pull, is_polynomial
from reticent.accounting.vocabulary_loops import PartRows, pair_excesses
from reticent.core.divergence import symmetric_renyi_divergence


def symmetric_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """max(D_a(P‖Q), D_a(Q‖P)) of pmfs [..., V] (broadcast), as [...], for any order in (1, ∞].

    Guarantee: equals core's symmetric Rényi divergence to float64's precision; +inf where supports differ.
    """
    p, q = np.broadcast_arrays(p, q)
    if not is_polynomial(order):
        with np.errstate(divide="ignore"):
            return symmetric_renyi_divergence(np.log(p), np.log(q), order)
    size = p.shape[-1]
    return _worse(p.reshape(-1, size), q.reshape(-1, size), order).reshape(p.shape[:-1])


def _worse(p: Floats, q: Floats, order: float) -> Floats:
    """The greater divergence of pmfs p [m, V], or one [1, V] for all, and q [m, V], as [m], for a whole order."""
    sums = pair_excesses(p, q, int(order))
    # Where one has mass and the other none a direction is infinite, or infinity times nothing.
    return np.asarray(np.log1p(np.where(np.isnan(sums), np.inf, sums).max(axis=0)) / (order - 1.0))


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
    rows, r = PartRows.of(parts), public[None]
    pairs = zip(of_parts, of_public, strict=True)
    without = np.concatenate([rows.mixed(each[None], r, np.array([rest])) for each, rest in pairs])  # [k, V]
    if not is_polynomial(order):
        return symmetric_divergence(mixture, without, order)
    return _worse(mixture[None], without, order)


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


def mixture_pmf(parts: Floats | PartRows, public: Floats, weights: Floats, *, common: bool) -> Floats:
    """(1/k) Σ λ_i h_i + (1−λ_i) r as pmfs [..., V], of parts [..., k, V], public [..., V] and weights [..., k].

    `common` mixes the mean of the parts with the mean weight. `...` is nothing for one text, or n.
    """
    rows = parts if isinstance(parts, PartRows) else PartRows.of(parts)
    count = weights.shape[-1]
    of_texts = weights.reshape(-1, count)  # [n, k]
    mean = of_texts.mean(axis=1)  # [n]
    shares = np.repeat(mean[:, None], count, axis=1) if common else of_texts
    return rows.mixed(shares / count, public.reshape(len(mean), -1), 1.0 - mean).reshape(public.shape)
