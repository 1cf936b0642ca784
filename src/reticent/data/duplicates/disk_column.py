"""Rows of fixed width kept on disk in the order of the records, and read again in parts that fit into memory.

A column holds what a pass over a corpus computed of each record: a digest, a signature. Equal rows are found part
by part: `parts` divides rows by their first number, so that equal ones are in the same part, and a part has at most
so many rows on average. Memory is that of one part, whatever the number of records.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

PART_ROWS: Final = 1 << 19
_CHUNK_ROWS: Final = 1 << 16

Rows = NDArray[Any]


class DiskColumn:
    """A file of rows [width] of one dtype; a context manager that closes it."""

    def __init__(self, path: Path, dtype: type[np.generic], *, width: int) -> None:
        self._path = path
        self._dtype = np.dtype(dtype)
        self._width = width
        self._file = path.open("wb+")
        self._length = 0

    def __enter__(self) -> "DiskColumn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Rows) -> None:
        """Write rows [n, width] after the last one."""
        block = np.ascontiguousarray(rows, dtype=self._dtype).reshape(-1, self._width)
        self._file.write(block.data)
        self._length += len(block)

    def at(self, places: NDArray[np.int64]) -> Rows:
        """The rows [n, width] at these places, each read by itself: a map of the file would count as memory."""
        self._file.flush()
        size, file = self._width * self._dtype.itemsize, self._file.fileno()
        content = b"".join(os.pread(file, size, place * size) for place in places.tolist())
        return np.frombuffer(content, dtype=self._dtype).reshape(-1, self._width)

    def parts(self, *, rows: int = PART_ROWS) -> Iterator[tuple[NDArray[np.int64], Rows]]:
        """For each part the places [m] of its rows, ascending, and the rows [m, width]."""
        count = max(1, -(-self._length // rows))
        for part in range(count):
            places = [np.empty(0, dtype=np.int64)]
            found = [np.empty((0, self._width), dtype=self._dtype)]
            for start, chunk in self._chunks():
                here = np.flatnonzero(chunk[:, 0] % np.uint64(count) == part)
                places.append(here + start)
                found.append(chunk[here])
            yield np.concatenate(places), np.concatenate(found)

    def _chunks(self) -> Iterator[tuple[int, Rows]]:
        """Where each chunk begins, and its rows; read through the file, so that pages are not held."""
        self._file.flush()
        with self._path.open("rb") as file:
            start = 0
            while content := file.read(_CHUNK_ROWS * self._width * self._dtype.itemsize):
                rows = np.frombuffer(content, dtype=self._dtype).reshape(-1, self._width)
                yield start, rows
                start += len(rows)
