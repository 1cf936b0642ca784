"""The charges of `mixing_charge` from pmfs instead of logarithms: the same numbers, many times faster.

For pmfs P, Q with ratio g = P/Q and a whole order a = n + 1 the centred excess has positive terms only,

    I_a(P‖Q) − 1 = Σ (P−Q)²/Q · (n + (n−1) g + … + g^(n−1))

(g^a − 1 − a(g−1) = (g−1)² Σ_m (n−m) g^m), so nothing cancels, no logarithm is taken and a = 2 is Σ (P−Q)²/Q. The
reverse direction has the weights P/Q exchanged: Σ (P−Q)²/Q · s·(n + … + s^(n−1)) with s = 1/g. Sums of the powers
give the slope in λ as well, for whoever looks for a weight, and the moments Σ r u^j of a part give I_a(G‖r) at
every weight (`forward_curve`). Other finite orders go through core's Rényi divergence; order ∞ is max |log g|.

Rows must be pmfs of float64 that sum to 1 within its rounding. Does not choose weights, sample or keep count.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.mixing_charge import common_share
from reticent.core.divergence import symmetric_renyi_divergence

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]  # an excess E at some weights [k], and d log E/d log λ there

WHOLE_ORDERS = 16  # up to which the polynomial is faster than logarithms
_BLOCK = 8192
_TINY = 1e-300


def is_polynomial(order: float) -> bool:
    """Whether the positive polynomial form is used at this order."""
    return order <= WHOLE_ORDERS and float(order).is_integer()


def symmetric_divergence(p: Floats, q: Floats, order: float) -> Floats:
    """max(D_a(P‖Q), D_a(Q‖P)) of pmfs [..., V] (broadcast), as [...], for any order in (1, ∞].

    Guarantee: equals core's symmetric Rényi divergence to float64's precision; +inf where supports differ.
    """
    p, q = np.broadcast_arrays(p, q)
    if not is_polynomial(order):
        with np.errstate(divide="ignore"):
            return symmetric_renyi_divergence(np.log(p), np.log(q), order)
    sums = np.zeros((2, *p.shape[:-1]))
    for start in range(0, p.shape[-1], _BLOCK):
        place = (..., slice(start, start + _BLOCK))
        sums += _both_excesses(p[place], q[place], int(order) - 1)
    # Where one has mass and the other none a direction is infinite, or infinity times nothing.
    worse = np.log1p(np.where(np.isnan(sums), np.inf, sums).max(axis=0)) / (order - 1.0)
    return np.asarray(worse)


def _both_excesses(p: Floats, q: Floats, degree: int) -> Floats:
    """I_a − 1 in both directions [2, ...] of one block, a = degree + 1; infinite or NaN where supports differ."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = p / q
        np.copyto(ratio, 1.0, where=(p == 0.0) & (q == 0.0))
        square = (p - q) * (ratio - 1.0)
        inverse = np.reciprocal(ratio)
        forward, reverse = degree * square.sum(axis=-1), degree * np.vecdot(square, inverse)
        up, down = ratio, inverse
        for j in range(1, degree):
            down = down * inverse
            forward = forward + (degree - j) * np.vecdot(square, up)
            reverse = reverse + (degree - j) * np.vecdot(square, down)
            up = up * ratio if j + 1 < degree else up
    return np.stack([forward, reverse])


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
        self._moments: Floats | None = None
        self._space = np.empty((3, self.parts, min(_BLOCK, len(public))))

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest h/r − 1 of each part [k]."""
        least = np.min([tilt.min(axis=-1) for tilt, _ in self._blocks], axis=0)
        return least, np.max([tilt.max(axis=-1) for tilt, _ in self._blocks], axis=0)

    def moments(self) -> Floats:
        """Σ r u^j, j = 2..a, of each part, as [a − 1, k], for a whole order."""
        if self._moments is None:
            found = np.zeros((int(self.order) - 1, self.parts))
            found[0] = self.chi_square
            with np.errstate(over="ignore", invalid="ignore"):
                for tilt, square in self._blocks:
                    power = tilt
                    for j in range(1, len(found)):
                        found[j] += np.vecdot(square, power)
                        power = power * tilt if j + 1 < len(found) else power
            self._moments = found
        return self._moments

    def reverse(self, theta: Floats) -> Curve:
        """I_a(r‖G) − 1 at weights θ [k] with its slope, for a whole order.

        With s = 1/(1 + θu) it is θ² Σ_j (a−j) A_j, A_j = Σ (h−r)²/r·s^j, and θ dA_j/dθ = −j (A_j − A_{j+1}): one
        more sum gives the exact slope.
        """
        order = int(self.order)
        sums = np.zeros((order, self.parts))  # A_1 .. A_a
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # θ = 1 where a part has chances of 0
            for tilt, square in self._blocks:
                inverse, weighted, power = (space[:, : tilt.shape[1]] for space in self._space)
                np.multiply(tilt, theta[:, None], out=inverse)
                inverse += 1.0
                np.reciprocal(inverse, out=inverse)
                np.multiply(square, inverse, out=weighted)
                sums[0] += weighted.sum(axis=-1)
                sums[1] += np.vecdot(weighted, inverse)
                np.multiply(inverse, inverse, out=power)
                for j in range(2, order):
                    sums[j] += np.vecdot(weighted, power)
                    if j + 1 < order:
                        power *= inverse
            count = np.arange(1, order)
            terms = ((order - count)[:, None] * sums[:-1]).sum(axis=0)
            falls = ((order - count)[:, None] * count[:, None] * (sums[:-1] - sums[1:])).sum(axis=0)
            return theta**2 * terms, 2.0 - falls / np.maximum(terms, _TINY)

    def excess(self, theta: Floats) -> Floats:
        """The greater of I_a(G‖r) − 1 and I_a(r‖G) − 1 at weights θ [k], for a finite order; +inf on overflow."""
        if is_polynomial(self.order):
            worse = np.maximum(forward_curve(self.moments(), theta)[0], self.reverse(theta)[0])
            return np.where(np.isnan(worse), np.inf, worse)
        ratio = np.concatenate([_ratio(tilt, theta) for tilt, _ in self._blocks], axis=1)
        with np.errstate(divide="ignore"):
            shifted, public = np.log(ratio * self._public), np.log(self._public)
        with np.errstate(over="ignore"):
            return np.asarray(
                np.expm1((self.order - 1.0) * symmetric_renyi_divergence(shifted, public, self.order))
            )

    def rough(self, theta: Floats) -> Curve:
        """The greater excess at a finite order that is no small whole number, within about 1e-15, with its slope.

        For solving, not charging: Σ r (g^a − 1 − aθu) cancels near θ = 0, where core's series does not.
        """
        order = self.order
        sums = np.zeros((4, self.parts))  # both excesses, both derivatives in log θ
        start = 0
        for tilt, _ in self._blocks:
            r = self._public[start : start + tilt.shape[1]]
            start += tilt.shape[1]
            ratio = _ratio(tilt, theta)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                rise, tail = ratio ** (order - 1.0), ratio ** (1.0 - order)
                moved = ratio - 1.0
                sums[0] += (rise * ratio - order * moved - 1.0) @ r
                sums[1] += (tail + (order - 1.0) * moved - 1.0) @ r
                sums[2] += order * (((rise - 1.0) * moved) @ r)
                sums[3] += (order - 1.0) * ((moved * (1.0 - tail / ratio)) @ r)
        forward, reverse = np.maximum(sums[:2], 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            slopes = sums[2:] / np.maximum(sums[:2], _TINY)
        return np.maximum(forward, reverse), np.where(forward > reverse, slopes[0], slopes[1])

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
            u, v = first[:, place] / r, second[:, place] / r
            square = u - v
            square *= square
            square *= r
            u -= 1.0
            v -= 1.0
            self._blocks.append((u, v, square))
        self.chi_square: Floats = np.asarray(sum(square.sum(axis=-1) for _, _, square in self._blocks))
        self._space = np.empty((6, self.parts, min(_BLOCK, len(public))))

    def worse(self, weights: Floats) -> Curve:
        """The greater of I_a(P‖Q) − 1 and I_a(Q‖P) − 1 at weights λ [k], with its slope, for a whole order.

        With b = 1 + λv, g = P/Q: I_a(P‖Q) − 1 = λ² Σ_j (a−1−j) A_j, A_j = Σ (p−q)²/r·g^j/b, j from 0, and
        λ dA_j/dλ = −A_j + B_j + j (B_j − B_{j−1}), B_j = Σ (p−q)²/r·g^j/b².
        """
        degree = int(self.order) - 1
        sums = np.zeros((2, 2, degree, self.parts))  # direction, A or B, j
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for u, v, square in self._blocks:
                p, q, *space = (each[:, : u.shape[1]] for each in self._space)
                for moved, ratio in ((u, p), (v, q)):
                    np.multiply(moved, weights[:, None], out=ratio)
                    ratio += 1.0
                _add_powers(sums[0], square, p, q, space)
                _add_powers(sums[1], square, q, p, space)
            j = np.arange(degree)[:, None]
            share = degree - j
            a, b = sums[:, 0], sums[:, 1]  # [2, degree, k]
            before = np.concatenate([np.zeros_like(b[:, :1]), b[:, :-1]], axis=1)
            terms = (share * a).sum(axis=1)
            grown = (share * (b - a + j * (b - before))).sum(axis=1)
            slopes = 2.0 + grown / np.maximum(terms, _TINY)
            excess = terms * weights**2
        return np.maximum(excess[0], excess[1]), np.where(excess[0] > excess[1], slopes[0], slopes[1])


def _add_powers(sums: Floats, square: Floats, over: Floats, under: Floats, space: Sequence[Floats]) -> None:
    """Add Σ square·g^j/b and Σ square·g^j/b² of a block, g = over/under, b = under, to sums [2, degree, k]."""
    ratio, once, twice, _ = space
    np.reciprocal(under, out=ratio)
    np.multiply(square, ratio, out=once)
    np.multiply(once, ratio, out=twice)
    sums[0, 0] += once.sum(axis=-1)
    sums[1, 0] += twice.sum(axis=-1)
    ratio *= over  # g
    power = ratio
    for j in range(1, sums.shape[1]):
        sums[0, j] += np.vecdot(once, power)
        sums[1, j] += np.vecdot(twice, power)
        if j + 1 < sums.shape[1]:
            power = np.multiply(power, ratio, out=space[3])


def forward_curve(moments: Floats, theta: Floats) -> Curve:
    """I_a(G‖r) − 1 = Σ_j C(a, j) θ^j Σ r u^j at weights θ [k], from `Pull.moments` [a − 1, k], with its slope.

    Odd moments may be negative. As u ≥ −1 a token's terms are at most 2^a/(a − 1) times their sum in all, so at the
    orders used here four digits of sixteen may go.
    """
    order = len(moments) + 1
    total, grown = np.zeros_like(theta), np.zeros_like(theta)
    with np.errstate(over="ignore", invalid="ignore"):
        for j in range(order, 1, -1):
            term = math.comb(order, j) * moments[j - 2]
            total, grown = total * theta + term, grown * theta + j * term
        slope = grown / np.maximum(total, _TINY)
        total = total * theta**2
    return np.where(np.isnan(total), np.inf, total), slope


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
    without = _sums_without(rows)  # [k, V]
    without /= count - 1
    if common:
        share = (weights.sum() - weights) / (count - 1)
        without *= share[:, None]
        for row, own in zip(without, share, strict=True):
            row += (1.0 - own) * public
    return symmetric_divergence(mixture, without, order)


def _sums_without(rows: Floats) -> Floats:
    """Sum of all rows but each one [k, V], from sums before and after it.

    Subtracting a row from the sum of all would cancel where it dominates.
    """
    found = np.zeros_like(rows)
    for i in range(1, len(rows)):
        np.add(found[i - 1], rows[i - 1], out=found[i])
    after = rows[-1].copy()
    for i in range(len(rows) - 2, -1, -1):
        found[i] += after
        after += rows[i]
    return found


def mixture_pmf(parts: Floats, public: Floats, weights: Floats, *, common: bool) -> Floats:
    """(1/k) Σ λ_i h_i + (1−λ_i) r as a pmf [V]; `common` mixes the mean of the parts with the mean weight."""
    shares = np.full(len(weights), weights.mean()) if common else weights
    return np.asarray((shares / len(shares)) @ parts + (1.0 - shares.mean()) * public)


def _ratio(tilt: Floats, theta: Floats) -> Floats:
    """1 + θ u of a block [k, BLOCK]."""
    ratio = tilt * theta[:, None]
    ratio += 1.0
    return ratio
