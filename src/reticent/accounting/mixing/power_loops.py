"""Both excesses of pairs of pmfs at any finite order, in compiled loops that take the order as an argument.

For pmfs P, Q with P/Q = 1 + m and an order a the centred moments of `reticent.core.divergence` are

    I_a(P‖Q) − 1 = Σ Q φ_a(m),   I_a(Q‖P) − 1 = Σ Q φ_{1−a}(m),   φ_b(m) = (1+m)^b − 1 − b m ≥ 0

and their slopes need m φ_b'(m) = b m ((1+m)^(b−1) − 1). One logarithm gives all four; near m = 0, where the terms
cancel, φ_b is summed as its binomial series. Every token takes the same instructions: both forms are computed and
one is kept, and the logarithm and the exponential are written out below, since those of the system's library branch
on their arguments and are not computed for several tokens at once.

Sums that would overflow are divided by e^shift (the greatest power decides it), so logarithms of excesses are exact
far beyond the range of float64. Where one pmf has chances that the other has not, an excess is +inf.
"""

import math

import numpy as np

from reticent.accounting.mixing.loops import Masses, PartRows, compiled
from reticent.core.arrays import Floats
from reticent.core.noise.float_bits import bits_of, from_bits

Series = tuple[float, float, float, float, float, float, float, float]

_NEAR = 0.03  # (a + 1) |m| below which φ is a series: its ninth power is below what is lost to cancellation above
_RANGE = 600.0  # natural logarithm that a power may reach: e^709 is the end of float64
_LEAST = -708.0
_ROUND = 1.5 * 2.0**52  # added and taken away again, it rounds to a whole number, which is in its last bits
_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROOT_HALF = 0x3FE6A09E667F3BCD  # bits of √½
_ROUND_BITS = 0x4338000000000000  # bits of _ROUND
_ONE_BITS = 0x3FF0000000000000
_INFINITY_BITS = 0x7FF0000000000000
_LEAST_NORMAL = 2.0**-1022
GREATEST_WHOLE = 9  # order of `whole_pair_sums`, whose polynomials have the terms of a series


@compiled(reorders=False)
def _log1p(m: float, g: float, inverse: float) -> float:
    """log g of a normal number g = 1 + m, and 1/g, within 2e-16 of it, or of m where that is less."""
    bits = bits_of(g)
    power = (bits - _ROOT_HALF) >> 52
    f = from_bits(bits - (power << 52)) - 1.0  # g/2^power is in [√½, √2)
    whole = from_bits(power + _ROUND_BITS) - _ROUND
    s = f / (2.0 + f)
    w = s * s
    p = 1.0 / 21
    p = p * w + 1.0 / 19
    p = p * w + 1.0 / 17
    p = p * w + 1.0 / 15
    p = p * w + 1.0 / 13
    p = p * w + 1.0 / 11
    p = p * w + 1.0 / 9
    p = p * w + 1.0 / 7
    p = p * w + 1.0 / 5
    p = p * w + 1.0 / 3
    of_g: float = whole * _LN2_HIGH + (2.0 * s + (2.0 * s * w * p + whole * _LN2_LOW))
    # What was lost when 1 was added to a small m.
    return of_g + ((m - (g - 1.0)) * inverse if abs(m) < 0.5 else 0.0)


@compiled(reorders=False)
def _exp_less(x: float, one: float) -> float:
    """e^x − one, without cancellation where `one` is 1 and x near 0, for x in [−708, 709]."""
    rounded = x * _LOG2E + _ROUND
    whole = rounded - _ROUND
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    scale: float = from_bits((bits_of(rounded) << 52) + _ONE_BITS)  # 2^whole
    return scale * (p * r) + (scale - one)


@compiled(inlined=True)
def _series(c: Series, m: float) -> float:
    """Σ_j c_j m^j by Horner, written out so that several tokens are computed at once."""
    high = ((c[7] * m + c[6]) * m + c[5]) * m + c[4]
    return (((high * m + c[3]) * m + c[2]) * m + c[1]) * m + c[0]


