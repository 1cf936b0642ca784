"""How far parts, or the halves of a part, are pulled apart at every mixing weight: excesses E = I_a − 1 and slopes.

For pmfs P, Q with ratio g = P/Q and a whole order a = n + 1 the centred excess has positive terms only,

    I_a(P‖Q) − 1 = Σ (P−Q)²/Q · (n + (n−1) g + … + g^(n−1))

(g^a − 1 − a(g−1) = (g−1)² Σ_m (n−m) g^m), so nothing cancels, no logarithm is taken and a = 2 is Σ (P−Q)²/Q. The
reverse direction has the weights P/Q exchanged: Σ (P−Q)²/Q · s·(n + … + s^(n−1)) with s = 1/g. Sums of the powers
give the slope in λ as well, and the moments Σ r u^j of a part give I_a(G‖r) at every weight (`Pull.forward`).

What every weight needs is computed once, in pieces of the arrays that stay in a processor's last cache while they
are worked on. Does not choose weights: see `prediction.mixing_weight`.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from reticent.core.divergence import symmetric_renyi_divergence

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Curve = tuple[Floats, Floats]  # an excess E at some weights [k], and d log E/d log λ there

WHOLE_ORDERS = 16  # up to which the polynomial is faster than logarithms
PIECE = 131072  # numbers of an array that are worked on at once: fewer cost more in calls than a cache saves
_TINY = 1e-300

# Of the arrays in single precision: chances and ratios are kept within 1e±30, and what would be lost below is
# raised to where products of a few such numbers stay within the range. Public numbers decide.
_LEAST_CHANCE = 1e-30
_GREATEST = 1e30
_LEAST_SQUARE = 1e-25


def is_polynomial(order: float) -> bool:
    """Whether the positive polynomial form is used at this order."""
    return order <= WHOLE_ORDERS and float(order).is_integer()


def columns_at_once(rows: int) -> int:
    """How many columns of so many rows are worked on at once."""
    return max(256, PIECE // max(rows, 1))


def texts_at_once(rows: int, size: int) -> int:
    """How many texts of so many rows and columns are worth working on together: one where a row alone is long."""
    return max(1, columns_at_once(rows) // size)


class Pull:
    """How far parts h_i [k, V] pull from the public model r [V]: G = r + θ (h_i − r) against r, for any θ < 1.

    Several texts at once are parts [n, k, V] and public [n, V]; weights and results are then n·k in a row. What is
    kept is u = h/r − 1 and d = (h − r)/√r. r must be positive everywhere.
    """

    def __init__(self, parts: Floats, public: Floats, order: float) -> None:
        self.order = order
        count, size = parts.shape[-2:]
        self._parts = parts.reshape(-1, count, size)  # [n, k, V]
        self._public = public.reshape(-1, 1, size)  # [n, 1, V]
        self.parts = len(self._parts) * count
        self.chi_square: Floats = np.zeros(self.parts)  # the excess at order 2 is θ² times this
        self._moments: Floats | None = None
        self._terms: Floats | None = None
        self._pieces: list[tuple[slice, Floats, Floats]] = []  # which of the n·k, u and d [rows, columns]
        for texts, columns in _pieces(*self._parts.shape):
            r = self._public[texts, :, columns]
            root = 1.0 / np.sqrt(r)  # np.reciprocal takes twice as long
            pulled = self._parts[texts, :, columns] - r
            pulled *= root
            tilt = pulled * root
            rows = slice(texts.start * count, texts.stop * count)
            tilt, pulled = (each.reshape(-1, each.shape[-1]) for each in (tilt, pulled))
            self._pieces.append((rows, tilt, pulled))
            self.chi_square[rows] += np.vecdot(pulled, pulled)
        self._space = np.empty((3, max(tilt.size for _, tilt, _ in self._pieces)))

    def extremes(self) -> tuple[Floats, Floats]:
        """Least and greatest h/r − 1 of each part [k]."""
        least, greatest = np.full(self.parts, np.inf), np.full(self.parts, -np.inf)
        for rows, tilt, _ in self._pieces:
            np.minimum(least[rows], tilt.min(axis=-1), out=least[rows])
            np.maximum(greatest[rows], tilt.max(axis=-1), out=greatest[rows])
        return least, greatest

    def moments(self) -> Floats:
        """Σ r u^j, j = 2..a, of each part, as [a − 1, k], for a whole order."""
        if self._moments is None:
            found = np.zeros((int(self.order) - 1, self.parts))
            found[0] = self.chi_square
            with np.errstate(over="ignore", invalid="ignore"):
                for rows, tilt, pulled in self._pieces:
                    # Neighbouring powers of u, shared between two factors: d u^i · d u^j.
                    last = pulled
                    for j in range(1, len(found)):
                        if j % 2:
                            power = np.multiply(last, tilt, out=self._spare(j // 2 % 2, tilt.shape))
                            found[j, rows] += np.vecdot(last, power)
                        else:
                            found[j, rows] += np.vecdot(power, power)
                            last = power
            self._moments = found
        return self._moments

    def forward(self, theta: Floats) -> Curve:
        """I_a(G‖r) − 1 = Σ_j C(a, j) θ^j Σ r u^j at weights θ [k] with its slope, for a whole order.

        NaN where moments overflow. Odd moments may be negative. As u ≥ −1 a token's terms are at most 2^a/(a − 1)
        times their sum in all, so at the orders used here four digits of sixteen may go.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self._terms is None:
                self._terms = _FORWARD[int(self.order)] * self.moments()  # [2, a − 1, k]
            sums = self._terms[:, -1]  # [2, k], by Horner: the excess and its derivative
            for each in range(int(self.order) - 3, -1, -1):
                sums = sums * theta + self._terms[:, each]
            return sums[0] * theta**2, self.order * (sums[1] / np.maximum(sums[0], _TINY))

    def reverse(self, theta: Floats) -> Curve:
        """I_a(r‖G) − 1 at weights θ [k] with its slope, for a whole order.

        With s = 1/(1 + θu) it is θ² Σ_j (a−j) A_j, A_j = Σ (h−r)²/r·s^j, and θ dA_j/dθ = −j (A_j − A_{j+1}): one
        more sum gives the exact slope.
        """
        order = int(self.order)
        sums = np.zeros((order, self.parts))  # A_1 .. A_a
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # θ = 1 where a part has chances of 0
            for rows, tilt, pulled in self._pieces:
                ratio = np.multiply(tilt, theta[rows, None], out=self._spare(2, tilt.shape))
                ratio += 1.0
                last = pulled  # d s^i, whose products with the next and with itself are A_2i+1 and A_2i
                for j in range(order):
                    if j % 2 == 0:
                        power = np.divide(last, ratio, out=self._spare(j // 2 % 2, tilt.shape))
                        sums[j, rows] += np.vecdot(last, power)
                    else:
                        sums[j, rows] += np.vecdot(power, power)
                        last = power
            terms, falls = _REVERSE[order] @ sums
            return theta**2 * terms, 2.0 - falls / np.maximum(terms, _TINY)

    def excess(self, theta: Floats) -> Floats:
        """The greater of I_a(G‖r) − 1 and I_a(r‖G) − 1 at weights θ [k], for a finite order; +inf on overflow."""
        if is_polynomial(self.order):
            worse = np.maximum(self.forward(theta)[0], self.reverse(theta)[0])
            return np.where(np.isnan(worse), np.inf, worse)
        share = theta.reshape(len(self._parts), -1, 1)
        with np.errstate(divide="ignore"):
            shifted, public = np.log(self._public + share * (self._parts - self._public)), np.log(self._public)
        with np.errstate(over="ignore"):
            found = np.expm1((self.order - 1.0) * symmetric_renyi_divergence(shifted, public, self.order))
        return np.asarray(found.reshape(-1))

    def rough(self, theta: Floats) -> Curve:
        """The greater excess at a finite order that is no small whole number, within about 1e-15, with its slope.

        For solving, not charging: Σ r (g^a − 1 − aθu) cancels near θ = 0, where core's series does not.
        """
        order = self.order
        sums = np.zeros((4, self.parts))  # both excesses, both derivatives in log θ
        for (rows, tilt, _), (texts, columns) in zip(self._pieces, _pieces(*self._parts.shape), strict=True):
            shape = (texts.stop - texts.start, -1, tilt.shape[1])
            r = self._public[texts, :, columns]
            ratio = tilt * theta[rows, None]
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
                for total, term in zip(sums, terms, strict=True):
                    total[rows] += np.vecdot(term.reshape(shape), r).reshape(-1)
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

    def _spare(self, number: int, shape: tuple[int, ...]) -> Floats:
        """One of three arrays to work in."""
        return np.asarray(self._space[number, : shape[0] * shape[1]].reshape(shape))


def _pieces(texts: int, count: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of an array [n, k, V]: columns of one text where it is wide, else a few texts whole."""
    columns = columns_at_once(count)
    if columns < size:
        for text in range(texts):
            for start in range(0, size, columns):
                yield slice(text, text + 1), slice(start, min(start + columns, size))
        return
    several = max(1, columns // size)
    for text in range(0, texts, several):
        yield slice(text, min(text + several, texts)), slice(0, size)


class Halves:
    """Two halves of each part against each other, both mixed with the public model at the same weight λ < 1.

    P = r + λ (p − r), Q = r + λ (q − r), for pmfs p, q [k, V] and r [V]. What is kept is x = p/r, y = q/r and
    (p − q)²/r, in float64 and, for finding one's way, in single precision, which is twice as fast.
    """

    def __init__(self, first: Floats, second: Floats, public: Floats, order: float) -> None:
        self.order = order
        self.parts = len(first)
        self.chi_square: Floats = np.zeros(self.parts)
        self._exact: list[tuple[Floats, Floats, Floats]] = []
        self._single: list[tuple[Singles, Singles, Singles]] = []
        step = columns_at_once(self.parts)
        for start in range(0, len(public), step):
            place = slice(start, start + step)
            p, q, r = first[:, place], second[:, place], public[place]
            root = 1.0 / np.sqrt(r)  # np.reciprocal takes twice as long
            square = p - q
            square *= root
            square *= square
            root *= root
            x, y = p * root, q * root
            self._exact.append((x, y, square))
            self.chi_square += square.sum(axis=-1)
            self._single.append(_in_single(x, y, square, r))
        self._space = np.empty((5, self.parts, min(step, len(public))))
        self._single_space = np.empty(self._space.shape, dtype=np.float32)

    def worse(self, weights: Floats) -> Curve:
        """The greater of I_a(P‖Q) − 1 and I_a(Q‖P) − 1 at weights λ [k], with its slope, for a whole order.

        With c = 1/λ − 1, X = c + x, Y = c + y and g = X/Y: I_a(P‖Q) − 1 = λ Σ_j (a−1−j) F_j, j from 0, F_j =
        Σ (p−q)²/r·g^j/Y. As −d/dc turns Σ_j (a−1−j) F_j into Σ_j (j+1) K_j, K_j = Σ (p−q)²/r·g^j/Y², the slope is
        1 + Σ_j (j+1) K_j over the excess.
        """
        sums = np.zeros((2, 2, int(self.order) - 1, self.parts))  # direction, F or K, j
        c = np.minimum((1.0 - weights) / np.maximum(weights, _TINY), 1e100)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for x, y, square in self._exact:
                _add_both(sums, square, x, y, c[:, None], self._space[:, :, : x.shape[1]])
            return _from_sums(sums, 1.0 / (1.0 + c))

    def nearly_worse(self, weights: Floats) -> Curve:
        """`worse` within about 1e-6, from single precision; infinite where that overflows. To find one's way."""
        sums = np.zeros((2, 2, int(self.order) - 1, self.parts))
        c = np.minimum((1.0 - weights) / np.maximum(weights, _TINY), _GREATEST)
        single = c.astype(np.float32)[:, None]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            for x, y, square in self._single:
                _add_both(sums, square, x, y, single, self._single_space[:, :, : x.shape[1]])
            return _from_sums(sums, 1.0 / (1.0 + c))


def _in_single(x: Floats, y: Floats, square: Floats, r: Floats) -> tuple[Singles, Singles, Singles]:
    """A piece of `Halves` in single precision, within its range."""
    if r.min() < _LEAST_CHANCE:  # the public model's chances: nothing private decides
        raised = np.maximum(r, _LEAST_CHANCE)
        x, y = x * (r / raised), y * (r / raised)
        square = (x - y) ** 2 * raised
    single = square.astype(np.float32)
    single += np.float32(_LEAST_SQUARE)
    return x.astype(np.float32), y.astype(np.float32), single


def _add_both(
    sums: Floats,
    square: NDArray[np.floating],
    x: NDArray[np.floating],
    y: NDArray[np.floating],
    c: NDArray[np.floating],
    space: NDArray[np.floating],
) -> None:
    """Add F_j and K_j of a piece, in both directions, to sums [2, 2, degree, k]."""
    p, q, *spare = space
    np.add(x, c, out=p)
    np.add(y, c, out=q)
    ones = np.ones(x.shape[1], dtype=x.dtype)
    for (f, k), over, under in ((sums[0], p, q), (sums[1], q, p)):
        inverse, ratio, term = spare
        np.divide(1.0, under, out=inverse)
        np.multiply(square, inverse, out=term)
        f[0] += term @ ones
        k[0] += np.vecdot(term, inverse)
        if len(f) > 1:
            np.multiply(over, inverse, out=ratio)
        for j in range(1, len(f)):
            term *= ratio
            f[j] += term @ ones
            k[j] += np.vecdot(term, inverse)


def _from_sums(sums: Floats, weights: Floats) -> Curve:
    """The worse direction's excess and slope from sums [2, 2, degree, k]."""
    degree = sums.shape[2]
    j = np.arange(degree)[:, None]
    excess = weights * ((degree - j) * sums[:, 0]).sum(axis=1)  # [2, k]
    slopes = 1.0 + ((j + 1) * sums[:, 1]).sum(axis=1) / np.maximum(excess, _TINY)
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


def _reverse_factors(order: int) -> Floats:
    """What A_1..A_a have in Σ (a−j) A_j, and in Σ j (a−j) (A_j − A_{j+1}), j = 1..a−1, as [2, a]."""
    j = np.arange(1.0, order + 1)
    return np.stack([order - j, j * (order - j) - (j - 1.0) * (order - j + 1.0)])


_FORWARD = {order: _forward_factors(order) for order in range(2, WHOLE_ORDERS + 1)}
_REVERSE = {order: _reverse_factors(order) for order in range(2, WHOLE_ORDERS + 1)}
