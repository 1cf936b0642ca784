"""Redaction: nothing of a span stays, masks collapse, twice is once, offsets lead back, labels move along."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reticent.core.corpus import Record, Span
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.redaction.masking import (
    MASK,
    MaskStyle,
    mask_for,
    merge_spans,
    redact,
    redact_record,
    redact_records,
)

PIECES = [
    "call ",
    "555-123-4567",
    " ",
    "\t",
    "Ada",
    "Ada Byron",
    "a@b.com",
    MASK,
    "<PHONE>",
    "<",
    ">",
    "x",
    "\n",
    "MASK",
]
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join).filter(str.strip)
# "mask" and "phone" are entries that lie inside masks.
NAMES = Dictionary({"Ada": "NAME", "Byron": "NAME", "mask": "WORD", "phone": "PHONE"}, ignore_case=True)
POLICY = UnionPolicy([PatternPolicy(context=False), NAMES])


@st.composite
def labelled(draw) -> tuple[str, tuple[Span, ...]]:
    """A text and spans of it, overlapping or not."""
    text = draw(st.text("ab \t\n<MASK>", min_size=1, max_size=25))
    edges = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text))).filter(lambda e: e[0] < e[1])
    kinds = st.sampled_from(["NAME", "phone"])
    return text, tuple(draw(st.lists(st.builds(lambda e, k: Span(*e, k), edges, kinds), max_size=4)))


def by_character(text: str, spans) -> str:
    """The slow oracle for texts without masks: mark each hidden character, then one mask for each run of marks."""
    hidden = [any(s.start <= n < s.end for s in spans) for n in range(len(text))]
    marked = "".join("\x00" if hidden[n] else c for n, c in enumerate(text))
    return re.sub("\x00(?:[ \t\x00]*\x00)?", MASK, marked)


@given(labelled())
def test_redaction_equals_the_slow_version(case):
    text, spans = case
    text = text.replace("<", "c")
    assert redact(text, spans).text == by_character(text, spans)


@given(texts, st.sampled_from(MaskStyle))
@settings(max_examples=400, deadline=None)
@example("<PHONE> 555-123-4567 MASK", MaskStyle.KIND)
@example("Ada <MASK> Byron", MaskStyle.UNIFORM)
def test_redacting_twice_is_redacting_once(text, style):
    (once,) = redact_records([Record("r", text)], POLICY, style=style)
    (twice,) = redact_records([once], POLICY, style=style)
    assert twice.text == once.text


def test_idempotence_check_catches_a_redaction_that_does_not_know_masks():
    def naive(text: str) -> str:
        return re.sub("(?i)ada|mask", MASK, text)

    assert naive(naive("Ada")) != naive("Ada")


@given(texts)
@settings(max_examples=400, deadline=None)
def test_a_secret_or_a_mask_in_its_place_gives_the_same_text(text):
    # The neighbours of a confidentiality guarantee: D, and D with one finding replaced by the mask.
    policy = PatternPolicy()
    (spans,) = policy.find([text])
    for span in spans:
        neighbour = text[: span.start] + MASK + text[span.end :]
        assert redact(neighbour, policy.find([neighbour])[0]).text == redact(text, spans).text


@given(labelled())
def test_nothing_of_a_span_stays_and_offsets_lead_to_it(case):
    text, spans = case
    result = redact(text, spans)
    for r in result.replacements:
        assert result.text[r.new_start : r.new_end] == MASK
    # What lies outside all replacements is the same, character by character.
    hidden = {n for r in result.replacements for n in range(r.start, r.end)}
    for place in set(range(len(text))) - hidden:
        start, end = result.to_redacted(place, place + 1)
        assert result.text[start:end] == text[place]
    for span in spans:
        assert set(range(span.start, span.end)) <= hidden
        start, end = result.to_redacted(span.start, span.end)
        assert result.text[start:end] == MASK


@given(labelled())
def test_merged_spans_cover_the_same_characters_without_overlap(case):
    _, spans = case
    merged = merge_spans(spans)
    assert {n for s in merged for n in range(s.start, s.end)} == {n for s in spans for n in range(s.start, s.end)}
    assert all(not a.overlaps(b) for n, a in enumerate(merged) for b in merged[n + 1 :])
    assert merge_spans(merged) == merged


def test_merged_span_has_the_kind_of_the_longest():
    assert merge_spans([Span(0, 3, "A"), Span(2, 9, "B"), Span(8, 10, "C")]) == (Span(0, 10, "B"),)
    assert merge_spans([Span(0, 3, "A"), Span(3, 5, "B")]) == (Span(0, 3, "A"), Span(3, 5, "B"))


def test_adjacent_masks_collapse_but_lines_stay_apart():
    text = "Ada Byron\nAda, Byron"
    spans = NAMES.find([text])[0]
    assert redact(text, spans).text == f"{MASK}\n{MASK}, {MASK}"


def test_masks_by_kind_collapse_only_with_their_own():
    text = "Ada Byron 555-123-4567"
    assert redact(text, POLICY.find([text])[0], style=MaskStyle.KIND).text == "<NAME> <PHONE>"
    assert mask_for("credit card") == "<CREDIT_CARD>"


def test_labels_that_were_missed_move_along_and_covered_ones_go():
    text = "Ada of 555-123-4567 knows Bob Stone"
    labels = (Span(0, 3, "NAME"), Span(7, 19, "PHONE"), Span(26, 35, "NAME", "direct"))
    record = Record("r", text, owner="o", spans=labels)
    result = redact_record(record, [Span(7, 19, "PHONE"), Span(26, 29, "NAME")])
    assert result.text == f"Ada of {MASK} knows {MASK} Stone"
    assert result.owner == "o"
    assert [result.text[s.start : s.end] for s in result.spans] == ["Ada", f"{MASK} Stone"]
    assert result.spans[1].identifier == "direct"


def test_text_that_is_a_secret_altogether_becomes_a_mask():
    assert redact("Ada", [Span(0, 3, "NAME")]).text == MASK
    assert redact("Ada", []).text == "Ada"


def test_span_past_the_text_is_refused():
    with pytest.raises(ValueError):
        redact("Ada", [Span(0, 4, "NAME")])


def test_repr_shows_no_text():
    assert "Ada" not in repr(redact("Ada Byron", [Span(4, 9, "NAME")]))
