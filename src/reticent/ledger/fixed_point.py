"""Amounts as whole multiples of 2^-40: sums are exact, so their order cannot matter and nothing drifts.

Every conversion names the side it rounds to. Costs and what was spent round up, limits and what remains round
down: rounding can only waste budget (at most 2^-40 a charge), never privacy. Ten charges of the float 0.1 cost a
little more than 1; meter whole numbers (steps) where a limit shall be met exactly.
"""

import math

BITS = 40
UNIT = 1 << BITS


def units_up(amount: float) -> int:
    """The least number of units that is at least `amount` (finite). Exact rational arithmetic."""
    numerator, denominator = amount.as_integer_ratio()
    return -((-numerator << BITS) // denominator)


def units_down(amount: float) -> int:
    """The greatest number of units that is at most `amount` (finite)."""
    numerator, denominator = amount.as_integer_ratio()
    return (numerator << BITS) // denominator


def amount_up(units: int) -> float:
    """The least float that is at least `units` multiples of 2^-40."""
    nearest = units / UNIT
    return nearest if units_down(nearest) >= units else math.nextafter(nearest, math.inf)


def amount_down(units: int) -> float:
    """The greatest float that is at most `units` multiples of 2^-40."""
    nearest = units / UNIT
    return nearest if units_up(nearest) <= units else math.nextafter(nearest, -math.inf)
