"""How many records of a corpus hold a string, and the longest piece of a text that any record holds.

A string is **k-eidetic** if it occurs in at most k records (Carlini et al. 2021): emitting a string that only one
person wrote is worse than emitting one that occurs everywhere. Counts are of *records*, not of occurrences.

The index is a suffix array over UTF-8 bytes, built once, in shards of whole records, so that a stream of any
length is indexed with 5 bytes kept a byte of text and a fixed amount of working memory (about 40 bytes a byte of
one shard). A count takes two binary searches a shard; no hash, no false positives. Matches never cross records.

Comparison is exact: no case folding, no normalisation. Near matches are in `matching`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.extraction.suffix_array import END_MARK, sort_suffixes
from reticent.core.corpus import Record

SHARD_BYTES: Final = 2**23
_END: Final = bytes([END_MARK])


@dataclass(frozen=True, slots=True)
class LongestMatch:
    """The longest piece of a text that occurs in the corpus: [start, start + length) in characters of the text.

    `records` counts the records that hold it; `ids` names the first few. Of pieces equally long it is one.
    """

    start: int
    length: int
    records: int
    ids: tuple[str, ...]


class EideticIndex:
    """A corpus, indexed for exact strings. Its `repr` shows sizes alone."""

    def __init__(self, records: Iterable[Record], *, shard_bytes: int = SHARD_BYTES) -> None:
        """Read the records once; they need not fit into memory together with the index's working memory."""
        if shard_bytes < 1:
            raise ValueError("a shard holds at least one byte")
        self._shards = tuple(_shards(records, shard_bytes))
        if not self._shards:
            raise ValueError("no record, no index")

    def __repr__(self) -> str:
        return f"EideticIndex({self.records} records, {self.size} bytes, {len(self._shards)} shards)"

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(len(shard.ids) for shard in self._shards)

    @property
    def size(self) -> int:
        """Bytes of text, one end mark a record included."""
        return sum(len(shard.data) for shard in self._shards)

    @property
    def memory(self) -> int:
        """Bytes the index keeps, text included; ids aside."""
        return sum(len(shard.data) + shard.places.nbytes + shard.starts.nbytes for shard in self._shards)

    def count_records(self, string: str) -> int:
        """Number of records that contain the string: the k for which it is k-eidetic. The empty one is in all."""
        pattern = _encode(string)
        return sum(len(shard.holders(pattern)) for shard in self._shards)

    def record_ids(self, string: str, *, most: int = 10) -> tuple[str, ...]:
        """Ids of the first records, in the corpus's order, that contain the string."""
        pattern, found = _encode(string), list[str]()
        for shard in self._shards:
            if len(found) >= most:
                break
            found += [shard.ids[index] for index in shard.holders(pattern)[: most - len(found)].tolist()]
        return tuple(found)

    def longest_match(self, text: str, *, most: int = 10) -> LongestMatch:
        """The longest piece of `text` that one record contains, with at most `most` ids of such records."""
        offsets = _character_offsets(text)
        encoded = _encode(text)
        start, length = 0, 0  # in characters
        for shard in self._shards:
            start, length = _longest_in(shard, encoded, offsets, (start, length))
        piece = text[start : start + length]
        if not piece:
            return LongestMatch(0, 0, 0, ())
        return LongestMatch(start, length, self.count_records(piece), self.record_ids(piece, most=most))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Shard:
    """Records laid end to end, an end mark after each, with the sorted places where characters begin."""

    data: bytes
    places: NDArray[np.int32]
    starts: NDArray[np.int32]  # [records]: where each record begins
    ids: tuple[str, ...]

    def holders(self, pattern: bytes) -> NDArray[np.int64]:
        """Indices of the records that contain the pattern, ascending."""
        if not pattern:
            return np.arange(len(self.ids))
        first = self._bound(pattern, bytes.__ge__)
        last = self._bound(pattern, bytes.__gt__)
        return np.unique(np.searchsorted(self.starts, self.places[first:last], side="right") - 1)

    def shared_prefix(self, pattern: bytes) -> int:
        """Bytes of the longest beginning of the pattern that occurs: it stands beside the insertion point."""
        slot = self._bound(pattern, bytes.__ge__)
        beside = self.places[max(0, slot - 1) : slot + 1].tolist()
        return max((_common_prefix(pattern, self.data[p : p + len(pattern)]) for p in beside), default=0)

    def contains(self, pattern: bytes) -> bool:
        """Whether any record has the pattern."""
        slot = self._bound(pattern, bytes.__ge__)
        return slot < len(self.places) and self.data.startswith(pattern, int(self.places[slot]))

    def _bound(self, pattern: bytes, is_past: Callable[[bytes, bytes], bool]) -> int:
        """First slot whose suffix, cut to the pattern's length, is past the pattern."""
        # A cut suffix may run on into the next record, behind an end mark, which no pattern holds: the comparison
        # is over before.
        data, places, length = self.data, self.places.data, len(pattern)
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) >> 1
            place = places[middle]
            if is_past(data[place : place + length], pattern):
                high = middle
            else:
                low = middle + 1
        return low


def _longest_in(shard: _Shard, encoded: bytes, offsets: list[int], best: tuple[int, int]) -> tuple[int, int]:
    """(start, length) in characters of the longest piece that the shard holds, or the best so far."""
    start, length = best
    characters = len(offsets) - 1
    place = 0
    while place + length < characters:
        # Only a piece longer than the best matters: one search for the least such piece decides most places.
        if shard.contains(encoded[offsets[place] : offsets[place + length + 1]]):
            shared = offsets[place] + shard.shared_prefix(encoded[offsets[place] :])
            start = place
            length = int(np.searchsorted(offsets, shared, side="right")) - 1 - place  # whole characters
        place += 1
    return start, length


def _shards(records: Iterable[Record], shard_bytes: int) -> Iterator[_Shard]:
    """Shards of whole records: as many as fit, one at least."""
    texts, ids, size = list[bytes](), list[str](), 0
    for record in records:
        text = _encode(record.text) + _END
        if texts and size + len(text) > shard_bytes:
            yield _make_shard(texts, ids)
            texts, ids, size = [], [], 0
        texts.append(text)
        ids.append(record.id)
        size += len(text)
    if texts:
        yield _make_shard(texts, ids)


def _make_shard(texts: list[bytes], ids: list[str]) -> _Shard:
    """Sort the suffixes that begin a character: patterns are texts, so they begin nowhere else."""
    data = b"".join(texts)
    array = np.frombuffer(data, dtype=np.uint8)
    places = sort_suffixes(array)
    first_bytes = array[places]
    begins = (first_bytes & 0xC0 != 0x80) & (first_bytes != END_MARK)
    starts = np.cumsum([0, *(len(text) for text in texts[:-1])], dtype=np.int32)
    return _Shard(data, places[begins], starts, tuple(ids))


def _encode(text: str) -> bytes:
    """UTF-8; a lone surrogate, which JSON allows, is kept as three bytes."""
    return text.encode("utf8", errors="surrogatepass")


def _character_offsets(text: str) -> list[int]:
    """Byte offset of each character, and of the end [characters + 1]."""
    encoded = np.frombuffer(_encode(text), dtype=np.uint8)
    return [*np.flatnonzero(encoded & 0xC0 != 0x80).tolist(), len(encoded)]


def _common_prefix(first: bytes, second: bytes) -> int:
    """Number of equal bytes from the beginning."""
    size = min(len(first), len(second))
    a, b = (np.frombuffer(part, dtype=np.uint8, count=size) for part in (first, second))
    differing = np.flatnonzero(a != b)
    return int(differing[0]) if len(differing) else size
