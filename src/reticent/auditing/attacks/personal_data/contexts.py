"""Masked sentences: a value's place in its text, what stands before it and after, and what became of the others.

Whoever attacks one value must be told what they know of the other values of the sentence. It is chosen, never
implied (`OtherValues`):

    known    they stand there: the strongest adversary, who lacks this one value alone
    masked   a mask stands in their places, as in a scrubbed text that was published

A target is one value in one of its places. Targets of distinct values are independent enough for an interval;
several of one value are not, so each value gives at most one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reticent.auditing.attacks.personal_data.inventory import Mention, PiiInventory
from reticent.core.choice import member_of
from reticent.core.corpus import Span
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret

MASK: Final = "<MASK>"  # as redaction writes it


class OtherValues(StrEnum):
    """What the adversary knows of the other values around the target."""

    KNOWN = "known"
    MASKED = "masked"


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """Most characters before and after a value that the adversary sees; the text after it ends with its line."""

    before: int = 400
    after: int = 60

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise ValueError("a window has at least 0 characters on either side")


@dataclass(frozen=True, slots=True, repr=False)
class MaskedSpan:
    """A value, and the text around its place without it. `repr` shows the record's id and the kind alone."""

    record: str
    owner: str
    secret: Secret
    prefix: str
    suffix: str
    duplication: int = 1

    def __repr__(self) -> str:
        return f"MaskedSpan({self.record}, {self.secret.kind})"

    def text(self, candidate: str | None = None) -> str:
        """The text with a candidate in the place, or with the value itself."""
        return f"{self.prefix}{self.secret.reveal() if candidate is None else candidate}{self.suffix}"


def masked_spans(
    inventory: PiiInventory,
    *,
    others: OtherValues,
    count: int,
    randomness: Randomness,
    kinds: Sequence[str] | None = None,
    window: ContextWindow | None = None,
) -> tuple[MaskedSpan, ...]:
    """At most `count` targets, each of another value, of the asked kinds, every choice equally likely."""
    others = member_of(OtherValues, others, name="others")
    wanted = [value for value in inventory if kinds is None or value.kind in kinds]
    chosen = [wanted[place] for place in sorted(randomness.permutation(len(wanted))[:count].tolist())]
    targets = []
    for value in chosen:
        places = inventory.mentions[value]
        mention = places[int(randomness.integers(len(places), 1)[0])]
        targets.append(_target(inventory, value, mention, others=others, window=window or ContextWindow()))
    return tuple(targets)


def all_contexts(
    inventory: PiiInventory, value: Secret, *, window: ContextWindow | None = None, most: int | None = None
) -> tuple[MaskedSpan, ...]:
    """Every place of one value with the others known, at most the first `most`."""
    return tuple(
        _target(inventory, value, mention, others=OtherValues.KNOWN, window=window or ContextWindow())
        for mention in inventory.mentions[value][:most]
    )


def _target(
    inventory: PiiInventory, value: Secret, mention: Mention, *, others: OtherValues, window: ContextWindow
) -> MaskedSpan:
    """One place of a value as a target."""
    record, spans = inventory.records[mention.place], inventory.spans[mention.place]
    text, start, end = record.text, mention.start, mention.end
    first = _word_start(text, max(0, start - window.before), start)
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    last = _word_end(text, min(line_end, end + window.after), end)
    hidden = () if others is OtherValues.KNOWN else tuple(s for s in spans if not (s.start < end and start < s.end))
    return MaskedSpan(
        record.id,
        record.owner,
        value,
        _without(text, hidden, first, start),
        _without(text, hidden, end, last),
        max(1, inventory.duplication(value)),
    )


def _without(text: str, hidden: Sequence[Span], first: int, last: int) -> str:
    """Characters [first, last) with a mask for every hidden span that has a character there."""
    pieces, position = list[str](), first
    for span in hidden:
        if span.start < last and first < span.end:
            pieces += (text[position : max(position, span.start)], MASK)
            position = max(position, span.end)
    return "".join([*pieces, text[position:last]]) if position < last else "".join(pieces)


def _word_start(text: str, position: int, limit: int) -> int:
    """The first start of a word at or after `position`, `limit` at most: no context begins within a word."""
    while 0 < position < limit and not text[position - 1].isspace():
        position += 1
    return position


def _word_end(text: str, position: int, limit: int) -> int:
    """The last end of a word at or before `position`, `limit` at least."""
    while limit < position < len(text) and not text[position].isspace():
        position -= 1
    return position
