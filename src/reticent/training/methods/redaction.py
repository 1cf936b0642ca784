"""What confidentially redacted training reads: redact → deduplicate → route (Zhao, Li and Wang 2022, Algorithm 1).

    redact         what the policy π finds becomes `<MASK>`. The conservative policy π_c reads the text that π left,
                   never the original. A finding of π_c that shares characters with a mask becomes a part of that
                   mask; any other is masked if an earlier record held a finding of the same characters
    deduplicate    of equal redacted texts the first stays; the others go, or become the text `<MASK>` if private
    route          a text that holds `<MASK>`, or in which π_c finds anything, is private; every other is public

The paper prints deduplication first. Then ["my ssn is 111", "my ssn is 222"] are two texts that become one when
redacted, trained twice, and masking both secrets beforehand leaves one: neighbours differ although π is perfect.

**Neighbours.** D' is the corpus D with `<MASK>` at every place of one secret x. For a text t let u(t) be t with
the findings of π masked, w(t) be u(t) with those findings of π_c(u) masked that share characters with a mask, and
C(t) the other findings of π_c(u). Everything below `_read` is a function of the sequence of pairs (w, C).

**A secret that π finds changes nothing.** Here each place of x is a whole finding of π. If π is local, masking it
beforehand leaves the other findings as they are, and adjacent masks collapse, so u is the same in D and D', hence
w and C, hence all that is trained on. Had π_c read t instead, findings inside x, or around it, would be remembered
in D and not in D', and each could mask a place in another record.

**A secret that π misses and π_c catches replaces one private record at most.** Here each place of x is a whole
finding of π, or one of C that holds the characters x, and x has every place where C holds them. Three conditions:
masking x changes nothing of what π finds elsewhere, so u' is u with x masked; π_c is local, so C' is C without x,
and the findings that share characters with masks are the same, so w' is w with x masked; records are read one by
one. What is remembered differs in the string x alone, so every other string is masked in the same places. In D
the first record f that holds x keeps it, and later ones mask it, as D' does, where masks collapse alike. So D and
D' differ in one redacted text, r against r' = r with x masked. Both are private: C held x in D, and r' holds a
mask. Whether a text is private follows from the text alone (without a mask, it is what π_c has read), and where
else x stood there is a mask in both worlds, so the public parts are equal, in order. Deduplication turns the n
private texts into their distinct ones and as many masks as make n again, so changing one text replaces one element
of that multiset, or none: r by r', r by `<MASK>` where r' was there already, or `<MASK>` by r' where r was there
twice. That is what DP-SGD under replace-one is priced for. Were private duplicates dropped, the number of private
records, and with it the sampling rate, would depend on the secret. A record that is nothing but a mask teaches
nothing and is trained as an empty text: it keeps its place in the sampling and adds zero.

**What is not covered.** A secret that π_c finds in part, or with more around it ("Ann" in "Ann Lee"): masking it
changes what is remembered ("Lee" for "Ann Lee"), and each such string may change one more record. A secret that a
policy reads to find something else, as `patterns` reads "ID" in "ID 48213": where "ID" is masked beforehand, π
finds no code in any record. The code itself is masked all the same, as π reads first. `measure_misses` counts
both kinds as missed by both policies; `plans.redacted` states them as assumptions. Without a conservative policy
nothing is remembered: each text depends on its own record alone, and any secret that stands in one record replaces
one private record at most, whatever the policy reads.

Records are whole texts and stay whole: what is split here is split before anybody looks for secrets, or not at
all. Near duplicates are not found. Nothing is trained here.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.core.proportion import Share
from reticent.data.duplicates.exact import TextCounter
from reticent.data.redaction.masking import MASK, find_in, move_labels, redact, redact_record, redact_records


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

    Guarantee: masking whole findings of `policy` beforehand changes nothing, if `policy` is local. Masking one
    secret that it misses and `conservative` finds with the same characters wherever it stands changes nothing
    public and replaces one private record at most, if masking it changes nothing of what either policy finds
    elsewhere. Both up to collisions of 256-bit digests.
    """
    public: list[Record] = []
    private: list[Record] = []
    texts = TextCounter()
    spans = _SeenSpans()
    masked = repeated = dropped = 0
    for record, doubtful in _read(records, policy, conservative):
        again = spans.repeated(record, doubtful)
        repeated += len(again)
        redacted = redact_record(record, again)
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
    """How often secrets are missed: by π (γ), and by both policies so that no ε is proved of them (δ2).

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

    A secret is one labelled string of one record. It is found if masking it beforehand, wherever the record holds
    it, leaves what is read of the record as it is; any character that is left is a miss. A missed secret is caught
    if masking it beforehand masks it there and changes nothing else: what the proof asks of each record.

    Secrets of one owner, or of one record, are missed together: what counts is how many independent ones they are
    worth (`core.proportion.Share`).

    Guarantee: both true rates are at most the returned ones with `confidence` together, for owners drawn
    independently from the distribution that is spoken of; exact where each has one secret, else approximate. Zero
    misses in n are not a rate of zero: 3.7/n.
    """
    owners: list[str] = []
    missed: list[bool] = []
    lost: list[bool] = []
    kept = list(labelled)
    for record, here in zip(kept, _read(kept, policy, conservative), strict=True):
        secrets = _secrets(record)
        masked = [redact_record(record, places) for places in secrets.values()]
        for value, there in zip(secrets, _read(masked, policy, conservative), strict=True):
            is_found = _strings(*here) == _strings(*there) and here[0].text == there[0].text
            owners.append(record.owner)
            missed.append(not is_found)
            lost.append(not is_found and conservative is not None and not _is_caught(value, here, there))
    # Each upper end fails with chance (1 − confidence)/2, so both hold together with `confidence`.
    by_policy, by_both = Share.of(missed, owners), Share.of(lost, owners)
    tail = (1.0 - confidence) / 2.0
    of_policy = by_policy.upper(tail=tail)
    of_both = 0.0 if conservative is None else by_both.upper(tail=tail)
    both = ""
    if conservative is not None:
        both = f", and {by_both.hits} of these the conservative policy did not find with the same characters"
    of_owners = f" of {by_policy.owners} owners" if by_policy.is_owned else ""
    origin = (
        f"the {by_policy.trials} labelled secrets{of_owners} are missed as often as those of the training text "
        f"(the policy missed {by_policy.hits}{both}; the upper ends of {confidence:.0%} intervals are used)"
    )
    return MissRates(policy=of_policy, both=of_both, origin=origin)


