"""Records hide their text, corpora are immutable, and the fingerprint sees every change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.corpus import Corpus, Fingerprint, Record, Span

TEXTS = st.lists(st.text(min_size=1, max_size=10), min_size=1, max_size=5)


def corpus_of(texts):
    return Corpus(Record(id=str(i), text=text) for i, text in enumerate(texts))


def test_repr_shows_neither_text_nor_owner():
    record = Record(id="r1", text="my number is 555", owner="Ada Lovelace")
    assert repr(record) == "Record(id='r1')"
    assert "555" not in repr(Corpus([record]))


def test_owner_defaults_to_the_record_itself():
    assert Record(id="r1", text="x").owner == "r1"
    assert Corpus([Record("a", "x", "o"), Record("b", "y", "o"), Record("c", "z")]).owners == ("o", "c")


@given(TEXTS, TEXTS)
def test_fingerprints_agree_exactly_when_contents_do(first, second):
    assert (corpus_of(first).fingerprint == corpus_of(second).fingerprint) == (first == second)


def test_fingerprint_sees_boundaries_order_owners_and_spans():
    a = Record("1", "ab", "c")
    variants = [
        [a],
        [Record("1", "a", "bc")],
        [Record("1a", "b", "c")],
        [Record("1", "ab", "d")],
        [Record("1", "ab", "c", (Span(0, 1, "x"),))],
        [Record("1", "ab", "c", (Span(0, 2, "x"),))],
        [a, Record("2", "q")],
        [Record("2", "q"), a],
    ]
    assert len({Corpus(records).fingerprint for records in variants}) == len(variants)


def test_streamed_fingerprint_equals_that_of_the_corpus():
    corpus = corpus_of(["a", "b", "c"])
    running = Fingerprint()
    for record in corpus:
        running.add(record)
    assert running.hexdigest() == corpus.fingerprint


def test_corpus_refuses_duplicate_ids_and_slices_to_a_corpus():
    with pytest.raises(ValueError, match="distinct"):
        Corpus([Record("1", "a"), Record("1", "b")])
    corpus = corpus_of(["a", "b", "c"])
    assert corpus[1:] == Corpus([corpus[1], corpus[2]])
    assert hash(corpus[:]) == hash(corpus)


def test_spans_are_checked_against_each_other_and_the_text():
    assert Span(0, 5, "a").covers(Span(1, 4, "b"))
    assert Span(0, 2, "a").overlaps(Span(1, 3, "b"))
    assert not Span(0, 2, "a").overlaps(Span(2, 3, "b"))
    with pytest.raises(ValueError, match="start < end"):
        Span(3, 3, "a")
    with pytest.raises(ValueError, match="after the text") as caught:
        Record("r", "secret", spans=(Span(0, 7, "a"),))
    assert "secret" not in str(caught.value)
