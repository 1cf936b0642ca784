"""Gaussians from random bits: Box and Muller's transform with its logarithm, sine and cosine written out.

    √(−2 log u) · (cos θ, sin θ)      u in (0, 1) and θ in (−π/4, π/4) of 52 bits each, then a random quarter turn

Two independent transforms are added and scaled by 1/√2. A single one takes, in floating point, few enough values
near a given one that an attacker can tell which true answers are possible (Mironov 2012; Holohan and Braghin 2021).
A sum rests on four uniforms of 52 bits: finding them is a search over 2^200. Whoever adds the draw to an answer
must still round the sum: see `training.gradients.clipping.add_noise`.

The functions are polynomials (those of the freely distributable libm) that err in the last digits of float64 alone.
Written out, they are the same on every machine and compile to instructions that treat several draws at once
(`core.compiled_gaussian`), to the same bits as here: nothing is reordered or fused.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

UNIFORM_SHIFT: Final = np.uint64(12)  # 52 of 64 bits; the lowest two of an angle's word choose the quarter
EXPONENT_SHIFT: Final = np.uint64(52)
SIGN_SHIFT: Final = np.uint64(63)
QUARTER: Final = np.uint64(2)
ONE: Final = np.uint64(0x3FF0000000000000)  # bits of 1.0
FROM_ROOT_HALF: Final = np.uint64(0x0009_5F61_9980_C433)  # bits of 1.0 less those of √½
WHOLE: Final = np.uint64(0x4330000000000000)  # bits of 2^52: a small whole number in its last bits is 2^52 more
WHOLE_BIAS: Final = 2.0**52 + 1023.0
TO_CELL: Final = 1.0 - 2.0**-53  # from [1, 2) to the middles of 2^52 cells of (0, 1)
TO_CENTRED: Final = 1.5 - 2.0**-53  # to those of (−½, ½)
HALF_PI: Final = 1.5707963267948966
LN2: Final = 0.6931471805599453
ROOT_HALF: Final = 0.7071067811865476


def log_of(f: Floats, whole: Floats) -> Floats:
    """log((1 + f)·2^whole) for 1 + f in [√½, √2)."""
    s = f / (2.0 + f)
    z = s * s
    high = 1.818357216161805012e-01 + z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01)
    low = 3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * high))
    return whole * LN2 + (f - s * (f - z * (6.666666666666735130e-01 + z * low)))


def sine(w: Floats) -> Floats:
    """sin w for |w| ≤ π/4."""
    z = w * w
    high = 2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    low = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * high)
    return w + w * z * (-1.66666666666666324348e-01 + z * low)


def cosine(w: Floats) -> Floats:
    """cos w for |w| ≤ π/4."""
    z = w * w
    high = -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
    low = 4.16666666666666019037e-02 + z * (
        -1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * high)
    )
    return 1.0 - 0.5 * z + z * z * low


def gaussians(words: Words) -> Floats:
    """Standard Gaussians [2, n] from words [4, n]: each is the scaled sum of two independent draws."""
    first, second = _pair(words[0], words[1]), _pair(words[2], words[3])
    return np.stack([(a + b) * ROOT_HALF for a, b in zip(first, second, strict=True)])


def _pair(radius_words: Words, angle_words: Words) -> tuple[Floats, Floats]:
    """Two Gaussians [n] each by one transform."""
    u = ((radius_words >> UNIFORM_SHIFT) | ONE).view(np.float64) - TO_CELL
    bits = u.view(np.uint64)
    power = (bits + FROM_ROOT_HALF) >> EXPONENT_SHIFT  # 1023 more than that of u = g · 2^power, g in [√½, √2)
    g = (bits - (power << EXPONENT_SHIFT) + ONE).view(np.float64)
    radius = np.sqrt(-2.0 * log_of(g - 1.0, (power | WHOLE).view(np.float64) - WHOLE_BIAS))
    radius = (radius.view(np.uint64) | (angle_words << SIGN_SHIFT)).view(np.float64)
    w = (((angle_words >> UNIFORM_SHIFT) | ONE).view(np.float64) - TO_CENTRED) * HALF_PI
    along, across = radius * cosine(w), radius * sine(w)
    is_turned = (angle_words & QUARTER) != 0
    return np.where(is_turned, across, along), np.where(is_turned, along, across)
