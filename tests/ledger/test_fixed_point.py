"""Amounts round to the side they name, exactly."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from reticent.ledger.fixed_point import UNIT, amount_down, amount_up, units_down, units_up


@given(st.floats(min_value=0.0, max_value=1e12))
def test_units_bracket_the_amount_and_rounding_is_below_one_unit(amount):
    exact = Fraction(amount) * UNIT
    assert units_down(amount) <= exact <= units_up(amount)
    assert units_up(amount) - units_down(amount) in (0, 1)


@given(st.integers(min_value=0, max_value=1 << 80))
def test_floats_for_people_never_flatter(units):
    assert Fraction(amount_down(units)) * UNIT <= units <= Fraction(amount_up(units)) * UNIT
    assert units_up(amount_down(units)) <= units  # what remains can be charged
