"""How well a policy finds what people or a generator labelled: recall, precision and miss rate with intervals.

A labelled span is found only if every character of it that is not white space lies in a found span: a partly
detected secret is missed, and counted apart. The title of a name ("Mr") need not be found. Kinds are compared by
their one name (`data.kinds`). Spans labelled "none" (annotators chose to leave them in clear) are not sensitive:
they do not count for recall, and a finding that touches nothing but them is wrong. A finding is right if it shares
a character with a sensitive span, whatever the kinds: masking is what protects.

The miss rate γ of a confidentiality guarantee is 1 − recall; over distinct secrets a secret is missed if any of its
mentions is. Spans of one owner are not independent: a policy that misses a name misses it in every text of its
owner. So intervals count owners (`core.statistics.proportion`), as if all spans of an owner had one outcome; a
record without an owner is its own, and a secret counts with the owner who mentions it first. Owners of one span
each give Clopper and Pearson's limits (1934). Nothing labelled, or nothing found, is a result: no value and the
interval [0, 1].
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reticent.core.corpus import Policy, Record, Span
from reticent.core.document import JsonObject, fields_to_json
from reticent.core.statistics.proportion import Share, clopper_pearson
from reticent.data.kinds import TITLES, canonical
from reticent.data.redaction.masking import find_in, merge_spans


@dataclass(frozen=True, slots=True)
class Rate:
    """`hits` of `trials`, with a two-sided interval at `confidence`.

    `by_owner` has the hits and trials of every owner; where it is empty every trial is its own.
    """

    hits: int
    trials: int
    confidence: float = 0.95
    by_owner: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.trials or not 0.0 < self.confidence < 1.0:
            raise ValueError("a rate needs 0 <= hits <= trials and a confidence in (0, 1)")
        counts = [sum(column) for column in zip(*self.by_owner.values(), strict=True)]
        if self.by_owner and counts != [self.hits, self.trials]:
            raise ValueError("the owners' counts do not add up to the rate's")

    @classmethod
    def pooled(cls, rates: "Iterable[Rate]", *, confidence: float = 0.95) -> "Rate":
        """All trials of several rates as one."""
        listed = list(rates)
        together: dict[str, tuple[int, int]] = {}
        for rate in listed:
            for owner, (hits, trials) in rate.by_owner.items():
                before = together.get(owner, (0, 0))
                together[owner] = before[0] + hits, before[1] + trials
        hits, trials = sum(rate.hits for rate in listed), sum(rate.trials for rate in listed)
        return cls(hits, trials, confidence, together)

    @property
    def value(self) -> float | None:
        """The share of hits; None where there was no trial, never 0."""
        return self.hits / self.trials if self.trials else None

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper–Pearson, of as many trials as the owners' are worth; [0, 1] where there was no trial.

        Guarantee: contains the true rate with at least `confidence`, for independent trials; for independent
        owners approximately, missed no more often than stated in the simulations of the tests.
        """
        if not self.by_owner:
            return clopper_pearson(self.hits, self.trials, confidence=self.confidence)
        tail = (1.0 - self.confidence) / 2.0
        # Both limits by the number of trials that needs no estimate: misses are rare, and their spread unknown.
        return 1.0 - self.complement.share.upper(tail=tail), self.share.upper(tail=tail)

    @property
    def share(self) -> Share:
        """Hits and trials of every owner."""
        if not self.by_owner:
            return Share.of([True] * self.hits + [False] * (self.trials - self.hits))
        hits, trials = zip(*self.by_owner.values(), strict=True)
        return Share(hits, trials)

    @property
    def complement(self) -> "Rate":
        """Misses in place of hits."""
        missed = {owner: (trials - hits, trials) for owner, (hits, trials) in self.by_owner.items()}
        return Rate(self.trials - self.hits, self.trials, self.confidence, missed)

    def to_json(self) -> dict[str, Any]:
        """For a document; `value` is null where there was no trial."""
        low, high = self.interval
        return {"value": self.value, "low": low, "high": high, "hits": self.hits, "trials": self.trials} | (
            {"owners": len(self.by_owner)} if self.by_owner else {}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyMeasurement(JsonObject):
    """How much of what is labelled a policy finds, and how much else.

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
        return fields_to_json(self, confidence=self.recall.confidence, miss_rate=self.miss_rate)


class _Count:
    """Hits and trials of every owner, counted."""

    def __init__(self) -> None:
        self._by_owner: dict[str, tuple[int, int]] = {}

    def add(self, owner: str, hit: bool) -> None:
        hits, trials = self._by_owner.get(owner, (0, 0))
        self._by_owner[owner] = hits + hit, trials + 1

    def rate(self, confidence: float) -> Rate:
        hits = sum(hits for hits, _ in self._by_owner.values())
        trials = sum(trials for _, trials in self._by_owner.values())
        return Rate(hits, trials, confidence, dict(self._by_owner))


class MeasurementTally:
    """Compares findings with labels record by record; `result` at the end."""

    def __init__(self, policy: str, *, confidence: float = 0.95) -> None:
        self._policy = policy
        self._confidence = confidence
        self._records = 0
        self._characters = self._found = self._right = 0
        self._recall: defaultdict[tuple[str, str], _Count] = defaultdict(_Count)  # kind, identifier
        self._precision: defaultdict[str, _Count] = defaultdict(_Count)
        self._partly = _Count()
        # digest of kind and characters -> who mentions it first, and whether it is found wherever mentioned
        self._secrets: dict[bytes, tuple[str, bool]] = {}

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
            self._recall[canonical(span.kind), span.identifier].add(record.owner, hit)
            self._partly.add(record.owner, hit or any(span.overlaps(other) for other in cover))
            secret = f"{span.kind}\0{record.text[span.start : span.end]}".encode("utf8", errors="surrogatepass")
            digest = hashlib.blake2b(secret, digest_size=16).digest()
            owner, found_before = self._secrets.get(digest, (record.owner, True))
            self._secrets[digest] = owner, found_before and hit
        for span in found:
            right = any(span.overlaps(label) for label in gold)
            self._precision[canonical(span.kind)].add(record.owner, right)

    def result(self) -> PolicyMeasurement:
        """The rates over all that was added."""
        kinds = sorted({kind for kind, _ in self._recall})
        identifiers = sorted({identifier for _, identifier in self._recall if identifier})
        return PolicyMeasurement(
            policy=self._policy,
            records=self._records,
            recall=self._rate(self._recall.values()),
            precision=self._rate(self._precision.values()),
            partial_recall=self._rate([self._partly]),
            distinct_recall=self._distinct().rate(self._confidence),
            recall_by_kind={k: self._rate(c for (kind, _), c in self._recall.items() if kind == k) for k in kinds},
            recall_by_identifier={
                name: self._rate(c for (_, identifier), c in self._recall.items() if identifier == name)
                for name in identifiers
            },
            precision_by_kind={kind: self._rate([count]) for kind, count in sorted(self._precision.items())},
            found_share=self._found / self._characters if self._characters else None,
            character_precision=self._right / self._found if self._found else None,
        )

    def _distinct(self) -> _Count:
        """Each secret once."""
        count = _Count()
        for owner, hit in self._secrets.values():
            count.add(owner, hit)
        return count

    def _rate(self, counts: Iterable[_Count]) -> Rate:
        return Rate.pooled((count.rate(self._confidence) for count in counts), confidence=self._confidence)


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


def measure_policy(records: Iterable[Record], policy: Policy, *, confidence: float = 0.95) -> PolicyMeasurement:
    """Recall, precision and miss rate of `policy` on records whose `spans` are complete labels."""
    tally = MeasurementTally(policy.name, confidence=confidence)
    for record, found in find_in(records, policy):
        tally.add(record, found)
    return tally.result()
