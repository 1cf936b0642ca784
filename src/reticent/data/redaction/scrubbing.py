"""A corpus without what a policy finds: spans become `<MASK>`, their type, or consistent fakes; offsets lead back.

What is found in one place of a record is replaced wherever it stands in it. Masks and types are idempotent for
every policy, contextual ones too: such a policy is asked again about the scrubbed text until it finds nothing
outside masks (each round masks more, so it ends), and a text in which it finds nothing is left as it is. Fakes
look real; the memory of their key (`scrub_key`) tells them from real values. One value is one fake throughout a
corpus, and in another with the same key.

What was missed stays in clear: no scrubber knows what it missed. Measure the policy on labelled text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from reticent.core.corpus import Policy, Record, Span
from reticent.data.redaction.fakes import Fakes
from reticent.data.redaction.masking import (
    MASK,
    MaskStyle,
    Redaction,
    Replacement,
    mask_for,
    merge_spans,
    move_labels,
    redact,
)

SCHEMA_VERSION = 1
_BATCH = 256
_SHORTEST = 4  # characters of a value that is looked for in the rest of its record


class Replace(StrEnum):
    """What stands in the place of a span."""

    MASK = "mask"
    TYPE = "type"
    FAKE = "fake"


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """A scrubbed record, and where each replacement came from."""

    record: Record
    redaction: Redaction

    def offsets_to_json(self) -> dict[str, Any]:
        """The map from scrubbed to original offsets: numbers and types, no characters."""
        moves = [[r.new_start, r.new_end, r.start, r.end, r.kind] for r in self.redaction.replacements]
        return {"id": self.record.id, "replacements": moves}


@dataclass(slots=True)
class ScrubTally:
    """What was replaced, by type; never a value."""

    records: int = 0
    changed: int = 0
    characters: int = 0
    hidden: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)

    def add(self, texts: Iterable[tuple[str, Redaction]]) -> None:
        """Count one record by its texts."""
        before = self.hidden
        self.records += 1
        for text, redaction in texts:
            self.characters += len(text)
            for r in redaction.replacements:
                if text[r.start : r.end] != redaction.text[r.new_start : r.new_end]:
                    self.hidden += r.end - r.start
                    self.by_kind[r.kind] += 1
        self.changed += self.hidden > before

    def to_json(self) -> dict[str, Any]:
        """For a document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "records": self.records,
            "changed_records": self.changed,
            "characters": self.characters,
            "replaced_characters": self.hidden,
            "replaced": dict(sorted(self.by_kind.items())),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Group:
    """Texts of one record. `kinds` names those that are a value of that kind as a whole, by their number; `known`
    are values, with their kinds, that are to be looked for in all texts."""

    texts: Sequence[str]
    kinds: Mapping[int, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)


