"""The charges of `mixing_charge` from pmfs instead of logarithms: the same numbers, many times faster.

For pmfs P, Q with ratio g = P/Q and a whole order a = n + 1 the centred excess has positive terms only,

    I_a(P‖Q) − 1 = Σ (P−Q)²/Q · (n + (n−1) g + … + g^(n−1))

(g^a − 1 − a(g−1) = (g−1)² Σ_m (n−m) g^m), so nothing cancels, no logarithm is taken and a = 2 is Σ (P−Q)²/Q. The
reverse direction has the weights P/Q exchanged: Σ (P−Q)²/Q · s·(n + … + s^(n−1)) with s = 1/g. Other finite
orders go through core's Rényi divergence; order ∞ is max |log g|.

Rows must be pmfs of float64 that sum to 1 within its rounding. Does not choose weights, sample or keep count.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.mixing_charge import common_share
from reticent.core.divergence import symmetric_renyi_divergence

Floats = NDArray[np.float64]

WHOLE_ORDERS = 16  # up to which the polynomial is faster than logarithms
_BLOCK = 4096


def is_polynomial(order: float) -> bool:
    """Whether the positive polynomial form is used at this order."""
    return order <= WHOLE_ORDERS and float(order).is_integer()


def both_excesses(square: Floats, ratio: Floats, order: float) -> tuple[Floats, Floats]:
    """I_a − 1 in both directions [...], from (P−Q)²/Q [..., V] and P/Q [..., V], for a whole order."""
    inverse = 1.0 / ratio
    forward = _dot(square, _polynomial(ratio, int(order) - 1))
    tail = _polynomial(inverse, int(order) - 1)
    tail *= inverse
    return forward, _dot(square, tail)


def symmetric_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """max(D_a(P‖Q), D_a(Q‖P)) of pmfs [..., V] (broadcast), as [...], for any order in (1, ∞].

    Guarantee: equals core's symmetric Rényi divergence to float64's precision; +inf where supports differ.
    """
    p, q = np.broadcast_arrays(p, q)
    if not is_polynomial(order):
        with np.errstate(divide="ignore"):
            return symmetric_renyi_divergence(np.log(p), np.log(q), order)
    both, either = (p > 0) & (q > 0), (p > 0) | (q > 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(both, p / q, 1.0)
        square = np.where(both, (p - q) * (ratio - 1.0), 0.0)
        forward, backward = both_excesses(square, ratio, order)
    # Where one has mass and the other none the terms above are missing, and one direction is infinite.
    apart = (both != either).any(axis=-1)
    worse = np.log1p(np.maximum(forward, backward)) / (order - 1.0)
    return np.asarray(np.where(apart | np.isnan(worse), np.inf, worse))


class Pull:
    """How far parts h_i [k, V] pull from the public model r [V]: G = r + θ (h_i − r) against r, for any θ < 1.

    What every θ needs is computed once: u = h/r − 1 and (h − r)²/r, kept in blocks of the vocabulary [k, BLOCK]
    that stay in a processor's cache while they are worked on. r must be positive everywhere.
    """

    def __init__(self, parts: Floats, public: Floats, order: float) -> None:
        self.order = order
        self.parts = len(parts)
        self._public = public
        self._blocks: list[tuple[Floats, Floats]] = []  # u, (h − r)²/r
        for start in range(0, len(public), _BLOCK):
            r = public[start : start + _BLOCK]
            square = parts[:, start : start + _BLOCK] - r
            tilt = square / r
            square *= tilt
            self._blocks.append((tilt, square))
        # The excess at order 2 is θ² times this.
        self.chi_square: Floats = self._sum(square.sum(axis=-1) for _, square in self._blocks)

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest h/r − 1 of each part [k]."""
        least = np.min([tilt.min(axis=-1) for tilt, _ in self._blocks], axis=0)
        return least, np.max([tilt.max(axis=-1) for tilt, _ in self._blocks], axis=0)

    def moments(self) -> Floats:
        """Σ r u^j, j = 2..a, of each part, as [a − 1, k], for a whole order."""
        found = np.zeros((int(self.order) - 1, self.parts))
        found[0] = self.chi_square
        with np.errstate(over="ignore", invalid="ignore"):
            for tilt, square in self._blocks:
                power = tilt.copy()
                for j in range(1, int(self.order) - 1):
                    found[j] += _dot(square, power)
                    power *= tilt
        return found

    def forward_excess(self, theta: Floats) -> Floats:
        """I_a(G‖r) − 1 at weights θ [k], for a whole order."""
        if self.order == 2.0:
            return np.asarray(self.chi_square * theta**2)
        with np.errstate(over="ignore", invalid="ignore"):
            return theta**2 * self._sum(
                _dot(square, _polynomial(_ratio(tilt, theta), int(self.order) - 1)) for tilt, square in self._blocks
            )

    def reverse_excess(self, theta: Floats) -> Floats:
        """I_a(r‖G) − 1 at weights θ [k], for a whole order."""
        total = np.zeros(self.parts)
        for tilt, square in self._blocks:
            inverse = _ratio(tilt, theta)
            np.reciprocal(inverse, out=inverse)
            if self.order == 2.0:
                total += _dot(square, inverse)
                continue
            polynomial = _polynomial(inverse, int(self.order) - 1)
            polynomial *= inverse
            total += _dot(square, polynomial)
        return np.asarray(total * theta**2)

    def excess(self, theta: Floats) -> Floats:
        """The greater of I_a(G‖r) − 1 and I_a(r‖G) − 1 at weights θ [k], for a finite order; +inf on overflow."""
        if is_polynomial(self.order):
            with np.errstate(divide="ignore", invalid="ignore"):  # θ = 1 where a part has chances of 0
                worse = np.maximum(self.forward_excess(theta), self.reverse_excess(theta))
            return np.where(np.isnan(worse), np.inf, worse)
        ratio = np.concatenate([_ratio(tilt, theta) for tilt, _ in self._blocks], axis=1)
        with np.errstate(divide="ignore"):
            shifted, public = np.log(ratio * self._public), np.log(self._public)
        with np.errstate(over="ignore"):
            return np.asarray(
                np.expm1((self.order - 1.0) * symmetric_renyi_divergence(shifted, public, self.order))
            )

    def rough_excess(self, theta: Floats) -> Floats:
        """`excess` at a finite order that is no small whole number, within about 1e-15: for solving, not charging.

        Σ r (g^a − 1 − aθu) cancels near θ = 0, where core's series does not.
        """
        forward, reverse = np.zeros(self.parts), np.zeros(self.parts)
        start = 0
        for tilt, _ in self._blocks:
            r = self._public[start : start + tilt.shape[1]]
            start += tilt.shape[1]
            ratio = _ratio(tilt, theta)
            with np.errstate(over="ignore", divide="ignore"):
                tail = ratio ** (1.0 - self.order)
                reverse += (tail + (self.order - 1.0) * (ratio - 1.0) - 1.0) @ r
                forward += (ratio**self.order - self.order * (ratio - 1.0) - 1.0) @ r
        return np.asarray(np.maximum(np.maximum(forward, reverse), 0.0))

    def divergence(self, theta: Floats) -> Floats:
        """The greater of D_a(G‖r) and D_a(r‖G) at weights θ [k], at any order."""
        if self.order == math.inf:
            least, greatest = self.extremes()
            with np.errstate(divide="ignore"):
                return np.asarray(np.maximum(np.log1p(theta * greatest), -np.log1p(theta * least)))
        return np.asarray(np.log1p(self.excess(theta)) / (self.order - 1.0))

    def _sum(self, terms: Iterable[Floats]) -> Floats:
        """Sum over blocks [k]."""
        return np.asarray(sum(terms, np.zeros(self.parts)))


