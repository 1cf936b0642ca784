"""How well a policy finds what people or a generator labelled: recall, precision and miss rate with intervals.

A labelled span is found only if every character of it that is not white space lies in a found span: a partly
detected secret is missed, and counted apart. The title of a name ("Mr") need not be found. Kinds are compared by
their one name (`data.kinds`). Spans labelled "none" (annotators chose to leave them in clear) are not sensitive:
they do not count for recall, and a finding that touches nothing but them is wrong. A finding is right if it shares
a character with a sensitive span, whatever the kinds: masking is what protects.

The miss rate γ of a confidentiality guarantee is 1 − recall; over distinct secrets a secret is missed if any of
its mentions is. Intervals are Clopper and Pearson's (1934), exact for independent spans; spans of one text are not
quite independent. Nothing labelled, or nothing found, is a result: a rate without a value and the interval [0, 1].
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.core.corpus import Policy, Record, Span
from reticent.core.proportion import clopper_pearson
from reticent.data.kinds import TITLES, canonical
from reticent.data.redaction.masking import find_in, merge_spans


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `trials`, with a two-sided interval at `confidence`."""

    hits: int
    trials: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.trials or not 0.0 < self.confidence < 1.0:
            raise ValueError("a rate needs 0 <= hits <= trials and a confidence in (0, 1)")

    @property
    def value(self) -> float | None:
        """The share of hits; None where there was no trial, never 0."""
        return self.hits / self.trials if self.trials else None

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper–Pearson; [0, 1] where there was no trial.

        Guarantee: contains the true rate with at least `confidence`, for independent trials.
        """
        return clopper_pearson(self.hits, self.trials, confidence=self.confidence)

    @property
    def complement(self) -> "Rate":
        """Misses in place of hits."""
        return Rate(self.trials - self.hits, self.trials, self.confidence)

    def to_json(self) -> dict[str, Any]:
        """For a document; `value` is null where there was no trial."""
        low, high = self.interval
        return {"value": self.value, "low": low, "high": high, "hits": self.hits, "trials": self.trials}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a policy found of what was labelled.

    `recall_by_kind` has the labels' kinds, `precision_by_kind` the policy's; `recall_by_identifier` has "direct"
    and "quasi" where labels say so. `distinct_recall` counts each secret once: found if all its mentions are.
    `found_share` is the share of all characters that masking would hide, `character_precision` the share of those
    that are sensitive: long spans look precise by count and are not by length. No intervals: characters of one
    span are found together. `partial_recall` counts spans of which any character was found.
    """

    policy: str
    records: int
    recall: Rate
    precision: Rate
    distinct_recall: Rate
    recall_by_kind: dict[str, Rate]
    recall_by_identifier: dict[str, Rate]
    precision_by_kind: dict[str, Rate]
    partial_recall: Rate
    found_share: float | None = None
    character_precision: float | None = None

    @property
    def miss_rate(self) -> Rate:
        """γ: the share of labelled mentions that were missed, wholly or in part."""
        return self.recall.complement

    def to_json(self) -> dict[str, Any]:
        """For a document."""
        return {
            "policy": self.policy,
            "records": self.records,
            "confidence": self.recall.confidence,
            "recall": self.recall.to_json(),
            "miss_rate": self.miss_rate.to_json(),
            "precision": self.precision.to_json(),
            "distinct_recall": self.distinct_recall.to_json(),
            "partial_recall": self.partial_recall.to_json(),
            "recall_by_kind": {kind: rate.to_json() for kind, rate in self.recall_by_kind.items()},
            "recall_by_identifier": {name: rate.to_json() for name, rate in self.recall_by_identifier.items()},
            "precision_by_kind": {kind: rate.to_json() for kind, rate in self.precision_by_kind.items()},
            "found_share": self.found_share,
            "character_precision": self.character_precision,
        }


class _Count:
    """Hits and trials, counted."""

    def __init__(self) -> None:
        self.hits = self.trials = 0

    def add(self, hit: bool) -> None:
        self.hits += hit
        self.trials += 1


