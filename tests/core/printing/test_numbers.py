"""Numbers for people keep their sentence true."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.printing.numbers import Scale, counted, interval, one_in, per_cent, shown

RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


def number(text: str) -> float:
    """The number that a text says."""
    plain = text.replace(",", "").replace("\u00a0%", "").replace("\u00a0bits", "")
    plain = re.sub("^(−?)10(?=[⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", r"\g<1>1·10", plain)  # a power of ten stands alone
    mantissa, _, raised = plain.partition("·10")
    return float(mantissa.replace("−", "-")) * 10.0 ** int(raised.translate(RAISED) or 0)


@given(st.floats(min_value=-1e9, max_value=1e9, allow_nan=False, allow_subnormal=False))
def test_at_least_is_never_above_and_at_most_never_below(value):
    slack = 1e-11 * abs(value)
    assert number(shown(value, side="down")) <= value + slack
    assert number(shown(value, side="up")) >= value - slack


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_an_interval_is_rounded_outward(one, other):
    low, high = sorted((one, other))
    said = [number(end) for end in interval(low, high, Scale.SHARE).split("–")]
    assert said[0] / 100.0 <= low + 1e-12
    assert said[1] / 100.0 >= high - 1e-12


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (shown(0.0312, Scale.SHARE), "3.12\u00a0%"),
        (shown(0.07, Scale.SHARE, side="up"), "7\u00a0%"),  # 0.07 × 100 is 7.000000000000001
        (shown(None), "–"),
        (shown(math.inf), "unbounded"),
        (shown(1234567.0), "1,230,000"),
        (interval(1.0, math.inf), "1 or more"),
        (per_cent(0.99958), "99.958\u00a0%"),
        (per_cent(0.9999999), "99.999\u00a0%"),  # never "100 %"
        (one_in(-math.inf), "never"),
        (one_in(math.log(0.5)), "50\u00a0%"),
        (one_in(math.log(1e-4)), "1 in 10,000"),
        (one_in(math.log(2e-6)), "1 in 500,000"),
        (one_in(-200.0), "less than 1 in a million"),
        (shown(3.164e-7, Scale.SHARE), "below 0.0001\u00a0%"),
        (shown(3.164e-7, Scale.SHARE, side="up"), "0.0001\u00a0%"),  # at most
        (shown(3.164e-7, Scale.SHARE, side="down"), "0\u00a0%"),  # at least
    ],
)
def test_what_is_shown(said, expected):
    assert said == expected


def test_a_number_of_numpy_is_shown_as_any_other():
    assert shown(np.float64(0.3344), Scale.SHARE, side="up") == shown(0.3344, Scale.SHARE, side="up")


def test_a_noun_follows_its_number():
    assert [counted(n, "record") for n in (0, 1, 1500)] == ["0 records", "1 record", "1,500 records"]
    assert counted(2, "canary", "canaries") == "2 canaries"