def _secrets(record: Record) -> dict[str, list[Span]]:
    """The labelled strings of a record, each with its places."""
    places: dict[str, list[Span]] = {}
    for span in record.spans:
        if span.identifier != "none":
            places.setdefault(record.text[span.start : span.end], []).append(span)
    return places


def _is_caught(value: str, here: "Read", there: "Read") -> bool:
    """Whether masking the secret beforehand (`there`) does nothing but mask and forget the findings that are it."""
    record, doubtful = here
    own = [span for span in doubtful if record.text[span.start : span.end] == value]
    is_forgotten = _strings(*there) == _strings(*here) - {value}
    return bool(own) and is_forgotten and there[0].text == redact(record.text, own).text


def _strings(record: Record, spans: Iterable[Span]) -> set[str]:
    return {record.text[span.start : span.end] for span in spans}


Read = tuple[Record, tuple[Span, ...]]


def _read(records: Iterable[Record], policy: Policy, conservative: Policy | None) -> Iterator[Read]:
    """Each record as π and the masks leave it, with what π_c finds in the rest of it.

    Nothing else of a record is read: what π finds is masked before π_c sees the text.
    """
    redacted = redact_records(records, policy)
    if conservative is None:
        yield from ((record, ()) for record in redacted)
        return
    for record, found in find_in(redacted, conservative):
        masks = [Span(match.start(), match.end(), "") for match in re.finditer(re.escape(MASK), record.text)]
        apart = [span for span in found if not any(mask.overlaps(span) for mask in masks)]
        redaction = redact(record.text, set(found) - set(apart))
        moved = (Span(*redaction.to_redacted(span.start, span.end), span.kind) for span in apart)
        yield move_labels(record, redaction), tuple(moved)


class _SeenSpans:
    """Characters that the conservative policy found in earlier records, as digests."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def repeated(self, record: Record, doubtful: Iterable[Span]) -> list[Span]:
        """Those of the spans that earlier records held; this record's own count from the next one on."""
        keys = {span: self._digest(record.text[span.start : span.end]) for span in doubtful}
        again = [span for span, key in keys.items() if key in self._seen]
        self._seen.update(keys.values())
        return again

    @staticmethod
    def _digest(characters: str) -> bytes:
        return hashlib.blake2b(characters.encode("utf8", errors="surrogatepass"), digest_size=32).digest()