class Scrubber:
    """Scrubs records by what `policy` finds; `tally` counts what was replaced so far."""

    def __init__(self, policy: Policy, *, replace: Replace = Replace.MASK, fakes: Fakes | None = None) -> None:
        if (replace is Replace.FAKE) != (fakes is not None):
            raise ValueError("fakes are needed to replace by fakes, and only then")
        self._policy = policy
        self.replace = replace
        self._fakes = fakes
        self._masks: set[str] | None = None
        self.tally = ScrubTally()

    def __repr__(self) -> str:
        return f"Scrubber({self._policy.name}, {self.replace})"

    def scrub(self, records: Iterable[Record]) -> Iterator[Scrubbed]:
        """Every record scrubbed, streamed in batches; its labels move along, those that were replaced go.

        Guarantee: no character of a span that the policy finds is left, save where a fake has the same one.
        """
        remaining = iter(records)
        while batch := list(islice(remaining, _BATCH)):
            redactions = self.redactions([Group([record.text]) for record in batch])
            for record, (redaction,) in zip(batch, redactions, strict=True):
                scrubbed = Scrubbed(move_labels(record, redaction), redaction)
                self.tally.add([(record.text, redaction)])
                yield scrubbed

    def redactions(self, groups: "Sequence[Group]") -> list[list[Redaction]]:
        """What becomes of each text of each group; a value found in one text of a group is replaced in all."""
        places = [(g, n) for g, group in enumerate(groups) for n in range(len(group.texts))]
        distinct = list(dict.fromkeys(groups[g].texts[n] for g, n in places))
        spans = dict(zip(distinct, self._policy.find(distinct), strict=True))
        found: dict[tuple[int, int], tuple[Span, ...]] = {}
        for g, n in places:
            text = groups[g].texts[n]
            kind = groups[g].kinds.get(n)
            whole = (Span(0, len(text), kind),) if kind and text else ()
            found[g, n] = (*self._outside_masks(text, spans[text]), *self._outside_masks(text, whole))
        done: dict[tuple[int, int], Redaction] = {}
        open_ = set(places)
        while open_:
            open_ |= self._spread(groups, found, {g for g, _ in open_})
            done |= {place: self._replaced(groups[place[0]].texts[place[1]], found[place]) for place in open_}
            open_ = self._reconsidered(found, done, sorted(place for place in open_ if found[place]))
        return [[done[g, n] for n in range(len(group.texts))] for g, group in enumerate(groups)]

    def _spread(
        self, groups: "Sequence[Group]", found: dict[tuple[int, int], tuple[Span, ...]], at: set[int]
    ) -> set[tuple[int, int]]:
        """Look for the values that were found in a group in all of its texts; the places where there are more."""
        changed = set()
        for g in at:
            texts = groups[g].texts
            values = dict(groups[g].known)
            for n, text in enumerate(texts):
                values |= {text[s.start : s.end]: s.kind for s in found[g, n] if s.end - s.start >= _SHORTEST}
            if not values:
                continue
            for n, text in enumerate(texts):
                more = self._outside_masks(text, list(mentions(text, values)))
                cover = merge_spans(found[g, n])
                if new := [span for span in more if not any(other.covers(span) for other in cover)]:
                    found[g, n] = (*found[g, n], *new)
                    changed.add((g, n))
        return changed

    def _replaced(self, text: str, spans: Sequence[Span]) -> Redaction:
        if self._fakes is not None:
            return substitute(text, spans, self._fakes)
        return redact(text, spans, style=MaskStyle.KIND if self.replace is Replace.TYPE else MaskStyle.UNIFORM)

    def _reconsidered(
        self,
        found: dict[tuple[int, int], tuple[Span, ...]],
        done: dict[tuple[int, int], Redaction],
        places: list[tuple[int, int]],
    ) -> set[tuple[int, int]]:
        """Ask again about masked texts; the places where the policy finds more, which is added to `found`.

        A mask of a kind may be a word to a policy that does not know it, and contextual taggers reconsider.
        """
        if self._fakes is not None or (self._policy.is_local and self.replace is Replace.MASK) or not places:
            return set()
        more = set()
        for place, spans in zip(places, self._policy.find([done[place].text for place in places]), strict=True):
            outside = self._outside_masks(done[place].text, spans)
            if new := [span for span in outside if not _is_replaced(span, done[place])]:
                found[place] = merge_spans([*found[place], *(_moved_back(span, done[place]) for span in new)])
                more.add(place)
        return more

    def _outside_masks(self, text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
        """Spans that are not inside a mask which this policy's kinds make: a mask is not a secret."""
        if "<" not in text:
            return tuple(spans)
        if self._masks is None:
            self._masks = {MASK, *(mask_for(kind) for kind in getattr(self._policy, "kinds", ()))}
        names = self._masks | {mask_for(span.kind) for span in spans}
        return tuple(span for span in spans if not _is_mask(text, span, names))


def substitute(text: str, spans: Iterable[Span], fakes: Fakes) -> Redaction:
    """`text` with every span replaced by its fake."""
    pieces: list[str] = []
    replacements = []
    position = length = 0
    for span in merge_spans(spans):
        fake = fakes.fake(text[span.start : span.end], span.kind)
        length += span.start - position
        pieces += (text[position : span.start], fake)
        replacements.append(Replacement(span.start, span.end, length, length + len(fake), span.kind))
        length += len(fake)
        position = span.end
    pieces.append(text[position:])
    return Redaction("".join(pieces), tuple(replacements))


def mentions(text: str, values: Mapping[str, str]) -> Iterator[Span]:
    """Where `values`, each given with its kind, stand in `text` as whole words."""
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            if _is_edge(text, start) and _is_edge(text, end):
                yield Span(start, end, kind)
            start = text.find(value, start + 1)


def _is_edge(text: str, place: int) -> bool:
    """Whether no word goes on across a place."""
    return not (text[max(0, place - 1) : place].isalnum() and text[place : place + 1].isalnum())


def _is_mask(text: str, span: Span, names: set[str]) -> bool:
    start = text.rfind("<", 0, span.start + 1)
    end = text.find(">", max(span.end - 1, 0))
    return start >= 0 and end >= 0 and text[start : end + 1] in names


def _is_replaced(span: Span, redaction: Redaction) -> bool:
    return any(r.new_start <= span.start and span.end <= r.new_end for r in redaction.replacements)


def _moved_back(span: Span, redaction: Redaction) -> Span:
    start, end = redaction.to_original(span.start, span.end)
    return Span(start, end, span.kind, span.identifier)
