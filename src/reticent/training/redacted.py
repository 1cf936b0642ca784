"""What confidentially redacted training reads: redact → deduplicate → route (Zhao, Li and Wang 2022, Algorithm 1).

    redact         what the policy π finds becomes `<MASK>`; so does what the conservative policy π_c finds if an
                   earlier record held the same characters: a secret that π misses stands in one record at most
    deduplicate    of equal redacted texts the first stays; the others go, or become the text `<MASK>` if private
    route          a text that holds `<MASK>`, or in which π_c finds anything, is private; every other is public

The paper prints deduplication first. Then ["my ssn is 111", "my ssn is 222"] are two texts that become one when
redacted, trained twice, and masking both secrets beforehand leaves one: neighbours differ although π is perfect.

**Why neighbours stay neighbours.** Let x be a secret in the corpus D, and D' the same with `<MASK>` wherever x
stands. Where π finds x nothing differs once redacted. Where π misses it and π_c finds it, D keeps x in the first
such record alone: D and D' differ in one redacted text, r against r' = r with a mask. Both are private, and who is
private depends on the redacted text alone, so the public parts are equal, in order. Deduplication turns the n
private texts into their distinct ones and as many masks as make n again, so changing one text replaces one element
of that multiset, or none: r by r', r by `<MASK>` where r' was there already, or `<MASK>` by r' where r was there
twice. That is what DP-SGD under replace-one is priced for. Were private duplicates dropped, the number of private
records, and with it the sampling rate, would depend on the secret. A record that is nothing but a mask teaches
nothing and is trained as an empty text: it keeps its place in the sampling and adds zero.

Records are whole texts and stay whole: what is split here is split before anybody looks for secrets, or not at
all. Both policies read the text as it came, before masks. Near duplicates are not found. Nothing is trained here.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.data.deduplication import TextCounter
from reticent.data.measurement import Rate, is_covered
from reticent.data.redaction import MASK, find_in, merge_spans, redact_record


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionCounts:
    """What happened to the records, for the operator: the counts are as private as the corpus."""

    records: int
    masked: int  # records with a mask, duplicates not counted
    duplicates: int  # records whose redacted text an earlier one has
    repeated_spans: int  # spans masked only because an earlier record holds the same characters
    public: int
    private: int

    def to_json(self) -> dict[str, int]:
        """JSON values; the document that holds them carries the schema version."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RedactedCorpus:
    """The two corpora that are trained on, the public one plainly and the private one with noise."""

    public: Corpus
    private: Corpus
    counts: RedactionCounts


def redact_and_route(
    records: Iterable[Record], policy: Policy, *, conservative: Policy | None = None
) -> RedactedCorpus:
    """The public and the private part of a corpus. Without a conservative policy every record is private.

    Guarantee: masking one secret that `policy` finds, wherever it stands, changes nothing; masking one that it
    misses and `conservative` finds with the same characters wherever it stands changes nothing public and replaces
    one private record. Both for policies that are local, up to collisions of 256-bit digests.
    """
    public: list[Record] = []
    private: list[Record] = []
    texts = TextCounter()
    spans = _SeenSpans()
    masked = repeated = dropped = 0
    for record, found, doubtful in _found(records, policy, conservative):
        again = spans.repeated(record, found, doubtful)
        repeated += len(again)
        redacted = redact_record(record, [*found, *again])
        # A function of the redacted text: where that holds no mask, it is the text that π_c has read.
        is_private = conservative is None or bool(doubtful) or MASK in redacted.text
        if is_empty(redacted) or texts.add(redacted.text):
            masked += MASK in redacted.text
            (private if is_private else public).append(redacted)
        elif is_private:
            private.append(Record(record.id, MASK, owner=record.owner))
        else:
            dropped += 1
    counts = RedactionCounts(
        records=len(public) + len(private) + dropped,
        masked=masked,
        duplicates=texts.repeated,
        repeated_spans=repeated,
        public=len(public),
        private=len(private),
    )
    return RedactedCorpus(Corpus(public), Corpus(private), counts)


