"""Word lists, gold labels, unions and deliberate misses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.known_policies import GoldLabels, RandomMiss
from reticent.core.corpus import Policy, Record, Span
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.data.redaction.masking import MASK, merge_spans
from tests.data.policies.locality import broken_locality
from tests.growth import growth

WORDS = ["New", "York", "Times", "Ada", "ada", "O'Brien", "von", "Ada-Lee", "x"]
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
texts = st.lists(st.sampled_from([*WORDS, " ", " ", "  ", "-", ".", "_"]), max_size=10).map("".join)


def is_word(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")


def slow(text: str, entries: list[str]) -> tuple[Span, ...]:
    """The oracle: try every entry at every place."""
    spans = [
        Span(n, n + len(entry), "W")
        for entry in entries
        for n in range(len(text))
        if text.startswith(entry, n) and not is_word(text, n - 1) and not is_word(text, n + len(entry))
    ]
    return merge_spans(spans)


@given(texts, st.lists(phrases, min_size=1, max_size=4))
def test_dictionary_equals_the_slow_version(text, entries):
    text = " ".join(text.split(" "))
    while "  " in text:
        text = text.replace("  ", " ")
    assert Dictionary(dict.fromkeys(entries, "W")).find([text]) == [slow(text, entries)]


def test_dictionary_finds_phrases_across_white_space_and_case_where_asked():
    policy = Dictionary({"New York": "CITY", "Jr.": "TITLE"}, ignore_case=True)
    text = "NEW\nYORK, york, Bob jr. and newyork"
    assert [text[s.start : s.end] for s in policy.find([text])[0]] == ["NEW\nYORK", "jr"]
    assert Dictionary({"New York": "CITY"}).find(["new york"]) == [()]


def test_overlapping_entries_are_merged_so_that_none_hides_another():
    policy = Dictionary({"New York": "CITY", "York Times": "PAPER"})
    assert policy.find(["New York Times"]) == [(Span(0, 14, "PAPER"),)]


@given(texts, st.lists(phrases, min_size=1, max_size=4))
def test_dictionary_is_local(text, entries):
    policy = Dictionary(dict.fromkeys(entries, "W"))
    (spans,) = policy.find([text])
    for masked in spans:
        shift = len(MASK) - (masked.end - masked.start)
        after = policy.find([text[: masked.start] + MASK + text[masked.end :]])[0]
        others = [s for s in spans if s != masked]
        moved = [
            (s.start + shift * (s.start > masked.start), s.end + shift * (s.start > masked.start)) for s in others
        ]
        assert [(s.start, s.end) for s in after] == moved


def test_entry_without_a_letter_is_refused():
    with pytest.raises(ValueError):
        Dictionary({"--": "W"})


def test_a_large_dictionary_is_as_quick_as_a_small_one():
    def find(entries: int) -> None:
        (spans,) = policies[entries].find(["name7 family7 and name8 family9 " * 500])
        assert len(spans) == 500

    policies = {size: Dictionary({f"name{n} family{n}": "NAME" for n in range(size)}) for size in (100, 20_000)}
    assert growth(find, 100, times=200) < 0.5


def test_gold_labels_are_found_and_those_left_in_clear_are_not():
    records = [Record("a", "Ada met Bob", spans=(Span(0, 3, "NAME", "direct"), Span(8, 11, "NAME", "none")))]
    policy = GoldLabels(records)
    assert policy.find(["Ada met Bob"]) == [(Span(0, 3, "NAME", "direct"),)]


def test_text_without_labels_is_an_error_that_does_not_show_it():
    with pytest.raises(ValueError, match="without gold labels") as caught:
        GoldLabels([Record("a", "Ada")]).find(["Zebedee"])
    assert "Zebedee" not in str(caught.value)


def test_equal_texts_with_other_labels_are_refused():
    with pytest.raises(ValueError, match="record b"):
        GoldLabels([Record("a", "Ada"), Record("b", "Ada", spans=(Span(0, 3, "NAME"),))])


def test_union_merges_and_is_local_only_where_no_part_reads_what_another_may_mask():
    names = Dictionary({"Ada": "NAME", "tracking": "WORD"})
    both = UnionPolicy([names, PatternPolicy()])
    text = "Ada: 555-123-4567"
    assert both.find([text]) == [(Span(0, 3, "NAME"), Span(5, 17, "PHONE"))]
    assert not both.is_local
    assert UnionPolicy([names, CapitalRuns()]).is_local
    assert UnionPolicy([PatternPolicy()]).is_local
    # Why: masking the word that announces the code hides the code from the patterns.
    announced = "tracking number MBUQBNGDNM"
    assert len(both.find([announced])[0]) == 2
    assert both.find([announced.replace("tracking", MASK)]) == [()]
    with pytest.raises(ValueError):
        UnionPolicy([])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([Dictionary({"12": "N"}), PatternPolicy(context=False)], "555-010-0199:12"),
        ([PatternPolicy(context=False), Circumstances()], "2004:192.168.0.1"),
        ([PatternPolicy(context=False), Circumstances(), CapitalRuns()], "at 10:30 to 14 May"),
        (
            [Dictionary({"Ada": "N"}), RandomMiss(Dictionary({"Ada Lee": "N", "Lee": "N"}), 0.5, key=b"d")],
            "Ada Lee",
        ),
    ],
)
def test_a_union_whose_parts_read_what_another_masks_is_not_local(parts, text):
    union = UnionPolicy(parts)
    assert broken_locality(union, text)
    assert not union.is_local


def contextual() -> Policy:
    class Contextual:
        name = "contextual"
        is_local = False

        def find(self, texts):
            return [() for _ in texts]

    return Contextual()


def test_union_and_misses_are_not_local_over_a_policy_that_is_not():
    assert not UnionPolicy([Dictionary({"a": "W"}), contextual()]).is_local
    assert not RandomMiss(contextual(), 0.1, key=b"k").is_local


TEXTS = [f"number {n}: 555-123-{n:04}" for n in range(4000)]


@pytest.mark.parametrize("unit", ["secret", "mention"])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
def test_share_missed_is_the_rate(rate, unit):
    policy = RandomMiss(PatternPolicy(kinds=["PHONE"]), rate, key=b"k", unit=unit)
    missed = sum(not spans for spans in policy.find(TEXTS))
    # Binomial: five standard deviations, false alarm 6e-7.
    assert abs(missed - 4000 * rate) <= 5 * (4000 * rate * (1 - rate)) ** 0.5


def test_secret_is_missed_everywhere_or_nowhere_and_mentions_independently():
    mentions = [f"{n}. call 555-123-4567" for n in range(1000)]
    patterns = PatternPolicy(kinds=["PHONE"])
    together = {len(spans) for spans in RandomMiss(patterns, 0.5, key=b"k").find(mentions)}
    assert len(together) == 1
    apart = RandomMiss(patterns, 0.5, key=b"k", unit="mention")
    missed = sum(not spans for spans in apart.find(mentions))
    assert 420 < missed < 580  # five standard deviations of 16
    assert not apart.is_local
    assert RandomMiss(patterns, 0.5, key=b"k").is_local


def test_misses_depend_on_the_key_and_grow_with_the_rate():
    patterns = PatternPolicy(kinds=["PHONE"])

    def missed(rate: float, key: bytes) -> set[int]:
        return {n for n, spans in enumerate(RandomMiss(patterns, rate, key=key).find(TEXTS)) if not spans}

    assert missed(0.1, b"k") < missed(0.3, b"k")
    assert missed(0.1, b"k") != missed(0.1, b"other")


@pytest.mark.parametrize(("rate", "key"), [(-0.1, b"k"), (1.1, b"k"), (float("nan"), b"k"), (0.1, b"")])
def test_impossible_miss_is_refused(rate, key):
    with pytest.raises(ValueError):
        RandomMiss(PatternPolicy(), rate, key=key)


def test_policies_keep_the_protocol_and_show_nothing():
    gold = GoldLabels([Record("a", "Ada", spans=(Span(0, 3, "NAME"),))])
    names = Dictionary({"Ada": "NAME"})
    for policy in (gold, names, UnionPolicy([gold, names]), RandomMiss(names, 0.1, key=b"k")):
        assert isinstance(policy, Policy)
        assert "Ada" not in repr(policy)
