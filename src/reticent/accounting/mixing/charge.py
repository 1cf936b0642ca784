"""What one token of SubMix or SubMix-F costs each part: pure functions on float64 pmfs.

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

I_a is that of `reticent.core.divergence`, computed by compiled loops (`mixing.curves` chooses which). Does not
choose λ, sample, or keep count. Rows must be pmfs of float64 that sum to 1 within its rounding.
"""

import math

import numpy as np

from reticent.accounting.mixing.curves import Pull, greatest_log_ratios, pair_log_excesses
from reticent.accounting.mixing.loops import PartRows
from reticent.core.arrays import Floats


def common_share(parts: int, weight_limit: float) -> float:
    """w = 1/k + (1−1/k)(1−λmax): how much of any mixture is surely the public model once one part is out."""
    if parts < 1:
        raise ValueError(f"parts must be at least 1, found {parts}")
    if not 0.0 < weight_limit < 1.0:
        raise ValueError(f"the limit of the mixing weights must lie in (0, 1), found {weight_limit}")
    return 1.0 / parts + (1.0 - 1.0 / parts) * (1.0 - weight_limit)


def filtered_charges(pull: Pull, weights: Floats, *, parts: int, weight_limit: float) -> Floats:
    """SubMix-F's charge of each part [k] at weights λ [k] in an ensemble of `parts`, at any order in (1, ∞].

    Guarantee: an upper bound, whatever the other parts hold, on the symmetric D_a between one token of SubMix-F and
    the same with this part replaced by the public model, as long as every part keeps λ ≤ `weight_limit`. It depends
    on this part, the public model and the context alone, so charges add up under a per-part filter into an ordinary
    (a, ε) Rényi guarantee at part level. At order ∞ it is the greatest |log(G_i/r)|: for the S of the proof
    (wG + (1−w)S)/(wr + (1−w)S) never leaves the interval of G/r and 1.
    """
    share = common_share(parts, weight_limit)
    if not ((weights >= 0.0) & (weights <= weight_limit)).all():
        raise ValueError(f"mixing weights must lie in [0, {weight_limit}]")
    theta = weights / (parts * share)
    if pull.order == math.inf:
        return pull.greatest_log_ratio(theta)
    return _nats(pull.log_excess(theta) + math.log(share), pull.order)


def leave_one_out_charges(parts: Floats, public: Floats, weights: Floats, *, order: float, common: bool) -> Floats:
    """Algorithm 2's charge of each part [k], from pmfs [k, V] and weights λ [k]: D_a^sym of the mixture without it.

    Guarantee: the Rényi divergence, in the worse direction, that releasing one token of `mixture_pmf` has against
    the same release with part i removed from the partition, for these very parts and this context, at any order
    in (1, ∞]. With one part, removal leaves the public model. Nothing is promised for other data.
    """
    mixture = mixture_pmf(parts, public, weights, common=common)  # [V]
    of_parts, of_public = _shares_without(weights, common=common)  # [k, k], [k]
    rows, r = PartRows.of(parts), public[None]
    pairs = zip(of_parts, of_public, strict=True)
    without = np.concatenate([rows.mixed(each[None], r, np.array([rest])) for each, rest in pairs])  # [k, V]
    return symmetric_divergence(mixture[None], without, order)


def symmetric_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """The greater of D_a(P‖Q) and D_a(Q‖P) of pmfs p [m, V], or one [1, V] for all, and q [m, V], as [m].

    Guarantee: equals core's symmetric Rényi divergence to float64's precision; +inf where supports differ.
    """
    if order == math.inf:
        return greatest_log_ratios(p, q)
    return _nats(pair_log_excesses(p, q, order).max(axis=0), order)


def _nats(log_excess: Floats, order: float) -> Floats:
    """D_a = log(1 + E)/(a−1), exact both for a tiny excess and where it overflows."""
    return np.asarray(np.logaddexp(0.0, log_excess) / (order - 1.0))


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
