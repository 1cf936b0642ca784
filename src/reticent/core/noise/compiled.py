"""`core.noise.gaussian.gaussians` as machine code: several draws at once, the same bits.

Imported where many Gaussians are drawn: compiling takes a second or two.
"""

import math
from typing import Any, Final

import numba
import numpy as np

from reticent.core.arrays import Floats
from reticent.core.noise import gaussian
from reticent.core.noise.float_bits import bits_of, from_bits
from reticent.core.noise.gaussian import (
    EXPONENT_SHIFT,
    FROM_ROOT_HALF,
    MIXED,
    ONE,
    QUARTER_SHIFT,
    REFLECTION,
    SIGN_SHIFT,
    TO_CELL,
    TO_CENTRED,
    UNIFORM_SHIFT,
    WHOLE,
    WHOLE_BIAS,
    Exact,
    Words,
)

_TILE: Final = 256  # columns at once: what fits the nearest cache
_inlined: Final[Any] = numba.njit(inline="always", error_model="numpy")  # no fastmath: as in `gaussian`, to the bit
_minus_twice_log = _inlined(gaussian.minus_twice_log)
_sine, _cosine = _inlined(gaussian.sine), _inlined(gaussian.cosine)


@_inlined  # type: ignore[untyped-decorator]
def _float(bits: Any) -> float:
    return from_bits(np.int64(bits))  # type: ignore[no-any-return]


@_inlined  # type: ignore[untyped-decorator]
def _radii(words: Words, out: Floats) -> None:
    for i in range(len(out)):
        u = _float((words[i] >> UNIFORM_SHIFT) | ONE) - TO_CELL
        bits = np.uint64(bits_of(u))
        power = (bits + FROM_ROOT_HALF) >> EXPONENT_SHIFT
        g = _float(bits - (power << EXPONENT_SHIFT) + ONE)
        out[i] = math.sqrt(_minus_twice_log(g - 1.0, _float(power | WHOLE) - WHOLE_BIAS))


@_inlined  # type: ignore[untyped-decorator]
def _turn(words: Words, radii: Floats, first: Floats, second: Floats) -> None:
    for i in range(len(radii)):
        word = words[i]
        radius = _float(np.uint64(bits_of(radii[i])) | (word << SIGN_SHIFT))
        t = _float((word >> UNIFORM_SHIFT) | ONE) - TO_CENTRED
        along, across = radius * _cosine(t), radius * _sine(t)
        is_turned = np.int64(word << QUARTER_SHIFT) < 0
        first[i] = across if is_turned else along
        second[i] = along if is_turned else across


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fill(words: Words, out: Floats) -> None:
    radii = np.empty(_TILE)
    common = np.empty(_TILE)
    drawn = np.empty((2, MIXED, _TILE))
    for start in range(0, words.shape[1], _TILE):
        end = min(start + _TILE, words.shape[1])
        size = end - start
        for each in range(MIXED):  # loops of few instructions: the processor overlaps several of their turns
            _radii(words[2 * each, start:end], radii[:size])
            _turn(words[2 * each + 1, start:end], radii[:size], drawn[0, each], drawn[1, each])
        for which in range(2):
            x = drawn[which]
            for i in range(size):  # a slice would take two seconds more to compile
                common[i] = x[0, i]
            for each in range(1, MIXED):
                for i in range(size):
                    common[i] += x[each, i]
            for i in range(size):
                common[i] *= REFLECTION
            for each in range(MIXED - 1):
                for i in range(size):
                    out[which * (MIXED - 1) + each, start + i] = common[i] - x[each, i]


def gaussians(words: Words, out: Floats) -> None:
    """What `gaussian.gaussians` gives."""
    words.setflags(write=False)  # so that one type of array is compiled for
    _fill(words, out)


@numba.njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def on_grid(noise: Floats, exact: Exact, deviation: float, grid: float, out: Exact) -> None:
    """What `gaussian.on_grid` gives."""
    per_cell = 1.0 / grid
    for i in range(len(noise)):
        out[i] = np.rint(noise[i] * deviation * per_cell + exact[i] * per_cell) * grid
