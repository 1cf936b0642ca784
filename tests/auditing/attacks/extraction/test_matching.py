"""Longest common substrings and edit distances equal slow, obvious versions."""

import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.auditing.attacks.extraction.matching import (
    TextMatch,
    longest_common_substring,
    match_text,
    prefix_similarity,
)

TEXTS = st.text(alphabet="abé", max_size=24)


def slow_distance(first: str, second: str) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row = row, [i]
        for j, b in enumerate(second, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def slow_common(first: str, second: str) -> int:
    pieces = {first[i:j] for i in range(len(first)) for j in range(i, len(first) + 1)}
    return max((len(piece) for piece in pieces if piece in second), default=0)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_prefix_similarity_equals_the_table(first: str, second: str) -> None:
    if first:
        nearest = min(slow_distance(first, second[:j]) for j in range(len(second) + 1))
        assert prefix_similarity(first, second) == pytest.approx(1.0 - nearest / len(first))


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS)
def test_longest_common_substring_is_common_and_longest(first: str, second: str) -> None:
    found = longest_common_substring(first, second)
    assert found.length == slow_common(first, second)
    assert first[found.first_start :][: found.length] == second[found.second_start :][: found.length]
    tokens = longest_common_substring([ord(c) for c in first], tuple(ord(c) for c in second))
    assert tokens.length == found.length


def test_words_longer_than_a_machine_word_are_exact() -> None:
    first = "abcdefghij" * 30
    second = first[:100] + "X" + first[101:200] + first[203:]
    assert prefix_similarity(first, second) == pytest.approx(1.0 - 4 / 300)
    assert longest_common_substring(first, second).length == slow_length(first, second)


def slow_length(first: str, second: str) -> int:
    best = 0
    for i in range(len(first)):
        while first[i : i + best + 1] in second and i + best < len(first):
            best += 1
    return best


def test_what_follows_the_target_is_not_held_against_a_generation() -> None:
    assert match_text("the code", "the code and much more") == TextMatch(True, 1.0, 8)
    near = match_text("the code", "the  code and much more")
    assert not near.verbatim
    assert near.similarity == pytest.approx(1.0 - 1.0 / 8.0)
    assert near.common == 5  # " code"
    assert match_text("abc", "") == TextMatch(False, 0.0, 0)
    with pytest.raises(ValueError, match="empty target"):
        match_text("", "anything")


def test_a_thousand_characters_take_thousands_of_steps() -> None:
    """The table would take 10^6 lines of Python."""
    first, second = "abcdefghij" * 100, "abdcefghji" * 100
    assert lines_run(lambda: prefix_similarity(first, second)) < 50_000
    assert lines_run(lambda: longest_common_substring(first, second)) < 50_000

    def plain_table() -> None:  # the slow twin, of a tenth of the text
        for _ in first[:300]:
            for _ in second[:300]:
                pass

    assert lines_run(plain_table) > 50_000


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a call runs."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count
