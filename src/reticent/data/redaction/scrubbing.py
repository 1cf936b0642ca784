"""A corpus without what a policy finds: spans become `<MASK>`, their type, or consistent fakes; offsets lead back.

Masks and types are idempotent for every policy, contextual ones too: such a policy is asked again about the
scrubbed text until it finds nothing outside masks (each round masks more, so it ends), and a text in which it finds
nothing is left as it is. Fakes are not: scrubbing again finds the fakes and replaces them by others. What holds for
them is consistency: one value is one fake throughout a corpus, and in another with the same key.

What was missed stays in clear: no scrubber knows what it missed. Measure the policy on labelled text.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

    def add(self, scrubbed: Scrubbed, original: Record) -> None:
        """Count one record."""
        self.records += 1
        self.changed += scrubbed.record.text != original.text
        self.characters += len(original.text)
        for r in scrubbed.redaction.replacements:
            if original.text[r.start : r.end] != scrubbed.record.text[r.new_start : r.new_end]:
                self.hidden += r.end - r.start
                self.by_kind[r.kind] += 1

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


class Scrubber:
    """Scrubs records by what `policy` finds; `tally` counts what was replaced so far."""

    def __init__(self, policy: Policy, *, replace: Replace = Replace.MASK, fakes: Fakes | None = None) -> None:
        if (replace is Replace.FAKE) != (fakes is not None):
            raise ValueError("fakes are needed to replace by fakes, and only then")
        self._policy = policy
        self._replace = replace
        self._fakes = fakes
        self._masks: set[str] | None = None
        self.tally = ScrubTally()

    def __repr__(self) -> str:
        return f"Scrubber({self._policy.name}, {self._replace})"

    def scrub(self, records: Iterable[Record]) -> Iterator[Scrubbed]:
        """Every record scrubbed, streamed in batches; its labels move along, those that were replaced go.

        Guarantee: no character of a span that the policy finds is left, save where a fake has the same one.
        """
        remaining = iter(records)
        while batch := list(islice(remaining, _BATCH)):
            texts = [record.text for record in batch]
            redactions = self._faked(texts) if self._fakes else self._masked(texts)
            for record, redaction in zip(batch, redactions, strict=True):
                scrubbed = Scrubbed(move_labels(record, redaction), redaction)
                self.tally.add(scrubbed, record)
                yield scrubbed

    def _faked(self, texts: Sequence[str]) -> list[Redaction]:
        assert self._fakes is not None
        return [
            substitute(text, self._outside_masks(text, spans), self._fakes)
            for text, spans in zip(texts, self._policy.find(texts), strict=True)
        ]

    def _masked(self, texts: Sequence[str]) -> list[Redaction]:
        style = MaskStyle.KIND if self._replace is Replace.TYPE else MaskStyle.UNIFORM
        found = [
            self._outside_masks(text, spans) for text, spans in zip(texts, self._policy.find(texts), strict=True)
        ]
        done = [redact(text, spans, style=style) for text, spans in zip(texts, found, strict=True)]
        # A mask of a kind may be a word to a policy that does not know it, and contextual taggers reconsider.
        settled = self._policy.is_local and style is MaskStyle.UNIFORM
        open_ = [] if settled else [n for n, spans in enumerate(found) if spans]
        while open_:
            again = self._policy.find([done[n].text for n in open_])
            still = []
            for n, spans in zip(open_, again, strict=True):
                new = [span for span in self._outside_masks(done[n].text, spans) if not _is_replaced(span, done[n])]
                if new:
                    found[n] = merge_spans([*found[n], *(_moved_back(span, done[n]) for span in new)])
                    done[n] = redact(texts[n], found[n], style=style)
                    still.append(n)
            open_ = still
        return done

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


def _is_mask(text: str, span: Span, names: set[str]) -> bool:
    start = text.rfind("<", 0, span.start + 1)
    end = text.find(">", max(span.end - 1, 0))
    return start >= 0 and end >= 0 and text[start : end + 1] in names


def _is_replaced(span: Span, redaction: Redaction) -> bool:
    return any(r.new_start <= span.start and span.end <= r.new_end for r in redaction.replacements)


def _moved_back(span: Span, redaction: Redaction) -> Span:
    start, end = redaction.to_original(span.start, span.end)
    return Span(start, end, span.kind, span.identifier)