class Halves:
    """Two halves of each part against each other, both mixed with the public model at the same weight λ < 1.

    P = r + λ (p − r), Q = r + λ (q − r), for pmfs p, q [k, V] and r [V], in blocks as in `Pull`.
    """

    def __init__(self, first: Floats, second: Floats, public: Floats, order: float) -> None:
        self.order = order
        self.parts = len(first)
        self._blocks: list[tuple[Floats, Floats, Floats]] = []  # p/r − 1, q/r − 1, (p − q)²/r
        for start in range(0, len(public), _BLOCK):
            place = slice(start, start + _BLOCK)
            r = public[place]
            u, v = first[:, place] / r - 1.0, second[:, place] / r - 1.0
            self._blocks.append((u, v, (first[:, place] - second[:, place]) * (u - v)))
        self.chi_square: Floats = np.asarray(sum(square.sum(axis=-1) for _, _, square in self._blocks))

    def excess(self, weights: Floats) -> Floats:
        """The greater of I_a(P‖Q) − 1 and I_a(Q‖P) − 1 at weights λ [k], for a whole order; +inf on overflow."""
        forward, backward = np.zeros(self.parts), np.zeros(self.parts)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for u, v, square in self._blocks:
                p, q = _ratio(u, weights), _ratio(v, weights)
                if self.order == 2.0:
                    forward += _dot(square, np.reciprocal(q, out=q))
                    backward += _dot(square, np.reciprocal(p, out=p))
                    continue
                over_q = square / q
                one, other = both_excesses(over_q, p / q, self.order)
                forward += one
                backward += other
            worse = np.maximum(forward, backward) * weights**2
        return np.where(np.isnan(worse), np.inf, worse)


