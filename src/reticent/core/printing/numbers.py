"""Numbers for people: a value with its unit, rounded to the side that keeps the sentence true.

"At least" is rounded down, "at most" up ("(1.54, …)-private" is false of a run whose ε is 1.5444); a value in the
middle is rounded to the nearest. Infinity is a word, and what is missing is a dash or a word and never a zero.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from enum import StrEnum
from typing import Final

MISSING: Final = "–"
_NOISE: Final = 1e-9  # "at least 10⁻¹⁴ bits" says no more than at least 0
_TINY: Final = 1e-6  # shares and chances below are said to be below it: no reader needs more
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_ROUND_OFF: Final = 1e-12  # 0.07 × 100 is 7.000000000000001: no reason to print 7.001


class Scale(StrEnum):
    """What a metric counts in."""

    SHARE = "share"
    BITS = "bits"
    CHANCE = "chance"
    EPSILON = "epsilon"
    PLAIN = "plain"


def shown(value: float | None, scale: Scale = Scale.PLAIN, *, digits: int = 3, side: str = "nearest") -> str:
    """The value with its unit; `side` is nearest, up or down."""
    if value is None:
        return MISSING
    if math.isinf(value):
        return "unbounded" if value > 0 else "−unbounded"
    if scale is Scale.SHARE and 0.0 < value < _TINY:
        return {"up": "0.0001\u00a0%", "down": "0\u00a0%"}.get(side, "below 0.0001\u00a0%")
    if scale is Scale.SHARE:
        return f"{_rounded(100.0 * value, digits, side)}\u00a0%"
    if scale is Scale.BITS:
        return f"{_rounded(value, digits, side)}\u00a0bits"
    return _rounded(value, digits, side)


def at_most(value: float | str | None, digits: int = 4) -> str:
    """An upper bound with so many significant digits, rounded up; words where there is none."""
    return _bound(value, digits, "up")


def at_least(value: float | str | None, digits: int = 4) -> str:
    """A lower bound with so many significant digits, rounded down."""
    return _bound(value, digits, "down")


def chance_at_most(log2_chance: float) -> str:
    """2^x as an upper bound: per cent where that can be read, else a power of two."""
    if log2_chance > -13.0:
        return f"{at_most(100.0 * 2.0**log2_chance, 3)} %"
    return f"2^{math.ceil(log2_chance * 10.0) / 10.0:.1f}"


def interval(low: float, high: float, scale: Scale = Scale.PLAIN, *, digits: int = 3) -> str:
    """Both ends with one unit, each rounded outward."""
    if math.isinf(high):
        return f"{shown(low, scale, digits=digits, side='down')} or more"
    unit = {Scale.SHARE: "\u00a0%", Scale.BITS: "\u00a0bits"}.get(scale, "")
    factor = 100.0 if scale is Scale.SHARE else 1.0
    if scale is Scale.BITS:  # hundredths, so that 19.93 of 19.93 bits is not rounded up to 20
        low, high = (_outward(low, up=False), _outward(high, up=True))
        digits += 1
    ends = _rounded(factor * low, digits, "down"), _rounded(factor * high, digits, "up")
    dash = " to " if "−" in "".join(ends) else "–"
    return dash.join(ends) + unit


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 0 records, 1 record, 1,500 records."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def per_cent(confidence: float) -> str:
    """A confidence in words: 95 %, 99.95 %; never rounded up."""
    return f"{_rounded(100.0 * confidence, 5, 'down')}\u00a0%"


def rounded_count(number: float) -> str:
    """A round count as people say it: 1,000, 1 million, 10 billion; any other with its digits."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size and number % (size / 1000.0) == 0.0:
            return f"{number / size:,.10g}\u00a0{word}"
    return f"{number:,.0f}"


def one_in(log_chance: float, *, side: str = "nearest") -> str:
    """A chance given by its natural logarithm, as people say it; with `side` "up", never less than it is."""
    if log_chance == -math.inf:
        return "never"
    if log_chance > math.log(0.0095):
        return f"{_rounded(100.0 * math.exp(min(0.0, log_chance)), 2, side)}\u00a0%"
    if log_chance < math.log(_TINY):
        return "less than 1 in a million"
    tens = 10.0 ** (int(-log_chance / math.log(10.0)) - 1)
    among = math.exp(-log_chance) / tens
    return f"1 in {tens * (math.floor(among * (1.0 + _ROUND_OFF)) if side == 'up' else round(among)):,.0f}"


def _outward(bits: float, *, up: bool) -> float:
    """A number of bits in hundredths, but for round-off."""
    hundredths = bits * 100.0
    slack = _ROUND_OFF * abs(hundredths)
    return (math.ceil(hundredths - slack) if up else math.floor(hundredths + slack)) / 100.0


def _bound(value: float | str | None, digits: int, side: str) -> str:
    """As it is typed, so that it can be copied: no exponent of raised digits, and a plain minus."""
    if value is None:
        return "unknown"
    number = float(value)
    if math.isinf(number):
        return "unbounded" if number > 0 else "-unbounded"
    return f"{_to_side(number, digits, side):.{digits}g}"


def _rounded(value: float, digits: int, side: str) -> str:
    if side == "down" and 0.0 < value < _NOISE:
        return "0"
    exact = _to_side(value, digits, side)
    text = f"{exact:.{digits}g}" if abs(exact) < 10**digits else f"{exact:,.0f}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        power = f"10{str(int(exponent)).translate(_RAISED)}"
        text = power if mantissa == "1" else f"{mantissa}·{power}"
    return text.replace("-", "−")


def _to_side(value: float, digits: int, side: str) -> float:
    """The number of so many digits on that side of a value, or the nearest; round-off of the value aside."""
    rounding = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}[side]
    slack = 1.0
    if side != "nearest":
        slack = 1.0 - _ROUND_OFF if (side == "up") == (value > 0) else 1.0 + _ROUND_OFF
    return float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value * slack))))
