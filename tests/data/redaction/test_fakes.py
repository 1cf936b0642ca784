"""Fakes: one for each value, other than it, of its class and rough shape, and different under another key."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.data.policies.shapes.checksums import iban, luhn
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.redaction.fakes import Fakes

FAKES = Fakes(b"k" * 32)
KINDS = ["PERSON", "LOC", "ORG", "EMAIL", "DATE", "CODE", "PHONE", "CAPITALS"]


@given(st.text(min_size=1, max_size=30), st.sampled_from(KINDS))
def test_fake_is_never_the_value_and_always_the_same(value, kind):
    assert FAKES.fake(value, kind) != value
    assert FAKES.fake(value, kind) == Fakes(b"k" * 32).fake(value, kind)


def test_case_and_white_space_do_not_make_another_person():
    fake = FAKES.fake("Ada Byron", "PERSON")
    assert FAKES.fake("Ada  Byron", "PERSON") == fake
    assert FAKES.fake("ADA BYRON", "PERSON") == fake.upper()
    assert FAKES.fake("ada byron", "PERSON") == fake.lower()


def test_another_key_gives_other_fakes():
    values = [f"Ada Byron{n}" for n in range(50)]
    other = Fakes(b"o" * 32)
    assert sum(FAKES.fake(v, "PERSON") == other.fake(v, "PERSON") for v in values) <= 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("EMAIL", "ada@byron.org"),
        ("CARD", "4111 1111 1111 1111"),
        ("IBAN", "DE89 3704 0044 0532 0130 00"),
        ("IP", "10.1.2.3"),
        ("PHONE", "415-555-2671"),
        ("ORDER", "843-58572-7002"),
        ("DATE", "31 May 1991"),
        ("DATE", "2024-01-31"),
    ],
)
def test_fake_is_found_again_as_its_kind(kind, value):
    fake = FAKES.fake(value, kind)
    assert {span.kind for span in PatternPolicy().find([f"x {fake} y"])[0]} == {kind}


def test_checksums_are_right_and_reserved_ranges_are_used():
    for n in range(30):
        card = FAKES.fake(f"4111-1111-1111-{1111 + n}", "CREDIT_CARD")
        assert luhn(re.sub(r"\D", "", card))
        assert re.fullmatch(r"\d{4}-\d{4}-\d{4}-\d{4}", card)
    assert iban(FAKES.fake("GB82 WEST 1234 5698 7654 32", "IBAN"))
    assert FAKES.fake("ada@byron.org", "EMAIL").split("@")[1].startswith("example.")
    assert FAKES.fake("10.1.2.3", "IP").rsplit(".", 1)[0] in ("192.0.2", "198.51.100", "203.0.113")
    assert FAKES.fake("2001:4860::8888:1", "IP").startswith("2001:db8::")
    assert FAKES.fake("123-45-6789", "SSN").startswith("9")


def test_titles_initials_and_number_of_words_stay():
    assert re.fullmatch(r"Mr [A-Z]\. \w+", FAKES.fake("Mr F. Klein", "PERSON"))
    assert len(FAKES.fake("Anna Evagorou Christou", "PERSON").split()) == 3


def test_short_key_is_refused_and_repr_shows_nothing():
    with pytest.raises(ValueError, match="16"):
        Fakes(b"short")
    assert repr(FAKES) == "Fakes()"


@pytest.mark.parametrize(
    ("value", "word"),
    [("Christmas 1987", "Christmas"), ("Easter Monday 1992", "Easter"), ("12 thermidor 1988", "thermidor")],
)
def test_no_word_of_a_date_that_is_not_a_month_we_know_is_left_in_clear(value, word):
    assert word not in FAKES.fake(value, "DATE")


@pytest.mark.parametrize("name", ["राजेश कुमार", "สมชาย ใจดี", "محمد العلي", "דוד כהן", "王晓明", "김민수"])
def test_no_letter_or_mark_of_a_name_in_another_script_is_left(name):
    assert FAKES.fake(name, "PERSON").isascii()


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("https://blog.janedoe.de/", r"https://[a-z]+\.example/"),
        ("www.janedoe.com", r"www\.[a-z]+\.example"),
        ("https://github.com/janedoe7", r"https://[a-z]+\.example/[a-z]{7}\d"),
    ],
)
def test_a_made_up_address_is_one_of_a_reserved_domain(url, shape):
    assert re.fullmatch(shape, FAKES.fake(url, "URL"))
