"""The sorted suffixes of many short texts, by prefix doubling in numpy (Manber and Myers 1993).

    order by the first 8 bytes; then, while suffixes tie on their first h bytes:  rank(i) ← (rank(i), rank(i + h))

Only suffixes that still tie are sorted again (Larsson and Sadakane 2007), and those that tie to the end of their
texts are left as they are: what follows a text's end is never compared, so equal texts cost no further rounds.
A pattern without the end mark meets all its occurrences in one contiguous range.

Needs about 40 bytes a byte while it sorts; callers bound that by sorting in pieces (`eidetic`).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

END_MARK: Final = 0xFF  # stands after every text; no byte of UTF-8 is 0xFF
_FIRST: Final = 8  # bytes in the first key

Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]


def sort_suffixes(data: Bytes) -> Places:
    """Places [n] of `data`, in the order of the bytes from there to the next end mark, which counts as 255.

    `data` [n] is a sequence of texts, each followed by END_MARK. Suffixes that are equal up to their end mark stand
    together in any order.
    """
    size = len(data)
    if size == 0 or data[-1] != END_MARK:
        raise ValueError("texts to sort end in an end mark, and there is at least one")
    if size > np.iinfo(np.int32).max:
        raise ValueError(f"one piece holds less than 2^31 bytes, found {size}")
    marks = np.flatnonzero(data == END_MARK)
    left = np.repeat(marks, np.diff(marks, prepend=-1)).astype(np.int32)  # [n]: the end mark of each place …
    left -= np.arange(size, dtype=np.int32) - 1  # … and how many bytes there are up to it, the mark included
    first_keys = _first_keys(data)
    order = np.argsort(first_keys)
    places = order.astype(np.int32)  # [n]
    ranks = np.empty(size, dtype=np.int32)  # [n]: slot of the first suffix that ties with the one at this place
    starts = _group_starts(first_keys[order])
    ranks[places] = starts
    slots = _unsettled(starts, np.arange(size, dtype=np.int32), left[places], _FIRST)
    step = _FIRST
    while len(slots):
        here = places[slots]
        keys = ranks[here].astype(np.int64) << 32 | ranks[here + step]  # the texts of these go on for `step` bytes
        order = np.argsort(keys)
        here = here[order]
        starts = slots[_group_starts(keys[order])]
        places[slots] = here
        ranks[here] = starts
        step *= 2
        slots = _unsettled(starts, slots, left[here], step)
    return places


def _first_keys(data: Bytes) -> NDArray[np.uint64]:
    """The first 8 bytes at each place as a big-endian number [n], zeros after the end mark."""
    keys = np.zeros(len(data), dtype=np.uint64)
    ended = np.zeros(len(data), dtype=np.bool_)
    padded = np.concatenate([data, np.zeros(_FIRST, dtype=np.uint8)])
    for offset in range(_FIRST):
        byte = np.where(ended, np.uint8(0), padded[offset : offset + len(data)])
        keys = keys << np.uint64(8) | byte
        ended |= byte == END_MARK
    return keys


def _group_starts(ordered: NDArray[np.uint64] | NDArray[np.int64]) -> Places:
    """For each of the sorted keys [m] the index of the first equal one."""
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.maximum.accumulate(np.where(is_first, np.arange(len(ordered), dtype=np.int32), np.int32(0)))


def _unsettled(starts: Places, slots: Places, left: Places, compared: int) -> Places:
    """Slots whose suffix ties with another and has not ended within the bytes compared."""
    alone = np.ones(len(starts), dtype=np.bool_)
    same = starts[1:] == starts[:-1]
    alone[1:] &= ~same
    alone[:-1] &= ~same
    return slots[~alone & (left > compared)]
