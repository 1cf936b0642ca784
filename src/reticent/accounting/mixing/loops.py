"""Loops over a vocabulary, compiled when they are first called: what mixing asks of every token of every part.

Numpy goes over an array once an operation. Here a token's numbers stay in registers from the division to the last
sum, which is several times as fast (`bench/mixing.py`), needs no space to work in and lets other threads run.
Each small whole order has a loop of its own, in which all its powers are written out; compiling it takes half a
second. Other orders share the loops of `power_loops`.

Every token takes the same instructions: nothing branches on a chance. Sums may be taken in any order, but numbers
that are infinite or not numbers stay so. Arrays are float64 and contiguous; pmfs of the public model are positive.
Does not know what the sums mean: see `mixing.curves`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats

Masses = NDArray[np.floating]
_P = ParamSpec("_P")
_R = TypeVar("_R")

_BLOCK = 512  # numbers whose sum is taken by itself, so that the error of a long sum does not grow with it
_MOMENTS = 3  # at once


def compiled(*, reorders: bool = True, inlined: bool = False) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """The function as machine code that holds no lock; `reorders` where sums and products may come in any order.

    `inlined` copies it, with its caller's licence to reorder, into the caller.
    """
    # No "nnan" and no "ninf": what overflows must be seen to overflow. No cache=True: numba's files say nothing of
    # what is in them, and after a crash, or two processes at once, the loop of one order is run for another.
    flags = {"contract", "nsz"} | ({"reassoc"} if reorders else set())
    inline = "always" if inlined else "never"
    found = numba.njit(nogil=True, error_model="numpy", fastmath=flags, inline=inline)
    return cast("Callable[[Callable[_P, _R]], Callable[_P, _R]]", found)


@dataclass(frozen=True, slots=True, eq=False)
class PartRows:
    """Pmfs of k parts in n texts, as rows of masses [n, first + k, V] and what each is to be multiplied by [n, k].

    Masses may be of any precision: a chance is the mass in float64 times its scale, wherever it is used.
    """

    masses: Masses = field(repr=False)
    scale: Floats = field(repr=False)
    first: int = 0

    @classmethod
    def of(cls, pmfs: Floats) -> "PartRows":
        """Pmfs [k, V] of one text or [n, k, V] of several, as they are."""
        whole = np.ascontiguousarray(pmfs if pmfs.ndim == 3 else pmfs[None])
        return cls(whole, np.ones(whole.shape[:2]))

    def text(self, number: int) -> "PartRows":
        """The rows of one text."""
        return PartRows(self.masses[number, None], self.scale[number, None], self.first)

    def pmfs(self) -> Floats:
        """In float64 [n, k, V]."""
        found = self.masses[:, self.first :].astype(np.float64)
        found *= self.scale[..., None]
        return found

    def mixed(self, shares: Floats, public: Floats, rest: Floats) -> Floats:
        """Σ_i shares_i h_i + rest·r as [n, V], of shares [n, k], public r [n, V] and rest [n]."""
        found = np.empty(public.shape)
        _mix_rows(self.masses, self.first, shares * self.scale, public, rest, found)
        return found


@compiled()
def _mix_rows(masses: Masses, first: int, shares: Floats, public: Floats, rest: Floats, found: Floats) -> None:
    texts, count = shares.shape
    size = masses.shape[2]
    for text in range(texts):
        r, own, most = public[text], found[text], rest[text]
        for start in range(0, size, _BLOCK):  # which stays in the first cache
            end = min(start + _BLOCK, size)
            chance, base = own[start:end], r[start:end]
            for x in range(end - start):
                chance[x] = most * base[x]
            for part in range(count):
                mass, share = masses[text, first + part, start:end], shares[text, part]
                for x in range(end - start):
                    chance[x] += share * np.float64(mass[x])


@compiled()
def _add_rows(masses: Masses, totals: Floats) -> None:
    texts, count, size = masses.shape
    for text in range(texts):
        for row in range(count):
            total = 0.0
            for start in range(0, size, _BLOCK):
                mass = masses[text, row, start : min(start + _BLOCK, size)]
                part = 0.0
                for x in range(len(mass)):
                    part += np.float64(mass[x])
                total += part
            totals[text, row] = total


def row_totals(masses: Masses) -> Floats:
    """Sums of masses [n, rows, V], in float64, as [n, rows]."""
    totals = np.empty(masses.shape[:2])
    _add_rows(masses, totals)
    return totals


@cache
def _moments_from(first: int) -> Callable[[Masses, int, Floats, Floats, Floats, Floats], None]:
    """Loop for Σ (h−r) u^j of parts h, public r [n, V] and 1/r, j = first, first + 1, first + 2."""

    @compiled()
    def moments(
        masses: Masses, skipped: int, scales: Floats, public: Floats, inverse: Floats, found: Floats
    ) -> None:
        texts, count = scales.shape
        for text in range(texts):
            r, over = public[text], inverse[text]
            for part in range(count):
                mass, scale = masses[text, skipped + part], scales[text, part]
                one = two = three = 0.0
                for x in range(masses.shape[2]):
                    moved = np.float64(mass[x]) * scale - r[x]
                    u = moved * over[x]
                    term = moved
                    for _ in range(first):
                        term *= u
                    one += term
                    term *= u
                    two += term
                    three += term * u
                row = text * count + part
                found[0, row], found[1, row], found[2, row] = one, two, three

    return moments


def central_moments(parts: PartRows, public: Floats, inverse: Floats, greatest: int) -> Floats:
    """Σ r u^j, u = h/r − 1, j = 2..greatest, of parts h, public r [n, V] and 1/r, as [greatest − 1, n·k]."""
    blocks = range(1, greatest, _MOMENTS)
    found = np.empty((_MOMENTS * len(blocks), parts.scale.size))
    for first in blocks:
        into = found[first - 1 : first - 1 + _MOMENTS]
        _moments_from(first)(parts.masses, parts.first, parts.scale, public, inverse, into)
    return found[: greatest - 1]


@cache
def _reverse_at(
    order: int, real: Callable[[Any], Any], *, has_falls: bool
) -> Callable[[Masses, int, Floats, Masses, Masses, Floats, Floats], None]:
    """Loop for `reverse_sums` at one order and in one precision, with or without the second sum."""

    @compiled()
    def sums(
        masses: Masses, first: int, scales: Floats, public: Masses, inverse: Masses, weights: Floats, found: Floats
    ) -> None:
        texts, count = scales.shape
        one, last = real(1), real(1 - order)
        for text in range(texts):
            r, over = public[text], inverse[text]
            for part in range(count):
                row = text * count + part
                mass, scale, theta = masses[text, first + part], real(scales[text, part]), real(weights[row])
                terms = falls = real(0)
                for x in range(masses.shape[2]):
                    moved = real(mass[x]) * scale - r[x]
                    u = moved * over[x]
                    s = one / (one + theta * u)
                    square = moved * u * s
                    term = one
                    for j in range(order - 2, 0, -1):  # by Horner
                        term = term * s + real(order - j)
                    terms += square * term
                    if has_falls:
                        fall = last
                        for j in range(order - 1, 0, -1):
                            fall = fall * s + real(order + 1 - 2 * j)
                        falls += square * fall
                found[0, row], found[1, row] = terms, falls

    return sums


def reverse_sums(
    parts: PartRows, public: Masses, inverse: Masses, weights: Floats, order: int, *, has_falls: bool = True
) -> Floats:
    """Σ_j (a−j) A_j and Σ_j (a+1−2j) A_j, j = 1..a, A_j = Σ (h−r)²/r·s^j, s = 1/(1 + θu), u = h/r − 1, as [2, n·k].

    Of parts h, public r [n, V], 1/r and weights θ [n·k], in the precision of r. Without `has_falls` the second
    is 0.
    """
    found = np.empty((2, parts.scale.size))
    loop = _reverse_at(order, np.float32 if public.dtype == np.float32 else np.float64, has_falls=has_falls)
    loop(parts.masses, parts.first, parts.scale, public, inverse, weights, found)
    return found
