"""How far parts, or the halves of a part, are pulled apart at every mixing weight: excesses E = I_a − 1 and slopes.

For pmfs P, Q with ratio g = P/Q and a whole order a = n + 1 the centred excess has positive terms only,

    I_a(P‖Q) − 1 = Σ (P−Q)²/Q · (n + (n−1) g + … + g^(n−1))

(g^a − 1 − a(g−1) = (g−1)² Σ_m (n−m) g^m), so nothing cancels, no logarithm is taken and a = 2 is Σ (P−Q)²/Q. The
reverse direction has the weights P/Q exchanged: Σ (P−Q)²/Q · s·(n + … + s^(n−1)) with s = 1/g. Sums of the powers
give the slope in λ as well, and the moments Σ r u^j of a part give I_a(G‖r) at every weight (`Pull.forward`).

The sums are compiled loops (`vocabulary_loops`). Does not choose weights: see `prediction.mixing_weight`.
"""

import math

import numpy as np
from numpy.typing import NDArray

from reticent.accounting.vocabulary_loops import PartRows, central_moments, half_sums, reverse_sums
from reticent.core.divergence import symmetric_renyi_divergence

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]  # an excess E at some weights [k], and d log E/d log λ there

WHOLE_ORDERS = 16  # up to which the polynomial is faster than logarithms
_AT_ONCE = 2**20  # numbers of the parts of several texts: so many stay in a processor's last cache
_TINY = 1e-300
_GREATEST = 1e30  # in single precision: products of a chance and its ratio stay within the range


def is_polynomial(order: float) -> bool:
    """Whether the positive polynomial form is used at this order."""
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
        greatest = int(order) if is_polynomial(order) else 2
        self._moments = central_moments(self._rows, self._public, self._inverse, greatest)
        self._terms: Floats | None = None

    @property
    def chi_square(self) -> Floats:
        """Σ r u² of each part [k]: the excess at order 2 is θ² times this."""
        return np.asarray(self._moments[0])

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest h/r − 1 of each part [k]."""
        tilt = self._tilt()
        return tilt.min(axis=-1).reshape(-1), tilt.max(axis=-1).reshape(-1)

    def moments(self) -> Floats:
        """Σ r u^j, j = 2..a, of each part, as [a − 1, k], for a whole order."""
        return self._moments

    def forward(self, theta: Floats) -> Curve:
        """I_a(G‖r) − 1 = Σ_j C(a, j) θ^j Σ r u^j at weights θ [k] with its slope, for a whole order.

        NaN where moments overflow. Odd moments may be negative. As u ≥ −1 a token's terms are at most 2^a/(a − 1)
        times their sum in all, so at the orders used here four digits of sixteen may go.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._terms is None:
                self._terms = _FORWARD[int(self.order)] * self._moments  # [2, a − 1, k]
            sums = self._terms[:, -1]  # [2, k], by Horner: the excess and its derivative
            for each in range(int(self.order) - 3, -1, -1):
                sums = sums * theta + self._terms[:, each]
            return sums[0] * theta**2, self.order * (sums[1] / np.maximum(sums[0], _TINY))

    def reverse(self, theta: Floats, *, sloped: bool = True) -> Curve:
        """I_a(r‖G) − 1 at weights θ [k] with its slope, or 2 in place of it, for a whole order.

        With s = 1/(1 + θu) it is θ² Σ_j (a−j) A_j, A_j = Σ (h−r)²/r·s^j, and θ dA_j/dθ = −j (A_j − A_{j+1}): one
        more sum gives the exact slope.
        """
        order = int(self.order)
        sums = reverse_sums(self._rows, self._public, self._inverse, theta, order, has_falls=sloped)
        return _reverse_curve(sums, theta)

    def nearly_reverse(self, theta: Floats) -> Curve:
        """`reverse` within about 1e-5, from single precision, which is twice as fast. To find one's way."""
        public, inverse = self._public.astype(np.float32), np.minimum(self._inverse, _GREATEST).astype(np.float32)
        return _reverse_curve(reverse_sums(self._rows, public, inverse, theta, int(self.order)), theta)

    def excess(self, theta: Floats) -> Floats:
        """The greater of I_a(G‖r) − 1 and I_a(r‖G) − 1 at weights θ [k], for a finite order; +inf on overflow."""
        if is_polynomial(self.order):
            worse = np.maximum(self.forward(theta)[0], self.reverse(theta, sloped=False)[0])
            return np.where(np.isnan(worse), np.inf, worse)
        share, public = theta.reshape(*self._rows.scale.shape, 1), self._public[:, None]
        with np.errstate(divide="ignore"):
            shifted, log_public = np.log(public + share * (self._rows.pmfs() - public)), np.log(public)
        with np.errstate(over="ignore"):
            found = np.expm1((self.order - 1.0) * symmetric_renyi_divergence(shifted, log_public, self.order))
        return np.asarray(found.reshape(-1))

    def rough(self, theta: Floats) -> Curve:
        """The greater excess at a finite order that is no small whole number, within about 1e-15, with its slope.

        For solving, not charging: Σ r (g^a − 1 − aθu) cancels near θ = 0, where core's series does not.
        """
        order = self.order
        ratio = self._tilt() * theta.reshape(*self._rows.scale.shape, 1)
        ratio += 1.0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            rise, tail = ratio ** (order - 1.0), ratio ** (1.0 - order)
            moved = ratio - 1.0
            terms = (
                rise * ratio - order * moved - 1.0,
                tail + (order - 1.0) * moved - 1.0,
                order * ((rise - 1.0) * moved),
                (order - 1.0) * (moved * (1.0 - tail / ratio)),
            )
            # Both excesses, both derivatives in log θ.
            sums = np.stack([np.vecdot(term, self._public[:, None]).reshape(-1) for term in terms])
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

    def _tilt(self) -> Floats:
        """u of the parts of every text [n, k, V]."""
        return np.asarray((self._rows.pmfs() - self._public[:, None]) * self._inverse[:, None])