def is_empty(record: Record) -> bool:
    """Whether nothing but a mask is left of a record: it keeps its place and teaches nothing."""
    return record.text == MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRates:
    """How often secrets are missed: by π (γ), and by both policies so that they are trained on plainly (δ2).

    `origin` is the condition that the two numbers rest on, in words; it becomes an assumption of the guarantee, and
    is empty where nothing is assumed (a rate of 1).
    """

    policy: float
    both: float
    origin: str

    def __post_init__(self) -> None:
        if not 0.0 <= self.both <= self.policy <= 1.0:
            raise ValueError("miss rates need 0 <= both <= policy <= 1: what both miss, the policy misses")

    def to_json(self) -> dict[str, Any]:
        """JSON values; the document that holds them carries the schema version."""
        return {"policy": self.policy, "both": self.both, "origin": self.origin}


def measure_misses(
    labelled: Iterable[Record], policy: Policy, *, conservative: Policy | None = None, confidence: float = 0.95
) -> MissRates:
    """Miss rates on records whose spans are complete labels: the **upper ends** of their intervals.

    A secret is one labelled string of one record, and missed if any character of any mention is left. It is
    missed by both if its record would be public.

    Guarantee: both true rates are at most the returned ones with `confidence` together, for labelled secrets drawn
    independently from the distribution that is spoken of. Zero misses in n are not a rate of zero: 3.7/n.
    """
    missed = lost = trials = 0
    for record, found, doubtful in _found(labelled, policy, conservative):
        cover = merge_spans(found)
        is_public = conservative is not None and not found and not doubtful and MASK not in record.text
        secrets: dict[str, bool] = {}  # characters -> found wherever they stand
        for span in record.spans:
            if span.identifier != "none":
                value = record.text[span.start : span.end]
                secrets[value] = secrets.get(value, True) and is_covered(span, cover, record.text)
        trials += len(secrets)
        missed += sum(not is_found for is_found in secrets.values())
        lost += len(secrets) if is_public else 0
    # Each upper end fails with chance (1 − confidence)/2, so both hold together with `confidence`.
    of_policy = Rate(missed, trials, confidence).interval[1]
    of_both = 0.0 if conservative is None else Rate(lost, trials, confidence).interval[1]
    origin = (
        f"the {trials} labelled secrets are missed as often as those of the training text (the policy missed "
        f"{missed}, both policies {lost}; the upper ends of {confidence:.0%} intervals are used)"
    )
    return MissRates(policy=of_policy, both=of_both, origin=origin)


Found = tuple[Record, tuple[Span, ...], tuple[Span, ...]]


def _found(records: Iterable[Record], policy: Policy, conservative: Policy | None) -> Iterable[Found]:
    """Each record with what π and what π_c find in it."""
    if conservative is None:
        yield from ((record, found, ()) for record, found in find_in(records, policy))
        return
    kept = Corpus(records)  # both policies read the stream
    both = zip(find_in(kept, policy), find_in(kept, conservative), strict=True)
    yield from ((record, found, doubtful) for (record, found), (_, doubtful) in both)


class _SeenSpans:
    """Characters that a policy found in earlier records, as digests."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def repeated(self, record: Record, found: Iterable[Span], doubtful: Iterable[Span]) -> list[Span]:
        """Those of the doubtful spans that earlier records held; this record's own count from the next one on."""
        keys = {span: self._digest(record.text[span.start : span.end]) for span in (*found, *doubtful)}
        again = [span for span in doubtful if keys[span] in self._seen and span not in set(found)]
        self._seen.update(keys.values())
        return again

    @staticmethod
    def _digest(characters: str) -> bytes:
        return hashlib.blake2b(characters.encode("utf8", errors="surrogatepass"), digest_size=32).digest()
