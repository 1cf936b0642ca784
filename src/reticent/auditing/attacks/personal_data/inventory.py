"""The personal data of a corpus, each value once: what extraction is measured against and decoys are drawn from.

A value is its kind and its characters, white space collapsed; recall divides by **distinct** values, so that a
name in a hundred records counts once. Duplication is the number of records that hold a value, not its mentions.

    m   share of the values that the tagger misses (its measured miss rate's upper limit; 0 for labels)

A tagger that misses makes every share over the training data's values uncertain: of the true values a share m was
never looked for. If none of those leaks the true share is (1 − m)·x, if all do it is (1 − m)·x + m (`widened`).
Values are kept as `Secret`s: nothing here prints one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from reticent.core.corpus import Policy, Record, Span
from reticent.core.secret import Secret
from reticent.data.redaction.masking import find_in


@dataclass(frozen=True, slots=True)
class Mention:
    """Where a value stands: the record's place in the corpus, and its characters."""

    place: int
    start: int
    end: int


def value_of(text: str, kind: str) -> Secret:
    """The value as it is compared: its kind and its characters with white space collapsed."""
    return Secret(" ".join(text.split()), kind)


class PiiInventory:
    """Distinct values with their mentions, in order of first appearance."""

    def __init__(
        self, records: Sequence[Record], spans: Sequence[Sequence[Span]], *, miss_rate: float = 0.0
    ) -> None:
        """`miss_rate` is the upper limit of what the tagger that gave the spans was measured to miss."""
        if not 0.0 <= miss_rate <= 1.0:
            raise ValueError(f"the miss rate must be in [0, 1], found {miss_rate}")
        self.records = tuple(records)
        self.spans = tuple(tuple(each) for each in spans)
        self.miss_rate = miss_rate
        mentions: dict[Secret, list[Mention]] = {}
        for place, (record, each) in enumerate(zip(self.records, self.spans, strict=True)):
            for span in each:
                value = value_of(record.text[span.start : span.end], span.kind)
                if value.value:
                    mentions.setdefault(value, []).append(Mention(place, span.start, span.end))
        self.mentions = {value: tuple(places) for value, places in mentions.items()}

    def __repr__(self) -> str:
        return f"PiiInventory({len(self.mentions)} values in {len(self.records)} records)"

    def __len__(self) -> int:
        return len(self.mentions)

    def __contains__(self, value: object) -> bool:
        return value in self.mentions

    def __iter__(self) -> Iterator[Secret]:
        return iter(self.mentions)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that occur, sorted."""
        return tuple(sorted({value.kind for value in self.mentions}))

    def of_kind(self, kind: str) -> tuple[Secret, ...]:
        """The values of one kind."""
        return tuple(value for value in self.mentions if value.kind == kind)

    def duplication(self, value: Secret) -> int:
        """Number of records that hold the value; 0 for one that none holds."""
        return len({mention.place for mention in self.mentions.get(value, ())})

    def owners_of(self, values: Iterable[Secret]) -> list[str]:
        """The owner of the first record that holds each value; of one that none holds, a name of its own."""
        named = []
        for place, value in enumerate(values):
            mentions = self.mentions.get(value)
            named.append(f"\0{place}" if mentions is None else self.records[mentions[0].place].owner)
        return named

    def owners(self, value: Secret) -> int:
        """Number of owners whose records hold the value."""
        return len({self.records[mention.place].owner for mention in self.mentions.get(value, ())})


def take_inventory(
    records: Iterable[Record], tagger: Policy | None = None, *, miss_rate: float = 0.0
) -> PiiInventory:
    """The values that the tagger finds in the records, or, without one, those that the records' labels name."""
    if tagger is None:
        pairs = [(one, tuple(sorted(s for s in one.spans if s.identifier != "none"))) for one in records]
    else:
        pairs = list(find_in(records, tagger))
    return PiiInventory([record for record, _ in pairs], [spans for _, spans in pairs], miss_rate=miss_rate)


@dataclass(frozen=True, slots=True)
class Tagged:
    """The tagger, what it finds on either side, and what is known of its recall."""

    tagger: Policy
    training: PiiInventory
    held_out: PiiInventory
    note: str


def widened(low: float, high: float, miss_rate: float) -> tuple[float, float]:
    """An interval of a share of found values as one of a share of all, of which `miss_rate` was never looked for.

    Guarantee: contains the share of all values if the given interval contains the share of the found ones and at
    most `miss_rate` of all values were missed.
    """
    found = 1.0 - miss_rate
    return low * found, high * found + miss_rate