@compiled(inlined=True)
def _terms(
    m: float,
    g: float,
    order: float,
    there: Series,
    back: Series,
    shifts: tuple[float, float],
    ones: tuple[float, float],
) -> tuple[float, float, float, float]:
    """φ_a(m) and m φ_a'(m), over e^shift, and the same for 1 − a, with a shift of its own; `ones` are e^−shift.

    With g = 1 + m, which is given since the sum would lose a tiny g, and E = g^(a−1): φ_a = g (E − 1) − (a−1) m,
    φ_{1−a} = 1/E − 1 + (a−1) m.
    """
    inverse = 1.0 / g
    less = order - 1.0
    t = less * _log1p(m, g, inverse)
    up, down = t - shifts[0], -t - shifts[1]
    rise = _exp_less(up if up > _LEAST else _LEAST, ones[0])
    fall = _exp_less(down if down > _LEAST else _LEAST, ones[1])
    is_near = abs(m) * (order + 1.0) < _NEAR
    square = m * m
    first = square * _series(there, m) * ones[0] if is_near else g * rise - less * m * ones[0]
    second = square * _series(back, m) * ones[1] if is_near else fall + less * m * ones[1]
    # 1 − g^−a = 1 − (1 + fall)/g
    return first, order * m * rise, second, less * m * (m * ones[1] - fall) * inverse


def _coefficients(power: float) -> Series:
    """C(b, k), k = 2..9: φ_b(m) = Σ C(b, k) m^k."""
    found, last = [], power
    for k in range(2, 10):
        last *= (power - k + 1) / k
        found.append(last)
    return tuple(found)  # type: ignore[return-value]


@compiled()
def _part_ranges(
    masses: Masses, first: int, scales: Floats, public: Floats, inverse: Floats, found: Floats
) -> None:
    texts, count = scales.shape
    for text in range(texts):
        r, over = public[text], inverse[text]
        for part in range(count):
            mass, scale = masses[text, first + part], scales[text, part]
            # Bits of floats that are not negative are ordered as they are, and compared several at once.
            lowest, highest, square = 0, 0, 0.0
            for x in range(masses.shape[2]):
                moved = np.float64(mass[x]) * scale - r[x]
                u = moved * over[x]
                fall, rise = bits_of(-u if u < 0.0 else 0.0), bits_of(u if u > 0.0 else 0.0)
                lowest = fall if fall > lowest else lowest
                highest = rise if rise > highest else highest
                square += moved * u
            row = text * count + part
            found[0, row], found[1, row], found[2, row] = -from_bits(lowest), from_bits(highest), square


def part_ranges(parts: PartRows, public: Floats, inverse: Floats) -> Floats:
    """Least and greatest u = h/r − 1, and Σ r u², of parts h, public r [n, V] and 1/r, as [3, n·k]."""
    found = np.empty((3, parts.scale.size))
    _part_ranges(parts.masses, parts.first, parts.scale, public, inverse, found)
    return found


@compiled()
def _part_sums(
    masses: Masses,
    skipped: int,
    scales: Floats,
    public: Floats,
    inverse: Floats,
    thetas: Floats,
    order: float,
    series: tuple[Series, Series],
    shifts: Floats,
    found: Floats,
) -> None:
    texts, count = scales.shape
    there, back = series
    for text in range(texts):
        r, over = public[text], inverse[text]
        for part in range(count):
            row = text * count + part
            mass, scale, theta = masses[text, skipped + part], scales[text, part], thetas[row]
            shift = (shifts[0, row], shifts[1, row])
            ones = (math.exp(-shift[0]), math.exp(-shift[1]))
            rest = 1.0 - theta
            one = two = three = four = 0.0
            for x in range(masses.shape[2]):
                chance = np.float64(mass[x]) * scale
                m, g = theta * ((chance - r[x]) * over[x]), rest + theta * (chance * over[x])
                up, up_slope, down, down_slope = _terms(m, g, order, there, back, shift, ones)
                one += r[x] * up
                two += r[x] * up_slope
                three += r[x] * down
                four += r[x] * down_slope
            found[0, 0, row], found[0, 1, row] = one, two
            found[1, 0, row], found[1, 1, row] = three, four


