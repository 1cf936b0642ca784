"""Expressions that are tried at chosen places find what they find everywhere."""

import re

from hypothesis import given
from hypothesis import strategies as st

from reticent.data.policies.shapes.stretches import Begun

TEXTS = st.text(alphabet="ab1 -$(é", max_size=40)


@given(text=TEXTS, start=st.integers(0, 40), length=st.integers(0, 40))
def test_a_begun_expression_finds_what_a_search_everywhere_finds(text, start, length):
    pattern = r"[$(]?[a1](?:[ -]?[ab1])*"
    everywhere = re.compile(rf"(?:(?<!\w)|(?!\w))(?:{pattern})")
    begun = Begun("a1$(", pattern)
    bounds = min(start, len(text)), min(start + length, len(text))
    assert [match.span() for match in begun.finditer(text, *bounds)] == [
        match.span() for match in everywhere.finditer(text, *bounds)
    ]


def test_characters_that_are_not_said_to_begin_a_match_hide_it():
    assert not list(Begun("b", "[ab]+").finditer("aab", 0, 3))
    assert [match.span() for match in Begun("a", "[ab]+").finditer("aab ab", 0, 6)] == [(0, 3), (4, 6)]
