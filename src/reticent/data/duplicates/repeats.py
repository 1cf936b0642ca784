"""Which records repeat an earlier text, exactly, for corpora larger than memory: two passes and a file of digests.

The first pass writes 32 bytes a record to disk and finds equal ones part by part (`disk_column`); what is kept in
memory of a record in the end is one byte. The second pass, the caller's, leaves out what was marked.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.core.corpus import Record
from reticent.data.duplicates.disk_column import PART_ROWS, DiskColumn, Rows

Marks = NDArray[np.bool_]
_BATCH: Final = 4096
_WORDS: Final = 4  # 64-bit words of a digest


def repeated_texts(records: Iterable[Record], folder: Path, *, part_rows: int = PART_ROWS) -> Marks:
    """[records]: whether an earlier record has the same text. Working files stand in `folder`.

    Guarantee: a record is marked only if an earlier one has the same text, whatever other records are there (up to
    a collision of 256-bit digests).
    """
    with DiskColumn(folder / "digests", np.uint64, width=_WORDS) as column:
        remaining = iter(records)
        while batch := list(islice(remaining, _BATCH)):
            content = b"".join(_digest(record.text) for record in batch)
            column.append(np.frombuffer(content, dtype=np.uint64).reshape(-1, _WORDS))
        marks = np.zeros(len(column), dtype=bool)
        for places, digests in column.parts(rows=part_rows):
            marks[_later_of_equal(places, digests)] = True
    return marks


def unmarked(records: Iterable[Record], marks: Marks) -> Iterator[Record]:
    """The records that are not marked, in order; as many records as marks."""
    for record, is_marked in zip(records, marks.tolist(), strict=True):
        if not is_marked:
            yield record


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf8", errors="surrogatepass"), digest_size=8 * _WORDS).digest()


def _later_of_equal(places: NDArray[np.int64], digests: Rows) -> NDArray[np.int64]:
    """Of places with equal digests [m, 4] all but the least."""
    order = np.lexsort((places, *digests.T))
    ordered = digests[order]
    is_equal = (ordered[1:] == ordered[:-1]).all(axis=1)
    later: NDArray[np.int64] = places[order[1:][is_equal]]
    return later
