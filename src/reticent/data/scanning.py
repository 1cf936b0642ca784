"""What a corpus holds before anything is trained on it: sensitive spans by kind, how often secrets repeat,
duplicate texts, owners; where records are labelled also how well the policy finds them.

One pass over streamed records. Secrets, owners and texts are counted by digests, some 20 bytes each: no value is
kept, none is in the result.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from reticent.core.corpus import Policy, Record
from reticent.core.document import JsonObject, called
from reticent.data.canaries import names_owner
from reticent.data.duplicates.digest_counts import DigestCounts
from reticent.data.measurement import MeasurementTally, PolicyMeasurement
from reticent.data.redaction.masking import find_by_all


@dataclass(frozen=True, slots=True)
class KindCount(JsonObject):
    """Spans of one kind: mentions, different strings among them, mentions of the most frequent, records."""

    mentions: int
    distinct: int
    most_repeated: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(JsonObject):
    """What `scan` saw. `measurement` is there where labels were to be used, `compared` has those of rivals."""

    schema_version: ClassVar = 1
    policy: str
    records: int
    owners: int
    largest_owner: int
    names_owners: bool
    characters: int
    duplicates: int
    most_duplicated: int
    sensitive_records: int
    kinds: dict[str, KindCount]
    measurement: PolicyMeasurement | None
    compared: tuple[PolicyMeasurement, ...] = ()
    is_local: bool = field(metadata=called("policy_is_local"))


def scan(
    records: Iterable[Record],
    policy: Policy,
    *,
    labels: bool = False,
    rivals: Sequence[Policy] = (),
    confidence: float = 0.95,
) -> Scan:
    """Count what `policy` finds; with `labels`, compare it with the records' own spans as well, and `rivals` too.

    Takes any iterable: wrap it to show progress.
    """
    if rivals and not labels:
        raise ValueError("policies are compared by labels alone")
    texts, owners = DigestCounts(), DigestCounts()
    secrets: dict[str, DigestCounts] = {}
    holders: Counter[str] = Counter()
    tally = MeasurementTally(policy.name, confidence=confidence)
    others = [MeasurementTally(rival.name, confidence=confidence) for rival in rivals]
    characters = sensitive = 0
    names_owners = False
    for record, (found, *rest) in find_by_all(records, [policy, *rivals]):
        for other, spans in zip(others, rest, strict=True):
            other.add(record, spans)
        texts.add(record.text)
        owners.add(record.owner)
        names_owners |= names_owner(record)
        characters += len(record.text)
        sensitive += bool(found)
        holders.update({span.kind for span in found})
        for span in found:
            secrets.setdefault(span.kind, DigestCounts()).add(record.text[span.start : span.end])
        if labels:
            tally.add(record, found)
    return Scan(
        policy=policy.name,
        is_local=policy.is_local,
        records=texts.seen,
        owners=owners.distinct,
        largest_owner=owners.most,
        names_owners=names_owners,
        characters=characters,
        duplicates=texts.repeated,
        most_duplicated=texts.most,
        sensitive_records=sensitive,
        kinds={
            kind: KindCount(counts.seen, counts.distinct, counts.most, holders[kind])
            for kind, counts in sorted(secrets.items())
        },
        measurement=tally.result() if labels else None,
        compared=tuple(other.result() for other in others),
    )
