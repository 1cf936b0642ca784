"""Sensitive spans replaced by masks, with offsets kept: "call 555-0100" becomes "call <MASK>" or "call <PHONE>".

Overlapping spans are merged and adjacent equal masks (only spaces or tabs between) become one, so that the number
of words of a name does not show. Masks that are already in the text count as masks: they collapse with their
neighbours and nothing inside them is replaced, which makes redaction idempotent for every local policy and makes a
text with a secret and the same text with a mask in its place come out equal: the neighbours of a
confidentiality guarantee. Fake values in place of masks, and scrubbing of whole corpora, are in `scrubbing`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, pairwise
from operator import attrgetter

from reticent.core.choice import member_of
from reticent.core.corpus import Policy, Record, Span
from reticent.data.kinds import VAGUE

MASK = "<MASK>"
_UNIFORM = re.compile(re.escape(MASK))
_BATCH = 256
_START = attrgetter("start")
_ORDER = attrgetter("start", "end", "kind", "identifier")  # as spans compare, without a call for each comparison


class MaskStyle(StrEnum):
    """What stands in the place of a span: always the same mask, or one that names the kind.

    A guarantee needs the uniform one: the kind is a part of the secret.
    """

    UNIFORM = "uniform"
    KIND = "kind"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Characters [start, end) of the original that are [new_start, new_end) of the redacted text."""

    start: int
    end: int
    new_start: int
    new_end: int
    kind: str


@dataclass(frozen=True, slots=True, repr=False)
class Redaction:
    """A redacted text and where each mask came from."""

    text: str
    replacements: tuple[Replacement, ...]

    def __repr__(self) -> str:
        return f"Redaction({len(self.replacements)} masks)"

    def to_redacted(self, start: int, end: int) -> tuple[int, int]:
        """Where [start, end) of the original went; an edge inside a mask moves to the mask's edge."""
        moves = [(r.start, r.end, r.new_start, r.new_end) for r in self.replacements]
        return _move(start, moves, is_end=False), _move(end, moves, is_end=True)

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """Where [start, end) of the redacted text came from; an edge inside a mask moves to its span's edge."""
        moves = [(r.new_start, r.new_end, r.start, r.end) for r in self.replacements]
        return _move(start, moves, is_end=False), _move(end, moves, is_end=True)


def _move(position: int, moves: list[tuple[int, int, int, int]], *, is_end: bool) -> int:
    """Where a position goes when each [start, end) of `moves` becomes [new start, new end)."""
    shift = 0
    for start, end, new_start, new_end in moves:
        if position < start or (is_end and position == start):
            break
        if position < end or (is_end and position == end):
            return new_end if is_end else new_start
        shift = new_end - end
    return position + shift


