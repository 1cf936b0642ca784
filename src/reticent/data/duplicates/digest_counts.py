"""How often each of very many strings was seen, in about 20 bytes a different string: for counts of whole corpora.

Strings are told apart by 64-bit BLAKE2b digests, kept sorted with their counts; new ones wait in a buffer and are
merged a million at a time. Two of n different strings share a digest with chance below n² / 2^65, 3e-6 for ten
million; a count may then be off by one. Where a promise rests on equality, `repeats` compares 256 bits.
"""

import hashlib
from array import array
from bisect import bisect_left
from typing import Final

import numpy as np
from numpy.typing import NDArray

_BUFFER: Final = 1 << 20
_RECENT: Final = 1 << 17


class DigestCounts:
    """Counts strings; keeps none."""

    def __init__(self, *, buffer: int = _BUFFER) -> None:
        self._size = buffer
        self._waiting = array("Q")
        self._digests: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)  # [distinct], ascending
        self._counts: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)  # [distinct]
        self.seen = 0

    def __repr__(self) -> str:
        return f"DigestCounts({self.seen} seen)"

    def add(self, string: str) -> None:
        """Count one string."""
        self._waiting.append(_digest(string))
        self.seen += 1
        if len(self._waiting) >= self._size:
            self._merge()

    @property
    def distinct(self) -> int:
        """Different strings."""
        self._merge()
        return len(self._digests)

    @property
    def repeated(self) -> int:
        """Strings that had been seen before."""
        return self.seen - self.distinct

    @property
    def most(self) -> int:
        """How often the most frequent string was seen; 0 where none was."""
        self._merge()
        return int(self._counts.max(initial=0))

    def _merge(self) -> None:
        if not self._waiting:
            return
        new, times = np.unique(np.frombuffer(self._waiting, dtype=np.uint64), return_counts=True)
        place = np.searchsorted(self._digests, new)
        known = place < len(self._digests)
        known[known] = self._digests[place[known]] == new[known]
        self._counts[place[known]] += times[known].astype(np.uint32)
        self._counts = np.insert(self._counts, place[~known], times[~known].astype(np.uint32))
        self._digests = np.insert(self._digests, place[~known], new[~known])
        self._waiting = array("Q")


class DigestSet:
    """Which strings were seen, in 8 bytes each: the latest digests in a set of Python's, the others in an array."""

    def __init__(self, *, recent: int = _RECENT) -> None:
        self._most = recent
        self._recent: set[int] = set()
        self._sorted = array("Q")

    def __len__(self) -> int:
        return len(self._recent) + len(self._sorted)

    def add(self, string: str) -> bool:
        """Whether the string is new; it counts as seen afterwards."""
        number = _digest(string)
        place = bisect_left(self._sorted, number)
        if number in self._recent or (place < len(self._sorted) and self._sorted[place] == number):
            return False
        self._recent.add(number)
        if len(self._recent) >= self._most:
            new = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
            merged = np.concatenate([np.frombuffer(self._sorted, dtype=np.uint64), new])
            merged.sort()
            self._sorted = array("Q", merged.tobytes())
            self._recent = set()
        return True


def _digest(string: str) -> int:
    """64 bits that tell strings apart."""
    content = string.encode("utf8", errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")
