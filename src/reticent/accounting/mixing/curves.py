"""How far parts, or the halves of a part, are pulled apart at every mixing weight: log excesses and their slopes.

The one price of mixing is core's Rényi divergence, by its centred excess E = I_a − 1, in both directions. Here, and
nowhere else, the loop that computes it is chosen (`is_polynomial`). Parts against the public model at a small whole
order a = n + 1 take a polynomial: with g = P/Q

    I_a(P‖Q) − 1 = Σ (P−Q)²/Q · (n + (n−1) g + … + g^(n−1))

(g^a − 1 − a(g−1) = (g−1)² Σ_m (n−m) g^m), so nothing cancels and no logarithm is taken. The reverse direction has
the weights P/Q exchanged: Σ (P−Q)²/Q · s·(n + … + s^(n−1)) with s = 1/g. Sums of the powers give the slope in λ as
well, and the moments Σ r u^j of a part give I_a(G‖r) at every weight (`Pull.forward`). All other orders, and halves
at every order, take the powers of `power_loops`. Tests hold either to core's divergence and to 60 digits.

Does not choose weights: see `prediction.mechanisms.mixing_weight`.
"""

import math

import numpy as np

from reticent.accounting.mixing.loops import PartRows, central_moments, reverse_sums
from reticent.accounting.mixing.power_loops import (
    GREATEST_WHOLE,
    pair_sums,
    part_ranges,
    part_sums,
    token_weights,
    whole_pair_sums,
)
from reticent.core.arrays import Floats

Curve = tuple[Floats, Floats]  # log E at some weights, and d log E/d log λ there: [k], or [2, k] in both directions

WHOLE_ORDERS = 16  # up to which the polynomial is faster than powers
_AT_ONCE = 2**20  # numbers of the parts of several texts: so many stay in a processor's last cache
_TINY = 1e-300
_GREATEST = 1e30  # in single precision: products of a chance and its ratio stay within the range


def is_polynomial(order: float) -> bool:
    """Whether parts are held against the public model by the polynomial of this order."""
    return order <= WHOLE_ORDERS and float(order).is_integer()


def texts_at_once(rows: int, size: int) -> int:
    """How many texts of so many rows and columns are worked on together."""
    return max(1, _AT_ONCE // (rows * size))


class Pull:
    """How far parts h_i [k, V] pull from the public model r [V]: G = r + θ (h_i − r) against r, for any θ < 1.

    Several texts at once are parts [n, k, V] and public [n, V]; weights and results are then n·k in a row. With
    u = h/r − 1 all is told by g = 1 + θu. r must be positive everywhere.
    """

    def __init__(self, parts: Floats | PartRows, public: Floats, order: float) -> None:
        self.order = order
        self._rows = parts if isinstance(parts, PartRows) else PartRows.of(parts)
        self._public = np.ascontiguousarray(public.reshape(-1, public.shape[-1]))  # [n, V]
        self._inverse = 1.0 / self._public  # np.reciprocal takes twice as long
        self.parts = self._rows.scale.size
        self._terms: Floats | None = None
        if is_polynomial(order):
            self._moments = central_moments(self._rows, self._public, self._inverse, int(order))
        else:
            self._ranges = part_ranges(self._rows, self._public, self._inverse)

    @property
    def chi_square(self) -> Floats:
        """Σ r u² of each part [k]: the excess at order 2 is θ² times this."""
        return np.asarray(self._moments[0] if is_polynomial(self.order) else self._ranges[2])

    def moments(self) -> Floats:
        """Σ r u^j, j = 2..a, of each part, as [a − 1, k], for the order of a polynomial."""
        return self._moments

    def forward(self, theta: Floats) -> Curve:
        """log of I_a(G‖r) − 1 = Σ_j C(a, j) θ^j Σ r u^j at weights θ [k] with its slope, by the polynomial.

        Infinite where moments overflow. Odd moments may be negative. As u ≥ −1 a token's terms are at most
        2^a/(a − 1) times their sum in all, so at the orders used here four digits of sixteen may go.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._terms is None:
                self._terms = _FORWARD[int(self.order)] * self._moments  # [2, a − 1, k]
            sums = self._terms[:, -1]  # [2, k], by Horner: the excess and its derivative
            for each in range(int(self.order) - 3, -1, -1):
                sums = sums * theta + self._terms[:, each]
            return _logged(sums[0] * theta**2), self.order * (sums[1] / np.maximum(sums[0], _TINY))

    def reverse(self, theta: Floats, *, sloped: bool = True) -> Curve:
        """log(I_a(r‖G) − 1) at weights θ [k] with its slope, or 2 in place of it, by the polynomial.

        With s = 1/(1 + θu) the excess is θ² Σ_j (a−j) A_j, A_j = Σ (h−r)²/r·s^j, and θ dA_j/dθ =
        −j (A_j − A_{j+1}): one more sum gives the exact slope.
        """
        order = int(self.order)
        sums = reverse_sums(self._rows, self._public, self._inverse, theta, order, has_falls=sloped)
        return _reverse_curve(sums, theta)

    def nearly_reverse(self, theta: Floats) -> Curve:
        """`reverse` within about 1e-5, from single precision, which is twice as fast. To find one's way."""
        public, inverse = self._public.astype(np.float32), np.minimum(self._inverse, _GREATEST).astype(np.float32)
        return _reverse_curve(reverse_sums(self._rows, public, inverse, theta, int(self.order)), theta)

    def both(self, theta: Floats) -> Curve:
        """log(I_a(G‖r) − 1) and log(I_a(r‖G) − 1) at weights θ [k] with their slopes, as [2, k]; order < ∞."""
        if not is_polynomial(self.order):
            return part_sums(self._rows, self._public, self._inverse, theta, self.order, self._ranges)
        curves = self.forward(theta), self.reverse(theta)
        return np.stack([logs for logs, _ in curves]), np.stack([slopes for _, slopes in curves])

    def log_excess(self, theta: Floats) -> Floats:
        """The greater of `both` at weights θ [k], for a finite order; +inf on overflow."""
        if not is_polynomial(self.order):
            return np.asarray(self.both(theta)[0].max(axis=0))
        return np.maximum(self.forward(theta)[0], self.reverse(theta, sloped=False)[0])

    def token_weights(self, goal: Floats) -> Floats:
        """About the largest θ [k] at which no token alone takes log(I_a(G‖r) − 1) above its goal [k]."""
        target = np.exp(np.minimum(goal, 600.0))
        return token_weights(self._rows, self._public, self._inverse, target, self.order)

    def greatest_log_ratio(self, theta: Floats) -> Floats:
        """max |log(G/r)| at weights θ [k]: both divergences of order ∞."""
        least, greatest = self.extremes()
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log1p(theta * greatest), -np.log1p(theta * least)))

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest h/r − 1 of each part [k], for order ∞."""
        return self._ranges[0], self._ranges[1]


def _logged(excess: Floats) -> Floats:
    """log E; +inf where the sum is infinity less infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.where(np.isnan(excess), np.inf, np.maximum(excess, 0.0))))


