"""Figures of a synthetic corpus: against slow, obvious counts, and on texts whose figures are known."""

import string

from hypothesis import given
from hypothesis import strategies as st

from reticent.core.corpus import Corpus, Record
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.runs.synthesis.figures import closeness, figures_of
from reticent.runs.synthesis.sources import Drawn

WORDS = st.lists(st.sampled_from("ab"), max_size=8).map(" ".join)


def corpus(*texts):
    return Corpus(Record(f"r{place}", text) for place, text in enumerate(texts))


def phrases(text, length):
    """The slow way: every stretch of so many words."""
    words = text.split()
    return [" ".join(words[start : start + length]) for start in range(len(words)) if start + length <= len(words)]


@given(st.lists(WORDS.filter(str.strip), min_size=1, max_size=6))
def test_the_share_of_distinct_phrases_is_that_of_a_list_of_them_all(texts):
    found = figures_of(corpus(*texts), [Drawn(text, 1, True) for text in texts], PatternPolicy()).distinct
    for length in (1, 2, 3):
        listed = [phrase for text in texts for phrase in phrases(text, length)]
        assert found[str(length)] == (len(set(listed)) / len(listed) if listed else 0.0)


@given(st.lists(WORDS, min_size=1, max_size=6), st.lists(WORDS, min_size=1, max_size=6))
def test_phrases_in_common_are_those_of_both_lists(ours, theirs):
    found = closeness(corpus(*ours), corpus(*theirs))
    mine, others = ({phrase for text in texts for phrase in phrases(text, 4)} for texts in (ours, theirs))
    assert found.phrases_found == (len(mine & others) / len(mine) if mine else 0.0)
    assert found.phrases_covered == (len(mine & others) / len(others) if others else 0.0)
    assert found.equal_texts == len([text for text in ours if text in theirs])


def test_counts_of_texts_that_are_known():
    texts = ["call 030 12345678 now", "hello there", "hello there"]
    drawn = [Drawn(texts[0], 9, False), Drawn("", 0, True), Drawn(texts[1], 4, True), Drawn(texts[2], 3, True)]
    found = figures_of(corpus(*texts), drawn, PatternPolicy())
    assert (found.records, found.tokens, found.shortest, found.median, found.longest) == (3, 16, 3, 4, 9)
    assert (found.cut, found.empty, found.duplicates) == (1, 1, 1)
    assert found.sensitive_records == 1
    assert sum(found.spans.values()) >= 1
    assert all(set(kind) <= {*string.ascii_uppercase, "_"} for kind in found.spans)  # kinds, never values