class MeasurementTally:
    """Compares findings with labels record by record; `result` at the end."""

    def __init__(self, policy: str, *, confidence: float = 0.95) -> None:
        self._policy = policy
        self._confidence = confidence
        self._records = 0
        self._characters = self._found = self._right = 0
        self._recall: dict[tuple[str, str], _Count] = {}  # kind, identifier
        self._precision: dict[str, _Count] = {}
        self._partly = _Count()
        self._secrets: dict[bytes, bool] = {}  # digest of kind and characters -> found wherever mentioned

    def add(self, record: Record, found: Sequence[Span]) -> None:
        """Count one record's labels and findings."""
        self._records += 1
        gold = [span for span in record.spans if span.identifier != "none"]
        cover = merge_spans(found)
        self._characters += len(record.text)
        self._found += sum(span.end - span.start for span in cover)
        self._right += _shared(cover, merge_spans(gold))
        for span in gold:
            hit = is_covered(without_title(span, record.text), cover, record.text)
            self._recall.setdefault((canonical(span.kind), span.identifier), _Count()).add(hit)
            self._partly.add(hit or any(span.overlaps(other) for other in cover))
            secret = f"{span.kind}\0{record.text[span.start : span.end]}".encode("utf8", errors="surrogatepass")
            digest = hashlib.blake2b(secret, digest_size=16).digest()
            self._secrets[digest] = self._secrets.get(digest, True) and hit
        for span in found:
            right = any(span.overlaps(label) for label in gold)
            self._precision.setdefault(canonical(span.kind), _Count()).add(right)

    def result(self) -> Measurement:
        """The rates over all that was added."""
        kinds = sorted({kind for kind, _ in self._recall})
        identifiers = sorted({identifier for _, identifier in self._recall if identifier})
        return Measurement(
            policy=self._policy,
            records=self._records,
            recall=self._rate(self._recall.values()),
            precision=self._rate(self._precision.values()),
            partial_recall=self._rate([self._partly]),
            distinct_recall=Rate(sum(self._secrets.values()), len(self._secrets), self._confidence),
            recall_by_kind={k: self._rate(c for (kind, _), c in self._recall.items() if kind == k) for k in kinds},
            recall_by_identifier={
                name: self._rate(c for (_, identifier), c in self._recall.items() if identifier == name)
                for name in identifiers
            },
            precision_by_kind={kind: self._rate([count]) for kind, count in sorted(self._precision.items())},
            found_share=self._found / self._characters if self._characters else None,
            character_precision=self._right / self._found if self._found else None,
        )

    def _rate(self, counts: Iterable[_Count]) -> Rate:
        counted = list(counts)
        hits = sum(count.hits for count in counted)
        return Rate(hits, sum(count.trials for count in counted), self._confidence)


def _shared(one: Sequence[Span], other: Sequence[Span]) -> int:
    """Characters in both of two sorted, disjoint covers."""
    shared = first = 0
    for span in one:
        while first < len(other) and other[first].end <= span.start:
            first += 1
        for overlapping in other[first:]:
            if overlapping.start >= span.end:
                break
            shared += min(span.end, overlapping.end) - max(span.start, overlapping.start)
    return shared


def is_covered(span: Span, cover: Sequence[Span], text: str) -> bool:
    """Whether every character of `span` that is not white space lies in a span of `cover` (sorted, disjoint)."""
    position = span.start
    for other in cover:
        if other.end <= position:
            continue
        if text[position : max(position, other.start)].strip() or other.start >= span.end:
            break
        position = min(other.end, span.end)
    return not text[position : span.end].strip()


_TITLE = re.compile(rf"(?:(?:{'|'.join(sorted(TITLES, key=len, reverse=True))})\b\.?\s+)+", re.IGNORECASE)


def without_title(span: Span, text: str) -> Span:
    """A labelled name without the titles before it; any other span, and a title alone, as it is."""
    if canonical(span.kind) != "PERSON" or not (title := _TITLE.match(text, span.start, span.end)):
        return span
    return span if title.end() >= span.end else Span(title.end(), span.end, span.kind, span.identifier)


def f_score(measured: Measurement, *, weight: float = 2.0) -> float:
    """F-measure of recall and character precision, in which recall counts `weight` times as much; 0 where nothing
    was found or labelled.

    F2 is what unions are chosen by: a secret left in clear costs more than a word masked for nothing.
    """
    recall, precision = measured.recall.value or 0.0, measured.character_precision or 0.0
    if recall == 0.0 or precision == 0.0:
        return 0.0
    return (1.0 + weight**2) * precision * recall / (weight**2 * precision + recall)


def measure(records: Iterable[Record], policy: Policy, *, confidence: float = 0.95) -> Measurement:
    """Recall, precision and miss rate of `policy` on records whose `spans` are complete labels."""
    tally = MeasurementTally(policy.name, confidence=confidence)
    for record, found in find_in(records, policy):
        tally.add(record, found)
    return tally.result()