def _reverse_curve(sums: Floats, theta: Floats) -> Curve:
    """The log excess and slope of `Pull.reverse` from its sums [2, k]."""
    terms, falls = sums
    with np.errstate(over="ignore", invalid="ignore"):  # θ = 1 where a part has chances of 0
        return _logged(theta**2 * terms), 2.0 - falls / np.maximum(terms, _TINY)


class Halves:
    """Two halves of each part against each other, both mixed with the public model at the same weight λ ≤ 1.

    P = r + λ (p − r), Q = r + λ (q − r), for pmfs p, q [k, V] and r [V], at any finite order.
    """

    def __init__(self, first: Floats, second: Floats, public: Floats, order: float) -> None:
        self.order = order
        self._rows = np.ascontiguousarray(first), np.ascontiguousarray(second), np.ascontiguousarray(public)

    @property
    def chi_square(self) -> Floats:
        """Σ (p − q)²/r of each part [k]: the excess at a small λ is λ² a(a−1)/2 times this."""
        first, second, public = self._rows
        apart = first - second
        return np.asarray(np.vecdot(apart, apart / public))

    def both(self, weights: Floats) -> Curve:
        """log(I_a(P‖Q) − 1) and log(I_a(Q‖P) − 1) at weights λ [k], with their slopes, as [2, k]."""
        if self.order <= GREATEST_WHOLE and float(self.order).is_integer():
            return whole_pair_sums(*self._rows, weights, int(self.order))
        return pair_sums(*self._rows, weights, self.order)


def pair_log_excesses(p: Floats, q: Floats, order: float) -> Floats:
    """log(I_a(P‖Q) − 1) and log(I_a(Q‖P) − 1) of pmfs p [m, V], or one [1, V] for all, and q [m, V], as [2, m]."""
    rows = np.ascontiguousarray(p), np.ascontiguousarray(q)
    return pair_sums(*rows, np.zeros(q.shape[-1]), np.ones(len(q)), order)[0]


def greatest_log_ratios(p: Floats, q: Floats) -> Floats:
    """max |log(P/Q)| of such pmfs, as [m]: both divergences of order ∞."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log(p) - np.log(q))
    return np.asarray(np.where((p == 0.0) & (q == 0.0), 0.0, ratios).max(axis=-1))


def _forward_factors(order: int) -> Floats:
    """C(a, j), and j/a times that, j = 2..a, as [2, a − 1, 1]: what moments have in I_a(G‖r) − 1 and in its slope.

    Over a, so that a slope is a number wherever the excess is one.
    """
    binomials = [math.comb(order, j) for j in range(2, order + 1)]
    return np.array([binomials, [j / order * each for j, each in enumerate(binomials, start=2)]], dtype=np.float64)[
        ..., None
    ]


_FORWARD = {order: _forward_factors(order) for order in range(2, WHOLE_ORDERS + 1)}
