"""`core.gaussian.gaussians` as machine code: several draws at once, the same bits.

Imported where many Gaussians are drawn: compiling takes a second or two.
"""

import math
from typing import Any, Final

import numba
import numpy as np

from reticent.core import gaussian
from reticent.core.float_bits import bits_of, from_bits
from reticent.core.gaussian import (
    EXPONENT_SHIFT,
    FROM_ROOT_HALF,
    HALF_PI,
    ONE,
    QUARTER,
    ROOT_HALF,
    SIGN_SHIFT,
    TO_CELL,
    TO_CENTRED,
    UNIFORM_SHIFT,
    WHOLE,
    WHOLE_BIAS,
    Floats,
    Words,
)

_inlined: Final[Any] = numba.njit(inline="always", error_model="numpy")  # no fastmath: as in `gaussian`, to the bit
_log_of, _sine, _cosine = _inlined(gaussian.log_of), _inlined(gaussian.sine), _inlined(gaussian.cosine)


@_inlined  # type: ignore[untyped-decorator]
def _float(bits: Any) -> float:
    return from_bits(np.int64(bits))  # type: ignore[no-any-return]


@_inlined  # type: ignore[untyped-decorator]
def _pair(radius_word: Any, angle_word: Any) -> tuple[float, float]:
    u = _float((radius_word >> UNIFORM_SHIFT) | ONE) - TO_CELL
    bits = np.uint64(bits_of(u))
    power = (bits + FROM_ROOT_HALF) >> EXPONENT_SHIFT
    g = _float(bits - (power << EXPONENT_SHIFT) + ONE)
    radius = math.sqrt(-2.0 * _log_of(g - 1.0, _float(power | WHOLE) - WHOLE_BIAS))
    radius = _float(np.uint64(bits_of(radius)) | (angle_word << SIGN_SHIFT))
    w = (_float((angle_word >> UNIFORM_SHIFT) | ONE) - TO_CENTRED) * HALF_PI
    along, across = radius * _cosine(w), radius * _sine(w)
    is_turned = (angle_word & QUARTER) != np.uint64(0)
    return (across if is_turned else along), (along if is_turned else across)


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fill(words: Words, out: Floats) -> None:
    for i in range(words.shape[1]):
        a, b = _pair(words[0, i], words[1, i])
        c, d = _pair(words[2, i], words[3, i])
        out[0, i] = (a + c) * ROOT_HALF
        out[1, i] = (b + d) * ROOT_HALF


def gaussians(words: Words) -> Floats:
    """Standard Gaussians [2, n] from words [4, n], as `gaussian.gaussians` gives them."""
    words.setflags(write=False)  # so that one type of array is compiled for
    out = np.empty((2, words.shape[1]))
    _fill(words, out)
    return out
