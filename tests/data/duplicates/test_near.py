"""Near duplicates: the estimate against exact Jaccard, marks against a slow oracle, exact repeats on disk."""

import math
import random
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.corpus import Record
from reticent.data.duplicates import digest_counts
from reticent.data.duplicates.digest_counts import DigestCounts, DigestSet
from reticent.data.duplicates.disk_column import DiskColumn
from reticent.data.duplicates.near import BINS, SHINGLE, band_rows, near_repeats, signatures, similarity
from reticent.data.duplicates.repeats import repeated_texts, unmarked
from tests.data.duplicates.in_memory import deduplicate

WORDS = [f"word{number}" for number in range(400)]


def shingles(text: str) -> set[bytes]:
    """The slow, obvious set."""
    data = " ".join(text.casefold().split()).encode().ljust(SHINGLE, b"\0")
    return {data[place : place + SHINGLE] for place in range(len(data) - SHINGLE + 1)}


def jaccard(first: str, second: str) -> float:
    one, two = shingles(first), shingles(second)
    return len(one & two) / len(one | two)


def text_of(source: random.Random, words: int) -> str:
    return " ".join(source.choice(WORDS) for _ in range(words))


def changed(source: random.Random, text: str, share: float) -> str:
    return " ".join(source.choice(WORDS) if source.random() < share else word for word in text.split())


def pairs(count: int, words: int, share: float) -> list[tuple[str, str]]:
    source = random.Random(5)
    firsts = [text_of(source, words) for _ in range(count)]
    return [(first, changed(source, first, share)) for first in firsts]


def error_in_deviations(estimate, truth, count: int) -> float:
    """The mean error of the estimates, in standard deviations of such a mean by the classical variance."""
    deviation = math.sqrt(np.mean([value * (1 - value) / BINS for value in truth]) / count)
    return abs(float(np.mean(estimate - np.array(truth)))) / deviation


@pytest.mark.parametrize("words", [6, 80, 400])
def test_estimates_have_no_bias_for_short_and_long_texts(words):
    # 200 pairs. Bins shared by short texts widen the deviation, by less than 2 here: 10 classical ones are more
    # than 5 true ones, a false alarm in 10^6 seeds.
    made = pairs(200, words, 0.15)
    estimate = similarity(signatures([a for a, _ in made]), signatures([b for _, b in made]))
    truth = [jaccard(a, b) for a, b in made]
    assert error_in_deviations(estimate, truth, 200) < 10
    assert np.sqrt(np.mean((estimate - truth) ** 2)) < (0.15 if words == 6 else 0.06)


def test_an_estimate_that_leaves_empty_bins_as_they_are_is_caught():
    made = pairs(200, 6, 0.15)
    firsts, seconds = ([_undensified(text) for text in side] for side in zip(*made, strict=True))
    biased = similarity(np.array(firsts), np.array(seconds))  # empty bins of both agree: far too alike
    truth = [jaccard(a, b) for a, b in made]
    assert error_in_deviations(biased, truth, 200) > 10


def _undensified(text: str):
    """The broken twin: bins without a shingle hold a mark that equals itself."""
    import hashlib

    least = np.full(BINS, 2**32 - 1, dtype=np.uint32)
    for shingle in shingles(text):
        value = int.from_bytes(hashlib.blake2b(shingle, digest_size=8).digest(), "big")
        least[value >> 57] = min(least[value >> 57], value & 0x7FFFFFFF)
    return least


def test_a_signature_does_not_depend_on_the_other_texts_of_its_batch():
    texts = [text_of(random.Random(number), 3 + number) for number in range(20)]
    together = signatures(texts)
    assert all(np.array_equal(signatures([text])[0], row) for text, row in zip(texts, together, strict=True))
    assert np.array_equal(signatures(["A  b\nC d e f g"]), signatures(["a b c d e f g"]))


def records_of(texts) -> list[Record]:
    return [Record(f"r{number}", text) for number, text in enumerate(texts)]


def test_alike_texts_are_marked_and_others_stay_whatever_the_size_of_parts(tmp_path):
    source = random.Random(3)
    originals = [text_of(source, 60) for _ in range(150)]
    copies = [text + " ." for text in originals[::2]]
    strangers = [text_of(source, 60) for _ in range(50)]
    texts = [*originals, *copies, *strangers]
    whole = near_repeats(records_of(texts), tmp_path, threshold=0.8)
    assert whole.tolist() == [False] * 150 + [True] * 75 + [False] * 50
    assert np.array_equal(near_repeats(records_of(texts), tmp_path, threshold=0.8, part_rows=40), whole)


def test_a_crowd_of_one_band_is_compared_with_every_different_text_of_it(tmp_path):
    # Two families that share most of their text, so that they meet in bands, but are not alike by the threshold.
    source = random.Random(8)
    common = text_of(source, 60)
    families = [f"{common} {text_of(source, 12)}" for _ in range(2)]
    assert jaccard(*families) < 0.85
    texts = [families[number % 2] + f" {number}" for number in range(40)]
    marks = near_repeats(records_of(texts), tmp_path, threshold=0.9)
    assert marks.tolist() == [False, False] + [True] * 38


def test_a_pair_at_the_threshold_meets_in_a_band():
    for threshold in (0.3, 0.5, 0.8, 0.95, 1.0):
        rows = band_rows(threshold)
        assert 1 - (1 - threshold**rows) ** (BINS // rows) >= 0.99
    with pytest.raises(ValueError, match="threshold"):
        near_repeats([], None, threshold=0.0)


@given(st.lists(st.sampled_from(["a", "b", "a ", "A", "c"]), max_size=14), st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_repeats_found_on_disk_are_those_found_in_memory(tmp_path_factory, values, part_rows):
    records = records_of(values)
    marks = repeated_texts(records, tmp_path_factory.mktemp("repeats"), part_rows=part_rows)
    assert list(unmarked(records, marks)) == list(deduplicate(records))


def test_rows_come_back_by_place_and_every_row_is_in_one_part(tmp_path):
    rows = np.arange(300, dtype=np.uint64).reshape(100, 3)
    with DiskColumn(tmp_path / "column", np.uint64, width=3) as column:
        column.append(rows[:60])
        column.append(rows[60:])
        assert len(column) == 100
        assert np.array_equal(column.at(np.array([7, 99, 0])), rows[[7, 99, 0]])
        parts = list(column.parts(rows=30))
    assert len(parts) == 4
    assert sorted(np.concatenate([places for places, _ in parts]).tolist()) == list(range(100))
    for places, found in parts:
        assert np.array_equal(found, rows[places])
        assert len(set((found[:, 0] % np.uint64(4)).tolist())) == 1


@given(st.lists(st.sampled_from(["a", "b", "c", "dd", ""]), max_size=30), st.integers(1, 5))
def test_counts_by_digest_equal_counts_by_string(values, buffer):
    counts = DigestCounts(buffer=buffer)
    for value in values:
        counts.add(value)
    assert (counts.seen, counts.distinct, counts.repeated) == (
        len(values),
        len(set(values)),
        len(values) - len(set(values)),
    )
    assert counts.most == max((values.count(value) for value in values), default=0)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=40), st.integers(1, 7))
def test_a_set_of_digests_is_a_set(values, recent):
    ours, truth = DigestSet(recent=recent), set()
    with mock.patch.object(digest_counts, "_digest", int):  # every number can be a digest
        for value in values:
            assert ours.add(str(value)) is (value not in truth)
            truth.add(value)
    assert len(ours) == len(truth)
