"""Quasi identifiers by their wording; their locality is tested with the capitals'."""

import pytest

from reticent.data.policies.shapes.circumstances import Circumstances
from tests.growth import growth


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("born in 1926 and", [("YEAR", "1926")]),
        ("for three years and nine months’ work", [("DURATION", "three years and nine months’")]),
        ("a 35-year-old man", [("DURATION", "35-year-old")]),
        ("was aged 41 then", [("DURATION", "aged 41")]),
        ("paid 141 Deutsch Mark (DEM) once", [("AMOUNT", "141 Deutsch Mark (DEM)")]),
        ("paid EUR 2,826.50 once", [("AMOUNT", "EUR 2,826.50")]),
        ("and seven other persons were", [("COUNT", "seven other persons")]),
        ("is a Cypriot national who", [("ORIGIN", "Cypriot national")]),
        ("is a primary school teacher there", [("OCCUPATION", "a primary school teacher")]),
        ("Retired officers came", [("OCCUPATION", "Retired officers")]),
        ("suffers from paranoid schizophrenia now", [("HEALTH", "paranoid schizophrenia")]),
        ("a fracture of the left kneecap was", [("HEALTH", "fracture of the left kneecap")]),
        ("owns plot no. 900 of block D there", [("NUMBERED", "plot no. 900 of block D")]),
        ("nothing of the kind", []),
    ],
)
def test_each_kind_is_found_whole(text, expected):
    (spans,) = Circumstances().find([text])
    assert [(s.kind, text[s.start : s.end]) for s in spans] == expected


def test_kinds_can_be_chosen_and_unknown_ones_are_refused():
    assert Circumstances(kinds=["YEAR"]).find(["in 1926, aged 41"])[0][0].kind == "YEAR"
    assert len(Circumstances(kinds=["YEAR"]).find(["in 1926, aged 41"])[0]) == 1
    with pytest.raises(ValueError, match="HEIGHT"):
        Circumstances(kinds=["HEIGHT"])


def test_masks_of_its_own_kinds_are_no_words():
    assert Circumstances().find(["<OCCUPATION> and <MASK>"]) == [()]


@pytest.mark.parametrize("piece", ["one ", "twenty-", "a" * 10, "1," * 5, "(" * 5, "former senior "])
def test_time_grows_with_the_length_and_not_faster(piece):
    policy = Circumstances()
    assert growth(lambda count: policy.find([piece * count]), 500) < 1.5
