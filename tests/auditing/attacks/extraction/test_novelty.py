"""N-gram novelty equals sets of n-grams; copies have none, and null data shows no gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.auditing.attacks.extraction.findings import novelty_findings
from reticent.auditing.attacks.extraction.novelty import NGramIndex, words
from reticent.auditing.metrics.intervals import APPROXIMATE
from reticent.core.corpus import Record

TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12).map(" ".join), min_size=1, max_size=5)


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    split = words(text)
    return [tuple(split[i : i + n]) for i in range(len(split) - n + 1)]


def index_of(texts: list[str], longest: int = 4) -> NGramIndex:
    return NGramIndex((Record(f"r{i}", text) for i, text in enumerate(texts)), longest=longest)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_novelty_equals_sets_of_ngrams(training: list[str], generated: list[str]) -> None:
    novelty = index_of(training).novelty(generated)
    for n in range(1, 5):
        known = {gram for text in training for gram in ngrams(text, n)}
        assert novelty.total[:, n - 1].tolist() == [len(ngrams(text, n)) for text in generated]
        assert novelty.novel[:, n - 1].tolist() == [
            sum(gram not in known for gram in ngrams(text, n)) for text in generated
        ]


def test_copies_have_no_novelty_and_strangers_nothing_else() -> None:
    texts = ["the cat sat on the mat.", "a dog ran to the door!"]
    index = index_of(texts)
    assert [index.novelty(texts).share(n) for n in (1, 2, 3, 4)] == [0.0] * 4
    assert [index.novelty(["zu viel des guten"]).share(n) for n in (1, 2, 3, 4)] == [1.0] * 4
    # Known words in an unknown order; and n-grams do not run from one record into the next.
    assert index.novelty(["mat. a dog"]).novel.tolist() == [[0, 1, 2, 1]]
    with pytest.raises(ValueError, match="no 4-gram"):
        index.novelty(["too short"]).share(4)


def markov_texts(count: int, seed: int, length: int = 30) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{symbol}" for symbol in rng.integers(6, size=length)) for _ in range(count)]


def test_novelty_of_independent_text_has_its_closed_form() -> None:
    """An n-gram of V = 6 words is missing from m = 270 independent ones with chance about (1 − 6^-3)^m."""
    novelty = index_of(markov_texts(10, 0, length=29), 3).novelty(markov_texts(400, 1))
    expected = (1.0 - 6.0**-3) ** 270
    # One index decides for all texts: the deviation over indices is about √(216 q(1 − q))/216 = 0.031; 4 of them.
    assert novelty.share(3) == pytest.approx(expected, abs=0.125)


def test_copied_text_shows_a_gap_and_null_data_does_not() -> None:
    """20 null trials at 5 %: more than 4 alarms have chance 3e-3."""
    alarms = 0
    for seed in range(20):
        index = index_of(markov_texts(15, 10 * seed), 5)
        held_out = index.novelty(markov_texts(25, 10 * seed + 1))
        same = index.novelty(markov_texts(25, 10 * seed + 2))
        found = novelty_findings(same, held_out, sizes=(4,))
        alarms += any(finding.beats_null for finding in found)
        if seed == 0:
            copied = index.novelty(markov_texts(15, 0))
            gaps = novelty_findings(copied, held_out, sizes=(3, 4))
            assert all(finding.beats_null for finding in gaps)
            assert all(APPROXIMATE in finding.notes for finding in gaps)
            assert gaps[1].value == pytest.approx(held_out.share(4))
    assert alarms <= 4


def test_too_few_texts_void_the_finding_and_no_ngram_gives_none() -> None:
    index = index_of(markov_texts(15, 0), 5)
    few = index.novelty(markov_texts(3, 0))
    (finding,) = novelty_findings(few, index.novelty(markov_texts(20, 1)), sizes=(5,))
    assert finding.void
    assert not finding.beats_null
    short = index.novelty(["w1 w2"] * 20)
    assert novelty_findings(short, short, sizes=(5,)) == ()


def test_intervals_cover_the_share_and_shrink_with_more_texts() -> None:
    index = index_of(markov_texts(15, 0), 4)
    widths = []
    for count in (20, 200):
        novelty = index.novelty(markov_texts(count, 3))
        low, high = novelty.ratio(4).interval()
        assert low <= novelty.share(4) <= high
        widths.append(high - low)
    assert widths[1] < 0.6 * widths[0]
