"""Printed bounds stay bounds."""

import math

from hypothesis import given
from hypothesis import strategies as st

from reticent.core.printing.numbers import at_least, at_most, chance_at_most

VALUES = st.floats(1e-12, 1e12)


@given(VALUES, st.integers(2, 6))
def test_an_upper_bound_is_never_printed_below_its_value_nor_far_above(value, digits):
    assert value * (1 - 2e-12) <= float(at_most(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)


@given(VALUES, st.integers(2, 6))
def test_a_lower_bound_is_never_printed_above_its_value_nor_far_below(value, digits):
    assert value * (1 - 10.0 ** (1 - digits)) * (1 - 1e-12) <= float(at_least(value, digits)) <= value * (1 + 2e-12)


def test_rounding_to_nearest_would_print_a_false_promise():
    assert f"{1.5444:.3g}" == "1.54"
    assert at_most(1.5444, 3) == "1.55"
    assert at_most(2.0) == "2"
    assert at_most(8e-5) == "8e-05"
    assert at_least(19.96, 3) == "19.9"
    assert at_most(0.1 * 8e-5) == "8e-06"


def test_no_bound_is_said_in_words():
    assert at_most(math.inf) == at_most("inf") == "unbounded"
    assert at_most(None) == "unknown"
    assert chance_at_most(-33.96) == "2^-33.9"
    assert chance_at_most(-1.0) == "50 %"