def mask_for(kind: str) -> str:
    """The mask that names a kind: <PHONE> for "phone"."""
    return f"<{re.sub('[^A-Z0-9]+', '_', kind.upper()).strip('_') or 'MASK'}>"


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sorted spans without overlaps: those that share a character become one, of the kind of the longest.

    A kind that says what a span is goes before one that only says that it stands out (`kinds.VAGUE`).
    """
    found = sorted(spans, key=_START)
    if all(before.end <= after.start for before, after in pairwise(found)):
        return tuple(found)
    found.sort(key=_ORDER)
    merged: list[Span] = []
    longest = (False, 0)
    for span in found:
        length = (span.kind not in VAGUE, span.end - span.start)
        if not merged or span.start >= merged[-1].end:
            merged.append(span)
            longest = length
            continue
        last = merged[-1]
        leader = span if length > longest else last
        longest = max(longest, length)
        merged[-1] = Span(last.start, max(last.end, span.end), leader.kind, leader.identifier)
    return tuple(merged)


def redact(
    text: str, spans: Iterable[Span], *, style: MaskStyle = MaskStyle.UNIFORM, known: Sequence[str] | None = None
) -> Redaction:
    """`text` with every span replaced; `known` are the kinds of the uniform masks that it holds already, in order.

    Every mask of the new text is a replacement, whose kind is that of the leftmost of what became it.

    Guarantee: no character of any span is left, save characters of masks that were already there; in the
    uniform style replacing a whole span by MASK beforehand gives the same text, and where the kind of the span is
    known of that mask the same kinds.
    """
    found = list(spans)
    if found and max(span.end for span in found) > len(text):
        raise ValueError("a span ends after the text")
    name: Callable[[str], str] = mask_for if style is MaskStyle.KIND else lambda _: MASK
    # Masks in the text are spans themselves; whatever touches one becomes a part of it.
    present: list[Span] = []
    if "<" in text:
        masks = _UNIFORM if style is MaskStyle.UNIFORM else _any_of({MASK, *(name(span.kind) for span in found)})
        present = [Span(match.start(), match.end(), match.group()[1:-1]) for match in masks.finditer(text)]
    outside = [span for span in found if not any(mask.covers(span) for mask in present)]
    if known is not None:
        present = [replace(mask, kind=kind) for mask, kind in zip(present, known, strict=True)]
    if not outside and not present:
        return Redaction(text, ())
    runs = _collapse(text, [(s.start, s.end, name(s.kind), s.kind) for s in merge_spans([*outside, *present])])
    pieces: list[str] = []
    replacements = []
    position = length = 0
    for start, end, mask, kind in runs:
        length += start - position
        pieces += (text[position:start], mask)
        replacements.append(Replacement(start, end, length, length + len(mask), kind))
        length += len(mask)
        position = end
    pieces.append(text[position:])
    return Redaction("".join(pieces), tuple(replacements))


def _any_of(masks: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(masks))))


_Run = tuple[int, int, str, str]  # start, end, mask, kind


def _collapse(text: str, runs: list[_Run]) -> list[_Run]:
    """Runs with equal masks and at most spaces or tabs between them become one."""
    collapsed: list[_Run] = []
    for run in runs:
        if collapsed and collapsed[-1][2] == run[2] and not text[collapsed[-1][1] : run[0]].strip(" \t"):
            run = (collapsed[-1][0], run[1], run[2], collapsed.pop()[3])
        collapsed.append(run)
    return collapsed


def redact_record(record: Record, spans: Iterable[Span], *, style: MaskStyle = MaskStyle.UNIFORM) -> Record:
    """The record redacted. Its own labels move along; those that are wholly under masks go.

    What is left in `spans` is what was missed, or missed in part.
    """
    return move_labels(record, redact(record.text, spans, style=style))


def move_labels(record: Record, redaction: Redaction) -> Record:
    """The record with its redacted text, and those of its labels that are not wholly replaced."""
    left = []
    for span in record.spans:
        if not any(r.start <= span.start and span.end <= r.end for r in redaction.replacements):
            start, end = redaction.to_redacted(span.start, span.end)
            left.append(Span(start, end, span.kind, span.identifier))
    return Record(record.id, redaction.text, owner=record.owner, spans=tuple(left))


def redact_records(
    records: Iterable[Record], policy: Policy, *, style: MaskStyle = MaskStyle.UNIFORM
) -> Iterator[Record]:
    """Every record redacted by what `policy` finds, streamed in batches.

    Guarantee: each output depends on its own record alone, for a policy that treats texts one by one.
    """
    style = member_of(MaskStyle, style, name="style")
    for record, found in find_in(records, policy):
        yield redact_record(record, found, style=style)


def find_in(records: Iterable[Record], policy: Policy) -> Iterator[tuple[Record, tuple[Span, ...]]]:
    """Each record with what `policy` finds in its text; texts are given to it in batches."""
    for record, (found,) in find_by_all(records, [policy]):
        yield record, found


def find_by_all(
    records: Iterable[Record], policies: Sequence[Policy]
) -> Iterator[tuple[Record, tuple[tuple[Span, ...], ...]]]:
    """Each record with what each policy finds in it, in one pass over the records."""
    remaining = iter(records)
    while batch := list(islice(remaining, _BATCH)):
        texts = [record.text for record in batch]
        yield from zip(batch, zip(*(policy.find(texts) for policy in policies), strict=True), strict=True)
