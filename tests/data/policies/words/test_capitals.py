"""Runs of capitalised words: what is one, what is not, and that masking one leaves the others."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reticent.core.corpus import Policy
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.circumstances import Circumstances
from reticent.data.policies.words.capitals import LEGAL_WORDS, CapitalRuns
from tests.data.policies.locality import broken_locality

PIECES = [
    "Ada", "Byron", " ", " ", " ", "of", "the", "The", "In", "x", ",", ".", "(", ")", "“", "”", "-", "’", "12",
    "A.", "<MASK>", "<", ">", "\n", "Court", "Article", "Mr", "§", "De", "de", "seven", "years", "€", "80",
    "EUR", "euros", "persons", "lawyer", "1926", "no.", "aged", "a", "old", "'s", "’s", "[", "]", "a@b.co",
    "555-123-4567",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)


def found(policy: Policy, text: str) -> list[str]:
    return [text[span.start : span.end] for span in policy.find([text])[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The applicant, Mr Edgar Klein, was born", ["Mr Edgar Klein"]),
        ("In the Moers District Court (Amtsgericht) he", ["Moers District Court (Amtsgericht)"]),
        ("lives in Großbottwar, Germany.", ["Großbottwar, Germany"]),
        ("the University of the Aegean said", ["University of the Aegean"]),
        ("represented by Mr F.L. and Mr C.-H. Ehrenkrona", ["Mr F.L. and Mr C.-H. Ehrenkrona"]),
        ("at the “Eastern University” there", ["“Eastern University”"]),
        ("However, it was not so. They left.", []),
        ("call 555 now", ["555"]),
        ("", []),
        ("eBay and iPhone users", ["eBay and iPhone"]),
        ("<MASK> and <PHONE> stay", []),
        ("a <JOHN> in brackets is no mask", ["JOHN"]),
    ],
)
def test_runs_are_found_whole(text, expected):
    assert found(CapitalRuns(), text) == expected


def test_small_letters_are_missed_and_numbers_where_asked():
    assert found(CapitalRuns(), "ada byron") == []
    assert found(CapitalRuns(digits=False), "Ada and 1926") == ["Ada"]


def test_words_of_law_alone_are_left_and_with_a_name_are_not():
    policy = CapitalRuns(ordinary=LEGAL_WORDS)
    assert found(policy, "under Article 6 § 1 of the Convention the Court") == []
    assert found(policy, "the Moers District Court sat") == ["Moers District Court"]
    assert found(policy, "no. 33379/96") == ["33379/96"]


@pytest.mark.parametrize(
    "policy",
    [
        CapitalRuns(),
        CapitalRuns(ordinary=LEGAL_WORDS),
        Circumstances(),
        UnionPolicy(
            [
                CapitalRuns(),
                Circumstances(),
                Dictionary({"Byron": "NAME", "seven": "WORD", "12": "NUMBER", "x": "WORD"}),
            ]
        ),
    ],
    ids=lambda policy: policy.name,
)
@given(text=texts)
@settings(max_examples=150, deadline=None)
@example(text="80 euros (EUR)seven years")
@example(text="“Ada” “Byron”")
@example(text="Ada of 12 Byron.A.”")
@example(text="in 1999.2004.1926")
@example(text="80 euros (twenty-five years and nine months EUR)")
def test_masking_a_span_leaves_the_others(policy, text):
    assert policy.is_local
    assert broken_locality(policy, text) == []


class AfterAda:
    """The broken twin: finds a word only where "Ada" stands before it."""

    name = "after Ada"
    is_local = True

    def find(self, texts):
        return [tuple(s for s in CapitalRuns().find([t])[0] if "Ada" in t[: s.end]) for t in texts]


def test_locality_check_catches_a_policy_that_reads_what_stands_before():
    assert broken_locality(CapitalRuns(), "x Ada\nByron x") == []
    assert broken_locality(AfterAda(), "x Ada\nByron x") == [(2, 5)]