def part_sums(
    parts: PartRows, public: Floats, inverse: Floats, thetas: Floats, order: float, ranges: Floats
) -> tuple[Floats, Floats]:
    """log(I_a(G‖r) − 1), log(I_a(r‖G) − 1) and both slopes in log θ, G = r + θ (h − r), as [2, n·k] each.

    Of parts h, public r [n, V], 1/r, weights θ [n·k] and what `part_ranges` found.
    """
    with np.errstate(divide="ignore"):
        ends = order * np.log1p(thetas * ranges[1::-1]) * np.array([[1.0], [-1.0]])
    shifts = np.maximum(ends - _RANGE, 0.0)  # [2, n·k]
    found = np.empty((2, 2, parts.scale.size))
    series = (_coefficients(order), _coefficients(1.0 - order))
    _part_sums(
        parts.masses,
        parts.first,
        parts.scale,
        public,
        inverse,
        thetas,
        order,
        series,
        np.minimum(shifts, 1e300),
        found,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, slopes = np.log(found[:, 0]) + shifts, found[:, 1] / found[:, 0]
    return np.where(np.isfinite(ends), logs, np.inf), slopes


@compiled()
def _token_weights(
    masses: Masses,
    skipped: int,
    scales: Floats,
    public: Floats,
    inverse: Floats,
    targets: Floats,
    order: float,
    found: Floats,
) -> None:
    texts, count = scales.shape
    slope = 2.0 * order / (order - 1.0)
    for text in range(texts):
        r, over = public[text], inverse[text]
        for part in range(count):
            row = text * count + part
            mass, scale, target = masses[text, skipped + part], scales[text, part], targets[row]
            least = _INFINITY_BITS
            for x in range(masses.shape[2]):
                u = (np.float64(mass[x]) * scale - r[x]) * over[x]
                excess = target * over[x]
                root = math.sqrt(slope * excess) + excess
                power = _log1p(root, 1.0 + root, 1.0) / order
                theta = bits_of(_exp_less(power, 1.0) / (u if u > _LEAST_NORMAL else _LEAST_NORMAL))
                least = theta if theta < least else least
            found[row] = from_bits(least)


def token_weights(parts: PartRows, public: Floats, inverse: Floats, targets: Floats, order: float) -> Floats:
    """About the largest θ [n·k] at which no token by itself takes I_a(G‖r) − 1 above its target: to begin a search.

    By e^x − 1 − x = τ at x = log(1 + √(2τ) + τ), about, which with a/(a−1) under the root is exact at order 2.
    """
    found = np.empty(parts.scale.size)
    _token_weights(parts.masses, parts.first, parts.scale, public, inverse, targets, order, found)
    return found


@compiled()
def _pair_sums(
    first: Floats,
    second: Floats,
    public: Floats,
    weights: Floats,
    order: float,
    series: tuple[Series, Series],
    found: Floats,
) -> None:
    count, size = second.shape
    there, back = series
    for row in range(count):
        p, q, own = first[min(row, len(first) - 1)], second[row], weights[row]
        rest = 1.0 - own
        low, high = _INFINITY_BITS, 0
        for x in range(size):
            top, bottom = rest * public[x] + own * p[x], rest * public[x] + own * q[x]
            is_nothing = top + bottom == 0.0
            ratio = bits_of((1.0 if is_nothing else top) / (1.0 if is_nothing else bottom))
            low = ratio if ratio < low else low
            high = ratio if ratio > high else high
        least, greatest = from_bits(low), from_bits(high)
        shift = (
            max(0.0, order * math.log(greatest) - _RANGE),
            max(0.0, -order * math.log(least) - _RANGE),
        )
        ones = (math.exp(-shift[0]), math.exp(-shift[1]))
        one = two = three = four = 0.0
        for x in range(size):
            top, bottom = rest * public[x] + own * p[x], rest * public[x] + own * q[x]
            is_nothing = top + bottom == 0.0
            under = 1.0 / (1.0 if is_nothing else bottom)
            m, g = own * (p[x] - q[x]) * under, (1.0 if is_nothing else top) * under
            up, up_slope, down, down_slope = _terms(m, g, order, there, back, shift, ones)
            one += bottom * up
            two += public[x] * (up_slope - up)
            three += bottom * down
            four += public[x] * (down_slope - down)
        found[0, row], found[1, row], found[2, row] = one, two, shift[0]
        found[3, row], found[4, row], found[5, row] = three, four, shift[1]
        found[6, row], found[7, row] = least, greatest


def pair_sums(
    first: Floats, second: Floats, public: Floats, weights: Floats, order: float
) -> tuple[Floats, Floats]:
    """log(I_a(P‖Q) − 1), log(I_a(Q‖P) − 1) and both slopes, of P = λp + (1−λ)r, Q = λq + (1−λ)r, as [2, m] each.

    Of p [m, V], or one [1, V] for all, q [m, V], r [V] and λ [m]. With m = P/Q − 1 the derivative of λ Σ r(Y φ(m)),
    Y = Q/(λr), in log λ is the excess plus Σ r (m φ' − φ).
    """
    found = np.empty((8, len(second)))
    series = (_coefficients(order), _coefficients(1.0 - order))
    _pair_sums(first, second, public, weights, order, series, found)
    sums, moved, shifts = found[0:6:3], found[1:6:3], found[2:6:3]  # [2, m] each
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, slopes = np.log(sums) + shifts, 1.0 + moved / sums
    is_apart = ~((found[6] >= _LEAST_NORMAL) & (found[7] < np.inf))  # chances that only one of them has
    return np.where(is_apart, np.inf, logs), slopes


@compiled()
def _whole_pair_sums(
    first: Floats,
    second: Floats,
    public: Floats,
    weights: Floats,
    order: int,
    series: tuple[Series, Series, Series],
    found: Floats,
) -> None:
    count, size = second.shape
    there, lean, back = series
    less = order - 1
    one_by, two_by, four_by, eight_by = (less & 1) != 0, (less & 2) != 0, (less & 4) != 0, (less & 8) != 0
    for row in range(count):
        p, q, own = first[row], second[row], weights[row]
        rest = 1.0 - own
        low, high = _INFINITY_BITS, 0
        one = two = three = four = 0.0
        for x in range(size):
            top, bottom = rest * public[x] + own * p[x], rest * public[x] + own * q[x]
            is_nothing = top + bottom == 0.0
            under = 1.0 / (1.0 if is_nothing else bottom)
            m, g = own * (p[x] - q[x]) * under, (1.0 if is_nothing else top) * under
            ratio = bits_of(g)
            low = ratio if ratio < low else low
            high = ratio if ratio > high else high
            by = 1.0 / g
            squared = by * by
            fourth = squared * squared
            power = (by if one_by else 1.0) * (squared if two_by else 1.0)  # g^(1−a)
            power *= (fourth if four_by else 1.0) * (fourth * fourth if eight_by else 1.0)
            square = m * m
            up, down = square * _series(there, m), square * _series(back, m) * power
            one += bottom * up
            two += public[x] * (square * _series(lean, m) - up)
            three += bottom * down
            four += public[x] * (less * m * (order * m - down) * by - down)
        found[0, row], found[1, row] = one, two
        found[2, row], found[3, row] = three, four
        found[4, row], found[5, row] = from_bits(low), from_bits(high)


def whole_pair_sums(
    first: Floats, second: Floats, public: Floats, weights: Floats, order: int
) -> tuple[Floats, Floats]:
    """What `pair_sums` gives, of an order of 2 to 9, in a quarter of its time: +inf also where a sum overflows.

    φ_a(m) = Σ C(a, k) m^k is a polynomial then, and so is the numerator of φ_{1−a}(m), whose coefficients are not
    negative: with n = a − 1 it is m² Σ_j (n C(n, j+1) − C(n, j+2)) m^j over (1+m)^n.
    """
    n = order - 1
    lean = tuple(k * each for k, each in enumerate(_coefficients(order), start=2))
    back = tuple(float(n * math.comb(n, j + 1) - math.comb(n, j + 2)) for j in range(len(lean)))
    found = np.empty((6, len(second)))
    _whole_pair_sums(first, second, public, weights, order, (_coefficients(order), lean, back), found)  # type: ignore[arg-type]
    sums, moved = found[0:4:2], found[1:4:2]  # [2, m] each
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, slopes = np.log(sums), 1.0 + moved / sums
    is_apart = ~((found[4] >= _LEAST_NORMAL) & (found[5] < np.inf))  # chances that only one of them has
    return np.where(is_apart | ~np.isfinite(sums), np.inf, logs), slopes
