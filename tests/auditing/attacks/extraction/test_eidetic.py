"""Counts of records that hold a string, and longest matches, equal plain search."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.auditing.attacks.extraction.eidetic import EideticIndex
from reticent.auditing.attacks.extraction.suffix_array import END_MARK, sort_suffixes
from reticent.core.corpus import Record

TEXT = st.text(alphabet="abé\0𝄞", max_size=30)
TEXTS = st.lists(TEXT, min_size=1, max_size=6)


def records_of(texts: list[str]) -> list[Record]:
    return [Record(f"r{index}", text) for index, text in enumerate(texts)]


def slow_longest(text: str, texts: list[str]) -> int:
    pieces = {text[i:j] for i in range(len(text)) for j in range(i, len(text) + 1)}
    return max((len(piece) for piece in pieces if any(piece in other for other in texts)), default=0)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_suffixes_are_sorted_up_to_their_end_marks(texts: list[str]) -> None:
    data = b"".join(text.encode() + bytes([END_MARK]) for text in texts)
    order = sort_suffixes(np.frombuffer(data, dtype=np.uint8)).tolist()
    suffixes = [data[place : data.index(END_MARK, place) + 1] for place in order]
    assert sorted(order) == list(range(len(data)))
    assert suffixes == sorted(suffixes)


def test_long_repeats_and_equal_records_are_sorted() -> None:
    text = b"ab" * 300 + bytes([END_MARK])
    data = text * 3 + b"ab" * 299 + bytes([END_MARK])
    order = sort_suffixes(np.frombuffer(data, dtype=np.uint8)).tolist()
    suffixes = [data[place : data.index(END_MARK, place) + 1] for place in order]
    assert suffixes == sorted(suffixes)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXT, st.integers(1, 60))
def test_the_index_equals_plain_search_whatever_the_shards(texts: list[str], text: str, shard: int) -> None:
    index = EideticIndex(records_of(texts), shard_bytes=shard)
    for pattern in {text[:2], text[:5], texts[0][1:4], texts[-1], ""}:
        holders = [f"r{i}" for i, other in enumerate(texts) if pattern in other]
        assert index.count_records(pattern) == len(holders)
        assert index.record_ids(pattern, most=3) == tuple(holders[:3])
    match = index.longest_match(text)
    piece = text[match.start : match.start + match.length]
    assert match.length == slow_longest(text, texts)
    assert match.records == (sum(piece in other for other in texts) if piece else 0)


def test_records_are_counted_and_not_occurrences() -> None:
    texts = ["my id is 7, my id is 7", "no id", "my id is 7"]
    index = EideticIndex(records_of(texts))
    assert index.count_records("my id is 7") == 2
    occurrences = sum(text.count("my id is 7") for text in texts)  # the broken twin
    assert occurrences == 3


def test_a_match_never_crosses_records() -> None:
    index = EideticIndex(records_of(["one two", "three"]))
    assert index.count_records("twothree") == 0
    assert index.longest_match("two three").length == len("three")
    joined = EideticIndex([Record("joined", "one twothree")])  # the broken twin: no end mark between records
    assert joined.count_records("twothree") == 1


def test_the_longest_match_names_its_records_and_no_text_is_shown() -> None:
    texts = ["call 555-1234 now", "call 555-1234 later", "call me"]
    index = EideticIndex(iter(records_of(texts)))
    match = index.longest_match("please call 555-1234 l8r")
    assert (match.length, match.records, match.ids) == (len(" call 555-1234 l"[1:]), 1, ("r1",))
    assert "555" not in repr(index)
    assert "555" not in repr(match)
    assert index.longest_match("ZZZ").length == 0
    assert index.longest_match("").ids == ()


def test_the_index_keeps_five_bytes_a_byte() -> None:
    index = EideticIndex(records_of(["abcdefghij" * 50] * 20), shard_bytes=2_000)
    assert index.memory < 5.2 * index.size
    with pytest.raises(ValueError, match="no record"):
        EideticIndex([])


@pytest.mark.slow
def test_a_real_corpus_is_indexed_exactly(shared: Path) -> None:
    lines = (shared / "data" / "customersim.train.jsonl").read_text(encoding="utf8").splitlines()
    rows = [json.loads(line) for line in lines]
    records = [Record(row["id"], row["text"]) for row in rows]
    index = EideticIndex(records)
    assert index.count_records("My ID is 341752.") == 10
    assert index.memory < 10 * index.size
    for place in range(0, 3_000, 211):
        piece = records[place].text[15:60]
        assert index.count_records(piece) == sum(piece in record.text for record in records)
        assert index.longest_match(records[place].text).length == len(records[place].text)