def forward_excess(moments: Floats, theta: Floats) -> Floats:
    """I_a(G‖r) − 1 = Σ_j C(a, j) θ^j Σ r u^j at weights θ [k], from `Pull.moments` [a − 1, k]; +inf on overflow."""
    order = len(moments) + 1
    total = np.zeros_like(theta)
    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(order, 1, -1):
            total = total * theta + math.comb(order, j) * moments[j - 2]
        total = total * theta**2
    return np.where(np.isnan(total), np.inf, total)


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
    count = len(weights)
    mixture = mixture_pmf(parts, public, weights, common=common)  # [V]
    if count == 1:
        return np.atleast_1d(symmetric_divergence(mixture, public, order))
    rows = parts if common else public + weights[:, None] * (parts - public)
    # Sums before and after each part: subtracting the part from the whole would cancel where it dominates.
    before = np.vstack([np.zeros_like(public), np.cumsum(rows[:-1], axis=0)])
    after = np.vstack([np.cumsum(rows[:0:-1], axis=0)[::-1], np.zeros_like(public)])
    without = (before + after) / (count - 1)  # [k, V]
    if common:
        share = (weights.sum() - weights) / (count - 1)
        without = share[:, None] * without + (1.0 - share)[:, None] * public
    return symmetric_divergence(mixture, without, order)


def mixture_pmf(parts: Floats, public: Floats, weights: Floats, *, common: bool) -> Floats:
    """(1/k) Σ λ_i h_i + (1−λ_i) r as a pmf [V]; `common` mixes the mean of the parts with the mean weight."""
    shares = np.full(len(weights), weights.mean()) if common else weights
    return np.asarray((shares / len(shares)) @ parts + (1.0 - shares.mean()) * public)


def _ratio(tilt: Floats, theta: Floats) -> Floats:
    """1 + θ u of a block [k, BLOCK]."""
    ratio = tilt * theta[:, None]
    ratio += 1.0
    return ratio


def _polynomial(x: Floats, degree: int) -> Floats:
    """n + (n−1) x + … + x^(n−1), n = `degree`, by Horner's rule."""
    if degree == 1:
        return np.ones_like(x)
    total = x + 2.0
    for coefficient in range(3, degree + 1):
        total *= x
        total += coefficient
    return total


def _dot(weights: Floats, values: Floats) -> Floats:
    """Σ over the last axis of products, without a temporary."""
    return np.asarray(np.einsum("...v,...v->...", weights, values))
