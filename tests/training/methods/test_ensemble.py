"""Shares of an ensemble: who goes where, that shares are disjoint, and that a broken split is caught."""

import dataclasses

import pytest

from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError, InternalError
from reticent.core.randomness import Randomness
from reticent.data.splits import half_of, part_of
from reticent.training.methods.ensemble import (
    MemberShare,
    key_id,
    member_seed,
    split_key,
    split_owners,
    verify_disjoint,
)

KEY = b"k" * 32


def corpus_of(owners: int, *, each: int = 3) -> Corpus:
    """Records of so many owners, interleaved."""
    return Corpus(Record(f"r{i}", f"text {i}", f"owner {i % owners}") for i in range(owners * each))


def test_each_owner_stands_in_the_part_that_the_hash_names_with_all_records():
    corpus = corpus_of(60)
    shares = split_owners(corpus, 4, halves=False, key=KEY)
    assert [share.name for share in shares] == ["part-00", "part-01", "part-02", "part-03"]
    for share in shares:
        expected = [record for record in corpus if part_of(record.owner, 4, key=KEY) == share.part]
        assert list(share.corpus) == expected


def test_halves_divide_the_owners_of_each_part():
    corpus = corpus_of(60)
    shares = split_owners(corpus, 3, halves=True, key=KEY)
    assert [share.name for share in shares][:3] == ["part-00-a", "part-00-b", "part-01-a"]
    whole = split_owners(corpus, 3, halves=False, key=KEY)
    for part, share in enumerate(whole):
        first, second = shares[2 * part], shares[2 * part + 1]
        assert {r.id for r in first.corpus} | {r.id for r in second.corpus} == {r.id for r in share.corpus}
        assert {half_of(record.owner, key=KEY) for record in first.corpus} == {0}


def test_removing_an_owner_changes_that_owners_part_alone():
    corpus = corpus_of(60)
    fewer = Corpus(record for record in corpus if record.owner != "owner 7")
    before = split_owners(corpus, 4, halves=False, key=KEY)
    after = split_owners(fewer, 4, halves=False, key=KEY)
    changed = [s.part for s, t in zip(before, after, strict=True) if s.corpus.fingerprint != t.corpus.fingerprint]
    assert changed == [part_of("owner 7", 4, key=KEY)]


def test_an_owner_in_two_shares_a_lost_record_and_a_doubled_one_are_caught():
    """The broken twin is a split by record, which is what an owner-level promise must never rest on."""
    corpus = corpus_of(20)
    by_record = [
        MemberShare(part, None, Corpus(r for i, r in enumerate(corpus) if i % 3 == part)) for part in range(3)
    ]
    with pytest.raises(InternalError, match="an owner stands in two shares"):
        verify_disjoint(by_record, corpus)
    shares = list(split_owners(corpus, 3, halves=False, key=KEY))
    verify_disjoint(shares, corpus)
    short = dataclasses.replace(shares[0], corpus=shares[0].corpus[:-1])
    with pytest.raises(InternalError, match="do not hold the records"):
        verify_disjoint([short, *shares[1:]], corpus)
    with pytest.raises(InternalError, match="two shares"):
        verify_disjoint([*shares, shares[1]], corpus)


def test_a_part_without_anybody_is_refused_before_anything_is_trained():
    with pytest.raises(ConfigError, match="some parts are empty") as found:
        split_owners(corpus_of(3), 40, halves=False, key=KEY)
    assert "40 --parts for 3 owners" in str(found.value.hint)
    with pytest.raises(ConfigError, match="some parts are empty") as found:
        split_owners(corpus_of(60), 60, halves=False, key=KEY)
    assert "another --seed" in str(found.value.hint)
    with pytest.raises(ConfigError, match="at least two"):
        split_owners(corpus_of(3), 1, halves=False, key=KEY)


def test_keys_differ_and_their_ids_do_not_show_them():
    first, second = split_key(Randomness.system()), split_key(Randomness.system())
    assert len(first) == 32
    assert first != second
    assert key_id(first) != key_id(second)
    assert first.hex()[:16] != key_id(first)
    assert split_key(Randomness.seeded(3)) == split_key(Randomness.seeded(3))


def test_members_have_seeds_of_their_own():
    shares = split_owners(corpus_of(60), 4, halves=True, key=KEY)
    assert len({member_seed(5, share) for share in shares}) == len(shares)
