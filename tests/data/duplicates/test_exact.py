"""Exact deduplication, its place after redaction, and what a Bloom filter would break."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from reticent.core.corpus import Record
from reticent.data.duplicates.digest_counts import DigestCounts
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.redaction.masking import redact_records
from tests.data.duplicates.in_memory import deduplicate

texts = st.lists(st.sampled_from(["a", "b", "a ", "A", "c", ""]), max_size=12)


def corpus(values: list[str]) -> list[Record]:
    return [Record(f"r{n}", text) for n, text in enumerate(values)]


@given(texts)
def test_first_of_each_text_stays(values):
    result = deduplicate(corpus(values))
    assert result.texts == list(dict.fromkeys(values))
    assert [r.id for r in result] == [f"r{values.index(t)}" for t in dict.fromkeys(values)]


@given(texts)
def test_counts(values):
    counter, kept = DigestCounts(), set(values)
    for text in values:
        counter.add(text)
    assert (counter.seen, counter.distinct, counter.repeated) == (len(values), len(kept), len(values) - len(kept))
    assert counter.most == max((values.count(v) for v in values), default=0)


def test_redaction_before_deduplication_leaves_one_copy_and_the_printed_order_two():
    # Spec, section 5: the paper's order breaks group confidentiality even with a perfect policy.
    records = corpus(["my ssn is 123-45-6789", "my ssn is 987-65-4321"])
    policy = PatternPolicy()
    right = deduplicate(list(redact_records(records, policy)))
    printed = list(redact_records(deduplicate(records), policy))
    assert right.texts == ["my ssn is <MASK>"]
    assert [r.text for r in printed] == ["my ssn is <MASK>"] * 2


def kept_others(keep, values: list[str], changed: int) -> bool:
    """Whether changing one record, to a text nobody else has, leaves the fate of the others as it was."""
    other = [*values[:changed], "new text", *values[changed + 1 :]]
    before, after = keep(values), keep(other)
    return [n for n in before if n != changed] == [n for n in after if n != changed]


def exact(values: list[str]) -> list[int]:
    return [int(r.id[1:]) for r in deduplicate(corpus(values))]


def bloom(values: list[str]) -> list[int]:
    """The broken twin: a set of 6-bit hashes."""
    seen, kept = set(), []
    for n, text in enumerate(values):
        digest = hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % 64
        if digest not in seen:
            kept.append(n)
        seen.add(digest)
    return kept


def test_change_of_one_record_drops_no_other_while_a_lossy_filter_does():
    values = [f"text {n}" for n in range(60)]
    assert all(kept_others(exact, values, n) for n in range(60))
    assert not all(kept_others(bloom, values, n) for n in range(60))
