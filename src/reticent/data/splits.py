"""Who goes where, by a keyed hash: splits by record or by owner, and the parts and halves of an ensemble.

    place(u) = BLAKE2b_key(purpose ‖ u) / 2^64 ∈ [0, 1)

A unit's place depends on its name and the key alone, so adding or removing another owner never moves it: what
SubMix's leave-one-out charges and a stable hold-out set both rest on. Without the key, places cannot be told from
uniform ones. Parts are therefore only about equal in size, and a part of a small corpus may be empty.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from reticent.core.corpus import Corpus, Record

_WORD = 2**64


def part_of(owner: str, parts: int, *, key: bytes) -> int:
    """The part, 0 to parts − 1, of an owner.

    Guarantee: depends on `owner`, `parts` and `key` alone: neighbouring corpora differ in one part only.
    """
    if parts < 1:
        raise ValueError(f"parts must be at least 1, found {parts}")
    return _word(owner, purpose=b"part", key=key) * parts // _WORD


def half_of(owner: str, *, key: bytes) -> int:
    """The half, 0 or 1, of an owner within its part; independent of the part.

    Guarantee: depends on `owner` and `key` alone.
    """
    return _word(owner, purpose=b"half", key=key) >> 63


def split_corpus(
    records: Iterable[Record],
    fractions: Mapping[str, float],
    *,
    by: Literal["owner", "record"] = "owner",
    key: bytes,
) -> dict[str, Corpus]:
    """The records of each named share, in their order: {"train": 0.8, "holdout": 0.2}."""
    shares: dict[str, list[Record]] = {name: [] for name in fractions}
    for name, record in assign(records, fractions, by=by, key=key):
        shares[name].append(record)
    return {name: Corpus(members) for name, members in shares.items()}


def assign(
    records: Iterable[Record],
    fractions: Mapping[str, float],
    *,
    by: Literal["owner", "record"] = "owner",
    key: bytes,
) -> Iterator[tuple[str, Record]]:
    """Each record with the name of its share, streamed."""
    edges = _edges(fractions)
    for record in records:
        place = _word(record.owner if by == "owner" else record.id, purpose=by.encode(), key=key)
        yield next(name for name, edge in edges if place < edge), record


def _edges(fractions: Mapping[str, float]) -> list[tuple[str, int]]:
    """Upper edge of each share in units of 2^-64; the last is exactly 2^64."""
    if not fractions or any(not fraction > 0.0 for fraction in fractions.values()):
        raise ValueError("a split needs named fractions above 0")
    if abs(sum(fractions.values()) - 1.0) > 1e-9:
        raise ValueError(f"fractions must sum to 1, found {sum(fractions.values())}")
    edges = []
    total = 0.0
    for name, fraction in fractions.items():
        total += fraction
        edges.append((name, int(total * _WORD)))
    edges[-1] = (edges[-1][0], _WORD)
    return edges


def _word(unit: str, *, purpose: bytes, key: bytes) -> int:
    """64 bits that look random to who lacks the key, different for each purpose."""
    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"a key has 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, found {len(key)}")
    digest = hashlib.blake2b(unit.encode("utf8", errors="surrogatepass"), key=key, person=purpose, digest_size=8)
    return int.from_bytes(digest.digest(), "big")
