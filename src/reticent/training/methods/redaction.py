"""What confidentially redacted training reads: redact → mask repeated secrets → route (Zhao, Li and Wang 2022).

    redact         what the policy π finds becomes `<MASK>`. The conservative policy π_c reads the text that π left,
                   never the original. A finding of π_c that shares characters with a mask becomes a part of that
                   mask
    repeated       any other finding of π_c stays in the first record that holds it. Later records hold a mask in
                   its place, and the rest of their text
    route          a text that holds `<MASK>`, or in which π_c finds anything, is private; every other is public

Algorithm 1 of the paper deduplicates whole records, before it redacts. That order is wrong: ["my ssn is 111", "my
ssn is 222"] are two texts that become one when redacted, and masking both secrets beforehand leaves one, so
neighbours differ although π is perfect. Whole records after redaction are right and ruinous: private duplicates had
to become empty records, as their number must not depend on a secret, and every message of a template whose secrets
are masked is a duplicate. It is not needed: the secret must be unique, not the record around it.

**Neighbours.** D' is the corpus D with `<MASK>` at every place of one secret x. For a text t let u(t) be t with
the findings of π masked, w(t) be u(t) with those findings of π_c(u) masked that share characters with a mask, and
C(t) the other findings of π_c(u). Everything below `_read` is a function of the sequence of pairs (w, C).

**A secret that π finds changes nothing.** Here each place of x is a whole finding of π. If π is local, masking it
beforehand leaves the other findings as they are, and adjacent masks collapse, so u is the same in D and D', hence
w and C, hence all that is trained on. Had π_c read t instead, findings inside x, or around it, would be remembered
in D and not in D', and each could mask a place in another record.

**A secret that π misses and π_c catches changes one private record.** Here each place of x is a whole finding of
π, or one of C that holds the characters x, and x has every place where C holds them. Three conditions: masking x
changes nothing of what π finds elsewhere, so u' is u with x masked; π_c is local, so C' is C without x, and the
findings that share characters with masks are the same, so w' is w with x masked; records are read one by one. What
is remembered differs in the string x alone, so every other string is masked in the same places. In D the first
record f that holds x keeps it, and later ones mask it, as D' does, where masks collapse alike. So the redacted
texts of D and D' are equal, record by record, but for that of f: r against r' = r with x masked. Both are private:
C held x in D, and r' holds a mask. Every other record has the same text and the same C but for x, and holds a mask
in both worlds where x stood, so it goes to the same part. The private parts have one size and differ in the record
f; the public parts are equal, and so is what is left of them if duplicates are dropped. That is what DP-SGD under
replace-one is priced for. A record that is nothing but a mask teaches nothing and is trained as an empty text: it
keeps its place in the sampling and adds zero.

**Kinds.** Every mask has the kind that the policy gave to what it replaced, and of masks that collapse that of the
leftmost; the policies read `<MASK>` whatever the kind is. Let D' hold, at each place of x, a mask of the kind that
is found there. Then all of the above holds of texts with kinds as it does of texts: the leftmost of what collapses
is the same in both worlds, whether x is masked before π reads, by π, or once it is repeated. Training that reads
kinds (`mask_filling`) protects the characters of a secret, and not that it is a name or a number. Where x is found
and D' holds masks without a kind, the records that x stands in may differ, all of them private.

**Without a conservative policy** nothing is remembered and every record is private: each text depends on its own
record alone. A secret that π misses and that stands in k records changes those k, whatever the policy reads: for
k = 1 it has (ε, δ), else it is a group of k. One that a conservative policy catches is one record whatever k is.

**What is not covered.** A secret that π_c finds in part, or with more around it ("Ann" in "Ann Lee"): masking it
changes what is remembered ("Lee" for "Ann Lee"), and each such string may change one more record. A secret that a
policy reads to find something else, as `patterns` reads "ID" in "ID 48213": where "ID" is masked beforehand, π
finds no code in any record. The code itself is masked all the same, as π reads first. `measure_misses` counts
both kinds as missed by both policies; `plans.redacted` states them as assumptions.

Records are whole texts and stay whole: what is split here is split before anybody looks for secrets, or not at
all. Near duplicates are not found. Nothing is trained here.
"""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.core.corpus import Corpus, Policy, Record, Span
from reticent.core.document import JsonObject, fields_to_json
from reticent.core.statistics.proportion import Share
from reticent.data.redaction.masking import MASK, Redaction, find_in, move_labels, redact, redact_record


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionCounts(JsonObject):
    """What happened to the records, for the operator: the counts are as private as the corpus."""

    records: int
    found: Mapping[str, int]  # spans that the policy masked, by kind
    doubtful: Mapping[str, int]  # spans that the conservative policy found in the rest, by kind
    masked: int  # records with a mask
    bare: int  # records that are nothing but a mask: they teach nothing
    repeated_spans: int  # spans masked only because an earlier record holds the same characters
    duplicates: int  # public records that were dropped, as an earlier one has the same text
    public: int
    private: int
    words: int  # of what is trained on, without the masks
    noisy_words: int  # those of private records

    @property
    def noisy_share(self) -> float:
        """Share of the words that is trained with noise; 0 where there are no words."""
        return self.noisy_words / self.words if self.words else 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON values; the document that holds them carries the schema version."""
        return fields_to_json(self, noisy_share=self.noisy_share)


@dataclass(frozen=True, slots=True)
class RedactedCorpus:
    """The two corpora that are trained on, the public one plainly and the private one with noise.

    `kinds` are those of the masks of each private record, in order; "" where the corpus came with a mask.
    """

    public: Corpus
    private: Corpus
    kinds: tuple[tuple[str, ...], ...]
    counts: RedactionCounts


def redact_and_route(
    records: Iterable[Record],
    policy: Policy,
    *,
    conservative: Policy | None = None,
    drop_duplicates: bool = False,
) -> RedactedCorpus:
    """The public and the private part of a corpus. Without a conservative policy every record is private.

    With `drop_duplicates`, of equal public texts the first stays. What both policies miss is then read once, at the
    price of another distribution of texts.

    Guarantee: masking whole findings of `policy` beforehand changes nothing, if `policy` is local. Masking one
    secret that it misses and `conservative` finds with the same characters wherever it stands changes one private
    record and nothing else, if masking it changes nothing of what either policy finds elsewhere. Both up to
    collisions of 256-bit digests.
    """
    public: list[Record] = []
    private: list[Record] = []
    kinds: list[tuple[str, ...]] = []
    texts: set[str] = set()  # exact: the false alarms of a Bloom filter would depend on other records
    spans = _SeenSpans()
    tally = _Tally()
    for read in _read(records, policy, conservative, found=tally.found):
        again = spans.repeated(read)
        redaction = redact(read.record.text, again, known=read.kinds)
        redacted = move_labels(read.record, redaction)
        tally.add(redacted.text, read.doubtful, again)
        # Two worlds agree on this: where x was caught in one of them, the other holds a mask.
        if conservative is None or read.doubtful or MASK in redacted.text:
            private.append(redacted)
            kinds.append(_kinds(redaction))
        elif redacted.text not in texts or not drop_duplicates:
            texts.add(redacted.text)
            public.append(redacted)
    return RedactedCorpus(Corpus(public), Corpus(private), tuple(kinds), tally.counts(public, private))


def is_empty(record: Record) -> bool:
    """Whether nothing but a mask is left of a record: it keeps its place and teaches nothing."""
    return record.text == MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class MissRates(JsonObject):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MissCounts:
    """How many labelled secrets are missed: by π, and by both policies so that no ε is proved of them."""

    policy: Share
    both: Share


def count_misses(labelled: Iterable[Record], policy: Policy, *, conservative: Policy | None = None) -> MissCounts:
    """Count the secrets that policies miss in records whose spans are complete labels.

    A secret is one labelled string of one record. It is found if masking it beforehand, wherever the record holds
    it, leaves what is read of the record as it is; any character that is left is a miss. A missed secret is caught
    if masking it beforehand masks it there and changes nothing else: what the proof asks of each record.
    """
    owners: list[str] = []
    missed: list[bool] = []
    lost: list[bool] = []
    kept = list(labelled)
    for record, here in zip(kept, _read(kept, policy, conservative), strict=True):
        secrets = _secrets(record)
        masked = [redact_record(record, places) for places in secrets.values()]
        for value, there in zip(secrets, _read(masked, policy, conservative), strict=True):
            is_found = here.strings == there.strings and here.record.text == there.record.text
            owners.append(record.owner)
            missed.append(not is_found)
            lost.append(not is_found and conservative is not None and not _is_caught(value, here, there))
    return MissCounts(policy=Share.of(missed, owners), both=Share.of(lost, owners))


def measure_misses(
    labelled: Iterable[Record], policy: Policy, *, conservative: Policy | None = None, confidence: float = 0.95
) -> MissRates:
    """Miss rates on records whose spans are complete labels: the **upper ends** of the intervals of `count_misses`.

    Secrets of one owner, or of one record, are missed together: what counts is how many independent ones they are
    worth (`core.statistics.proportion.Share`).

    Guarantee: both true rates are at most the returned ones with `confidence` together, for owners drawn
    independently from the distribution that is spoken of; exact where each has one secret, else approximate. Zero
    misses in n are not a rate of zero: 3.7/n.
    """
    counts = count_misses(labelled, policy, conservative=conservative)
    # Each upper end fails with chance (1 − confidence)/2, so both hold together with `confidence`.
    by_policy, by_both = counts.policy, counts.both
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
    text = here.record.text
    own = [span for span in here.doubtful if text[span.start : span.end] == value]
    is_forgotten = there.strings == here.strings - {value}
    return bool(own) and is_forgotten and there.record.text == redact(text, own).text


@dataclass(frozen=True, slots=True)
class Read:
    """A record as π and the masks leave it, what π_c finds in the rest of it, and the kinds of its masks."""

    record: Record
    doubtful: tuple[Span, ...]
    kinds: tuple[str, ...]

    @property
    def strings(self) -> set[str]:
        """The characters of each finding of π_c."""
        return {self.record.text[span.start : span.end] for span in self.doubtful}


def _kinds(redaction: Redaction) -> tuple[str, ...]:
    return tuple(each.kind for each in redaction.replacements)


def _read(
    records: Iterable[Record], policy: Policy, conservative: Policy | None, *, found: Counter[str] | None = None
) -> Iterator[Read]:
    """Every record, of which nothing else is read: what π finds is masked before π_c sees the text.

    `found` counts the kinds of what π finds.
    """
    kinds: deque[tuple[str, ...]] = deque()  # of the records that a policy holds in its batch

    def redacted() -> Iterator[Record]:
        for record, spans in find_in(records, policy):
            if found is not None:
                found.update(span.kind for span in spans)
            redaction = redact(record.text, spans, known=[""] * record.text.count(MASK))
            kinds.append(_kinds(redaction))
            yield move_labels(record, redaction)

    if conservative is None:
        for record in redacted():
            yield Read(record, (), kinds.popleft())
        return
    for record, spans in find_in(redacted(), conservative):
        masks = [Span(match.start(), match.end(), "") for match in re.finditer(re.escape(MASK), record.text)]
        apart = [span for span in spans if not any(mask.overlaps(span) for mask in masks)]
        redaction = redact(record.text, set(spans) - set(apart), known=kinds.popleft())
        moved = (Span(*redaction.to_redacted(span.start, span.end), span.kind) for span in apart)
        yield Read(move_labels(record, redaction), tuple(moved), _kinds(redaction))


class _Tally:
    """Counts over the records as they pass."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        self._doubtful: Counter[str] = Counter()
        self._masked = self._bare = self._repeated = self._records = 0

    def add(self, text: str, doubtful: Iterable[Span], again: Sequence[Span]) -> None:
        """One redacted record with what π_c found in it and which of that was masked."""
        self._records += 1
        self._doubtful.update(span.kind for span in doubtful)
        self._repeated += len(again)
        self._masked += MASK in text
        self._bare += text == MASK

    def counts(self, public: list[Record], private: list[Record]) -> RedactionCounts:
        """All of it, once the records are routed."""
        quiet, noisy = (sum(len(r.text.replace(MASK, " ").split()) for r in part) for part in (public, private))
        return RedactionCounts(
            records=self._records,
            found=dict(self.found.most_common()),
            doubtful=dict(self._doubtful.most_common()),
            masked=self._masked,
            bare=self._bare,
            repeated_spans=self._repeated,
            duplicates=self._records - len(public) - len(private),
            public=len(public),
            private=len(private),
            words=quiet + noisy,
            noisy_words=noisy,
        )


class _SeenSpans:
    """Characters that the conservative policy found in earlier records, as digests."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def repeated(self, read: Read) -> list[Span]:
        """Those of the findings that earlier records held; this record's own count from the next one on."""
        keys = {span: self._digest(read.record.text[span.start : span.end]) for span in read.doubtful}
        again = [span for span, key in keys.items() if key in self._seen]
        self._seen.update(keys.values())
        return again

    @staticmethod
    def _digest(characters: str) -> bytes:
        return hashlib.blake2b(characters.encode("utf8", errors="surrogatepass"), digest_size=32).digest()