def _reverse_curve(sums: Floats, theta: Floats) -> Curve:
    """The excess and slope of `Pull.reverse` from its sums [2, k]."""
    terms, falls = sums
    with np.errstate(over="ignore", invalid="ignore"):  # θ = 1 where a part has chances of 0
        return theta**2 * terms, 2.0 - falls / np.maximum(terms, _TINY)


class Halves:
    """Two halves of each part against each other, both mixed with the public model at the same weight λ < 1.

    P = r + λ (p − r), Q = r + λ (q − r), for pmfs p, q [k, V] and r [V].
    """

    def __init__(self, first: Floats, second: Floats, public: Floats, order: float) -> None:
        self.order = order
        self._first, self._second = np.ascontiguousarray(first), np.ascontiguousarray(second)
        self._inverse = 1.0 / public

    @property
    def chi_square(self) -> Floats:
        """Σ (p − q)²/r of each part [k]: the excess at a small λ is λ² a(a−1)/2 times this."""
        apart = self._first - self._second
        return np.asarray(np.vecdot(apart, apart * self._inverse))

    def worse(self, weights: Floats) -> Curve:
        """The greater of I_a(P‖Q) − 1 and I_a(Q‖P) − 1 at weights λ [k], with its slope, for a whole order.

        With c = 1/λ − 1, X = c + x, Y = c + y and g = X/Y: I_a(P‖Q) − 1 = λ Σ_j (a−1−j) F_j, j from 0, F_j =
        Σ (p−q)²/r·g^j/Y. As −d/dc turns Σ_j (a−1−j) F_j into Σ_j (j+1) K_j, K_j = Σ (p−q)²/r·g^j/Y², the slope is
        1 + Σ_j (j+1) K_j over the excess.
        """
        c = np.minimum((1.0 - weights) / np.maximum(weights, _TINY), 1e100)
        sums = half_sums(self._first, self._second, self._inverse, c, int(self.order))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            excess = sums[:, 0] / (1.0 + c)
            slopes = 1.0 + sums[:, 1] / np.maximum(excess, _TINY)
        worst = np.where(np.isnan(excess), np.inf, excess)
        return np.maximum(worst[0], worst[1]), np.where(worst[0] > worst[1], slopes[0], slopes[1])


def _forward_factors(order: int) -> Floats:
    """C(a, j), and j/a times that, j = 2..a, as [2, a − 1, 1]: what moments have in I_a(G‖r) − 1 and in its slope.

    Over a, so that a slope is a number wherever the excess is one.
    """
    binomials = [math.comb(order, j) for j in range(2, order + 1)]
    return np.array([binomials, [j / order * each for j, each in enumerate(binomials, start=2)]], dtype=np.float64)[
        ..., None
    ]


_FORWARD = {order: _forward_factors(order) for order in range(2, WHOLE_ORDERS + 1)}
