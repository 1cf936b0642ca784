"""Gaussians from random bits: Box and Muller's transform with its logarithm, sine and cosine written out.

    √(−2 log u) · (cos θ, sin θ)      u in (0, 1) and θ in (−π/4, π/4) of 52 bits each, then a random quarter turn

A single transform takes, in floating point, few enough values near a given one that an attacker can tell which true
answers are possible (Mironov 2012; Holohan and Braghin 2021). So 16 independent draws are mixed, and 15
mixtures are kept:

    y_j = ⅛ (x_1 + … + x_16) − x_j,   j = 1 … 15           rows of an orthogonal matrix, a reflection

These are independent standard Gaussians again. Each rests on 32 uniforms of 52 bits. Even whoever knows all 30
numbers of a set (a transform gives two draws) has two unknowns more than equations: finding them is a search over
2^104. Whoever adds a draw to an answer must still round the sum: `on_grid`.

The functions are polynomials (by those of the freely distributable libm) that err in the last digits of float64
alone. Written out, they are the same on every machine and compile to instructions that treat several draws at once
(`core.noise.compiled`), to the same bits as here: nothing is reordered or fused.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats

Words = NDArray[np.uint64]
Exact = NDArray[np.float32] | NDArray[np.float64]

UNIFORM_SHIFT: Final = np.uint64(12)  # 52 of 64 bits; the lowest two of an angle's word choose the quarter
EXPONENT_SHIFT: Final = np.uint64(52)
SIGN_SHIFT: Final = np.uint64(63)
QUARTER_SHIFT: Final = np.uint64(62)
ONE: Final = np.uint64(0x3FF0000000000000)  # bits of 1.0
FROM_ROOT_HALF: Final = np.uint64(0x0009_5F61_9980_C433)  # bits of 1.0 less those of √½
WHOLE: Final = np.uint64(0x4330000000000000)  # bits of 2^52: a small whole number in its last bits is 2^52 more
WHOLE_BIAS: Final = 2.0**52 + 1023.0
TO_CELL: Final = 1.0 - 2.0**-53  # from [1, 2) to the middles of 2^52 cells of (0, 1)
TO_CENTRED: Final = 1.5 - 2.0**-53  # to those of (−½, ½)
MINUS_TWO_LN2: Final = -1.3862943611198906
MIXED: Final = 16  # transforms that are mixed
WORDS: Final = 2 * MIXED  # so many words
DRAWS: Final = 2 * (MIXED - 1)  # make so many Gaussians
REFLECTION: Final = 2.0 / MIXED


def minus_twice_log(f: Floats, whole: Floats) -> Floats:
    """−2 log((1 + f)·2^whole) for 1 + f in [√½, √2)."""
    s = f / (2.0 + f)
    z = s * s
    high = 0.363671443232361 + z * (0.30627675398418747 + z * 0.2959639721023317)
    low = 1.333333333333347 + z * (
        0.7999999999881884 + z * (0.5714285748732478 + z * (0.4444439686429957 + z * high))
    )
    return whole * MINUS_TWO_LN2 - s * (4.0 + z * low)


def sine(t: Floats) -> Floats:
    """sin(t·π/2) for |t| ≤ ½."""
    z = t * t
    high = 0.00016044115266738095 + z * (-3.598649570240692e-06 + z * 5.634704113884751e-08)
    return t * (
        1.5707963267948966
        + z * (-0.645964097506245 + z * (0.07969262624606334 + z * (-0.0046817541326259334 + z * high)))
    )


def cosine(t: Floats) -> Floats:
    """cos(t·π/2) for |t| ≤ ½."""
    z = t * t
    high = 0.0009192602743905533 + z * (
        -2.520203791691774e-05 + z * (4.710641505803502e-07 + z * -6.32474667886607e-09)
    )
    return 1.0 + z * (-1.2337005501361697 + z * (0.25366950790104764 + z * (-0.02086348076333076 + z * high)))


def gaussians(words: Words, out: Floats) -> None:
    """Standard Gaussians [30, n] from words [32, n]: each is a mixture of 16 independent draws."""
    kept = MIXED - 1
    for which, drawn in enumerate(_pair(words[0::2], words[1::2])):  # [16, n] each
        common = sum(drawn[1:], start=drawn[0]) * REFLECTION  # from the first to the last
        np.subtract(common, drawn[:kept], out=out[which * kept : (which + 1) * kept])


def on_grid(noise: Floats, exact: Exact, deviation: float, grid: float, out: Exact) -> None:
    """Exact numbers [n] and noise times its deviation, summed, rounded to multiples of the grid, and then cast.

    Guarantee: for a grid that is a power of two, a function of the sum in float64 alone: scaling by it is exact.
    """
    per_cell = 1.0 / grid
    out[:] = np.rint(noise * deviation * per_cell + exact.astype(np.float64) * per_cell) * grid


def _pair(radius_words: Words, angle_words: Words) -> tuple[Floats, Floats]:
    """Two Gaussians by one transform of each pair of words, in arrays of the words' shape."""
    u = ((radius_words >> UNIFORM_SHIFT) | ONE).view(np.float64) - TO_CELL
    bits = u.view(np.uint64)
    power = (bits + FROM_ROOT_HALF) >> EXPONENT_SHIFT  # 1023 more than that of u = g · 2^power, g in [√½, √2)
    g = (bits - (power << EXPONENT_SHIFT) + ONE).view(np.float64)
    radius = np.sqrt(minus_twice_log(g - 1.0, (power | WHOLE).view(np.float64) - WHOLE_BIAS))
    radius = (radius.view(np.uint64) | (angle_words << SIGN_SHIFT)).view(np.float64)
    t = ((angle_words >> UNIFORM_SHIFT) | ONE).view(np.float64) - TO_CENTRED
    along, across = radius * cosine(t), radius * sine(t)
    is_turned = (angle_words << QUARTER_SHIFT).view(np.int64) < 0
    return np.where(is_turned, across, along), np.where(is_turned, along, across)
