"""Texts with an id and an owner, and an immutable sequence of them with a content fingerprint."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, overload, runtime_checkable


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Characters [start, end) of a text that are sensitive, with their kind ("PERSON", "phone").

    `identifier` is "direct", "quasi" or "" where labels say so (Text Anonymization Benchmark).
    """

    start: int
    end: int
    kind: str
    identifier: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span needs 0 <= start < end, found [{self.start}, {self.end})")

    def overlaps(self, other: "Span") -> bool:
        """Whether the two share a character."""
        return self.start < other.end and other.start < self.end

    def covers(self, other: "Span") -> bool:
        """Whether every character of `other` lies in this span."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class Record:
    """A text with an id and an owner. `repr` shows the id alone: text and owner may be private.

    `spans` are known sensitive spans: gold labels of a benchmark, or what a generator put there.

    >>> reticent.Record("chat-7", "My code is 4711.", owner="Ann")
    Record(id='chat-7')
    """

    id: str
    text: str = field(repr=False)
    owner: str = field(default="", repr=False)
    spans: tuple[Span, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not self.owner:
            object.__setattr__(self, "owner", self.id)
        if self.spans and max(span.end for span in self.spans) > len(self.text):
            raise ValueError(f"record {self.id}: a span ends after the text")


class Fingerprint:
    """Running content hash over records, order included: feed records, read `hexdigest`."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, record: Record) -> None:
        """Feed one record. Lengths stand before contents, so that no two corpora run together."""
        labels = ";".join(f"{s.start},{s.end},{s.kind},{s.identifier}" for s in record.spans)
        for part in (record.id, record.owner, record.text, labels):
            encoded = part.encode("utf8", errors="surrogatepass")
            self._hash.update(len(encoded).to_bytes(8, "big"))
            self._hash.update(encoded)

    def hexdigest(self) -> str:
        """The fingerprint of what was fed so far."""
        return self._hash.hexdigest()


class Corpus(Sequence[Record]):
    """An immutable sequence of records with distinct ids, in memory.

    >>> corpus = reticent.Corpus([reticent.Record("1", "Good morning."), reticent.Record("2", "How can I help?")])
    >>> len(corpus), len(corpus.owners)
    (2, 2)
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = tuple(records)
        if len({record.id for record in self._records}) != len(self._records):
            raise ValueError("a corpus needs distinct record ids")

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Corpus": ...
    def __getitem__(self, index: int | slice) -> "Record | Corpus":
        if isinstance(index, slice):
            return Corpus(self._records[index])
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corpus) and self._records == other._records

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Corpus({len(self)} records, {self.fingerprint[:8]})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of ids, owners, texts and spans, in order."""
        running = Fingerprint()
        for record in self._records:
            running.add(record)
        return running.hexdigest()

    @property
    def texts(self) -> list[str]:
        """The texts, in order."""
        return [record.text for record in self._records]

    @cached_property
    def owners(self) -> tuple[str, ...]:
        """Distinct owners, in order of first appearance."""
        return tuple(dict.fromkeys(record.owner for record in self._records))

    @cached_property
    def records_of_owners(self) -> tuple[int, ...]:
        """How many records each owner has, fewest first."""
        return tuple(sorted(Counter(record.owner for record in self._records).values()))

    @property
    def most_records(self) -> int:
        """The largest number of records that one owner has."""
        return max(self.records_of_owners, default=0)


@runtime_checkable
class Policy(Protocol):
    """Finds sensitive spans in texts.

    `is_local` states that masking one span never changes what is found in the rest of the text. Patterns are
    local; contextual taggers are not, and a confidentiality guarantee that rests on one must say so.
    """

    @property
    def name(self) -> str:
        """Short name for tables."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether masking one span leaves the other findings as they are."""
        ...

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        ...
