"""Which records nearly repeat an earlier text: MinHash signatures, bands, and a comparison; larger than memory.

Two texts are alike by the Jaccard similarity of their sets of shingles, eight bytes at every place of the text in
small letters with single spaces. A signature estimates it without bias,

    J(A, B) = |A ∩ B| / |A ∪ B| ≈ share of equal places of the signatures,     standard error √(J (1 − J) / 128)

by one-permutation hashing (Li, Owen and Zhang 2012): every shingle is hashed once, falls into one of 128 bins, and
each bin keeps its least hash; empty bins take another bin's value by optimal densification (Shrivastava 2017). That
is one hash a shingle where the classical scheme takes 128. Texts of fewer than some 300 shingles share bins, and
their error is somewhat larger.

Records whose signatures agree in a whole band (Indyk and Motwani 1998) are compared with the first of the band,
those that are not alike with the next one, and so on. A record is marked if it is alike to an earlier one that was
not marked yet. Bands are chosen so that a pair at the threshold meets in one with a chance of 99 % at least.

Which record stays depends on which others are there: **near-duplicate removal voids confidentiality guarantees**,
as a change of one record may drop another. Exact deduplication after redaction does not (`repeats`).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.core.corpus import Record
from reticent.data.duplicates.disk_column import PART_ROWS, DiskColumn
from reticent.data.duplicates.repeats import Marks

BINS: Final = 128
SHINGLE: Final = 8  # bytes
BATCH: Final = 512  # texts whose signatures are computed at once
_RECALL: Final = 0.99
_ROUNDS: Final = 64  # different texts of one band that a record is compared with at most
_PAIRS: Final = 1 << 13  # compared at once
_EMPTY: Final = np.uint32(0xFFFFFFFF)

Signatures = NDArray[np.uint32]
Sign = Callable[[Iterator[list[str]]], Iterable[Signatures]]


def signatures(texts: list[str]) -> Signatures:
    """[texts, 128]."""
    encoded = [_normal(text) for text in texts]
    lengths = np.array([len(text) for text in encoded], dtype=np.int64)
    data = b"".join(encoded)
    # [places]: eight bytes from every place on, read as one number; those that cross texts are passed over.
    windows = np.ndarray((len(data) - SHINGLE + 1,), dtype="<u8", buffer=data, strides=(1,))
    counts = lengths - (SHINGLE - 1)
    text = np.repeat(np.arange(len(texts)), counts)
    hashes = _mixed(windows[np.arange(len(text)) + (SHINGLE - 1) * text])
    slots = text * BINS + (hashes >> np.uint64(57)).astype(np.int64)
    least = np.full(len(texts) * BINS, _EMPTY)
    np.minimum.at(least, slots, (hashes & np.uint64(0x7FFFFFFF)).astype(np.uint32))
    return _densified(least.reshape(len(texts), BINS))


def similarity(first: Signatures, second: Signatures) -> NDArray[np.float64]:
    """Estimated Jaccard similarity of the rows of two arrays of signatures [n, 128]: [n]."""
    return np.asarray((first == second).mean(axis=1))


def near_repeats(
    records: Iterable[Record],
    folder: Path,
    *,
    threshold: float,
    sign: Sign = lambda batches: map(signatures, batches),
    part_rows: int = PART_ROWS,
) -> Marks:
    """[records]: whether a text is alike to an earlier one by the threshold. Working files stand in `folder`.

    `sign` computes the signatures of batches of texts, in order; give another to compute them in parallel.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"a threshold lies in (0, 1], found {threshold}")
    length = band_rows(threshold)
    starts = range(0, BINS - length + 1, length)
    with ExitStack() as stack:
        column = stack.enter_context(DiskColumn(folder / "signatures", np.uint32, width=BINS))
        bands = [stack.enter_context(DiskColumn(folder / f"band-{start}", np.uint64, width=1)) for start in starts]
        for rows in sign(_batches(records)):
            column.append(rows)
            for start, band in zip(starts, bands, strict=True):
                band.append(_band_key(rows[:, start : start + length]))
        marks = np.zeros(len(column), dtype=bool)
        for band in bands:
            for places, keys in band.parts(rows=part_rows):
                _mark(column, places, keys[:, 0], marks=marks, threshold=threshold)
    return marks


def band_rows(threshold: float) -> int:
    """The longest band with which a pair at the threshold t meets often enough: 1 − (1 − t^r)^⌊128 / r⌋."""
    for rows in range(BINS, 1, -1):
        if -np.expm1((BINS // rows) * np.log1p(-min(threshold**rows, 1.0 - 1e-12))) >= _RECALL:
            return rows
    return 1


def _normal(text: str) -> bytes:
    """Small letters and single spaces, as long as one shingle at least."""
    return " ".join(text.casefold().split()).encode("utf8", errors="surrogatepass").ljust(SHINGLE, b"\0")


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed bijection under which similar numbers have nothing in common (splitmix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _densified(least: Signatures) -> Signatures:
    """Empty bins take the value of the first bin on their walk that is not empty; all texts have the same walks."""
    empty = least == _EMPTY
    filled = least.copy()
    open_ = empty.copy()
    for step in range(1, 64 * BINS):
        if not open_.any():
            break
        # [128]: where the walk of each bin is after so many steps.
        walk = (_mixed(np.arange(BINS, dtype=np.uint64) + np.uint64(step * BINS)) % np.uint64(BINS)).astype(
            np.int64
        )
        ready = open_ & ~empty[:, walk]
        filled[ready] = least[:, walk][ready]
        open_ &= ~ready
    return filled


def _batches(records: Iterable[Record]) -> Iterator[list[str]]:
    remaining = iter(records)
    while batch := [record.text for record in islice(remaining, BATCH)]:
        yield batch


def _band_key(band: Signatures) -> NDArray[np.uint64]:
    """A hash [n] of the band's part of signatures [n, rows]: equal parts have equal keys."""
    running = np.zeros(len(band), dtype=np.uint64)
    for column in band.T:
        running = _mixed(running ^ column.astype(np.uint64))
    return running


def _mark(
    column: DiskColumn, places: NDArray[np.int64], keys: NDArray[np.uint64], *, marks: Marks, threshold: float
) -> None:
    """Compare the records of every band with the first of it that is left, until all are alone."""
    left = ~marks[places]
    order = np.argsort(keys[left], kind="stable")  # stable: places stay ascending within a band
    places, keys = places[left][order], keys[left][order]
    for _ in range(_ROUNDS):
        begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.empty(0, dtype=np.int64)
        sizes = np.diff(np.r_[begins, len(keys)])
        crowded = np.repeat(sizes > 1, sizes)
        is_first = np.zeros(len(keys), dtype=bool)
        is_first[begins] = True
        others = np.flatnonzero(crowded & ~is_first)
        if not len(others):
            return
        leaders = np.repeat(begins, sizes)[others]
        is_alike = np.concatenate(
            [
                similarity(
                    column.at(places[leaders[at : at + _PAIRS]]), column.at(places[others[at : at + _PAIRS]])
                )
                >= threshold
                for at in range(0, len(others), _PAIRS)
            ]
        )
        marks[places[others[is_alike]]] = True
        places, keys = places[others[~is_alike]], keys[others[~is_alike]]
