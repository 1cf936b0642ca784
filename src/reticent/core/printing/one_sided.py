"""Numbers for people, rounded to the side that keeps the sentence true.

What is bounded from above is rounded up, what is left at least is rounded down: "(1.54, …)-private" is false of a
run whose ε is 1.5444.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

_ROUND_OFF = 1e-12  # 0.1 × 8e-5 is 8.000000000000001e-06: that is not a reason to print 8.001e-06


def at_most(value: float | str | None, digits: int = 4) -> str:
    """An upper bound with so many significant digits, rounded up; words where there is none."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float | str | None, digits: int = 4) -> str:
    """A lower bound with so many significant digits, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def chance_at_most(log2_chance: float) -> str:
    """2^x as an upper bound: per cent where that can be read, else a power of two."""
    if log2_chance > -13.0:
        return f"{at_most(100.0 * 2.0**log2_chance, 3)} %"
    return f"2^{math.ceil(log2_chance * 10.0) / 10.0:.1f}"


def _rounded(value: float | str | None, digits: int, side: str) -> str:
    if value is None:
        return "unknown"
    number = float(value)
    if math.isinf(number):
        return "unbounded" if number > 0 else "-unbounded"
    slack = 1.0 - _ROUND_OFF if side == ROUND_CEILING else 1.0 + _ROUND_OFF
    exact = Context(prec=digits, rounding=side).create_decimal(repr(number * slack))
    return f"{float(exact):.{digits}g}"
