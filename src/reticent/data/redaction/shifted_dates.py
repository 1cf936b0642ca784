"""A date moved by a number of days, written as it was: "31 May 1991", "May 31, 1991", "31.05.91", "1991-05-31".

Months have names in two dozen languages ("3 de abril de 2024"), or signs behind their numbers (1985年3月14日).
Where figures alone leave open which is the month, it comes first before a slash unless that cannot be, and else
the day does. A date without a year, or a month and a year alone, moves by the same number of days; a year alone by
whole years. What is not read (ranges, feasts, months of yet other languages) is None.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta

from reticent.data.policies.shapes.months import YEARS

_NAMES = tuple(
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_MONTH = r"(?P<month>[A-Za-zä]{3,9}\.?)"
_DAY = r"(?P<day>\d{1,2})(?P<ending>st|nd|rd|th|\.)?"
_MONTH_ELSEWHERE = r"(?P<month>[^\W\d_]{3,13})"
_DAY_ELSEWHERE = r"(?P<day>\d{1,2})(?P<ending>\.|er|[ºª°])?"
_YEAR = r"(?P<year>\d{4})"
_CLOCK = r"(?P<rest>[ T]\d\d:\d\d\S*)?"
_COMMON_YEAR = 2001  # stands for a year that is not given

_Parts = dict[str, str]


def shifted(value: str, days: int) -> str | None:
    """`value` moved by `days`, in its own notation; None where it is no date that is read here."""
    for pattern, write in _NOTATIONS:
        if match := re.fullmatch(pattern, value):
            parts = {name: text or "" for name, text in match.groupdict().items()}
            return write(parts, days)
    return None


def _moved(year: int, month: int, day: int, days: int) -> date | None:
    try:
        return date(year, month, day) + timedelta(days)
    except (ValueError, OverflowError):
        return None


def _in_figures(parts: _Parts, days: int) -> str | None:
    first, second, gap = parts["first"], parts["second"], parts["gap"]
    month_first = int(second) > 12 or (gap == "/" and int(first) <= 12)
    day, month = (second, first) if month_first else (first, second)
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 1900 if year > 40 else 2000
    moved = _moved(year, int(month), int(day), days)
    if moved is None:
        return None
    wide = len(first) == 2 and len(second) == 2
    pieces = [f"{number:02}" if wide else str(number) for number in (moved.day, moved.month)]
    if month_first:
        pieces.reverse()
    return gap.join([*pieces, f"{moved.year % 10 ** len(parts['year']):0{len(parts['year'])}}"])


def _year_first(parts: _Parts, days: int) -> str | None:
    moved = _moved(int(parts["year"]), int(parts["second"]), int(parts["first"]), days)
    gap = parts["gap"]
    return None if moved is None else f"{moved:%Y}{gap}{moved:%m}{gap}{moved:%d}{parts['rest']}"


def _worded(parts: _Parts, days: int) -> str | None:
    month = parts["month"].rstrip(".")
    for names in (_NAMES, *YEARS, *(_in_other_case(names) for names in YEARS)):
        is_short = len(month) in (3, 4) and names in (_NAMES, YEARS[0])
        known = [n for n, name in enumerate(names, 1) if name == month or (is_short and name.startswith(month))]
        if known:
            break
    else:
        return None
    moved = _moved(int(parts.get("year") or _COMMON_YEAR), known[0], int(parts.get("day") or 15), days)
    if moved is None:
        return None
    name = names[moved.month - 1]
    if month != names[known[0] - 1]:
        name = name[:3] + ("." if parts["month"].endswith(".") else "")
    pieces = {"month": name, "year": f"{moved.year:04}", "day": str(moved.day), "ending": _ending(parts, moved.day)}
    return parts["shape"].format(of=parts.get("of"), then=parts.get("then"), **pieces)


def _in_other_case(names: Sequence[str]) -> tuple[str, ...]:
    """With a capital what has none, and the other way round."""
    return tuple(name[0].swapcase() + name[1:] for name in names)


def _ending(parts: _Parts, day: int) -> str:
    if parts.get("ending") in (None, "", ".", "º", "ª", "°"):
        return parts.get("ending") or ""
    if parts["ending"] == "er":
        return "er" if day == 1 else ""
    return "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _shaped(shape: str) -> Callable[[_Parts, int], str | None]:
    return lambda parts, days: _worded(parts | {"shape": shape}, days)


def _signed(parts: _Parts, days: int) -> str | None:
    moved = _moved(int(parts["year"]), int(parts["month"]), int(parts["day"]), days)
    if moved is None:
        return None
    return f"{moved.year}{parts['of']}{moved.month}{parts['then']}{moved.day}{parts['rest']}"


def _whole_years(parts: _Parts, days: int) -> str:
    return str(int(parts["year"]) + round(days / 365.25))


_NOTATIONS: list[tuple[str, Callable[[_Parts, int], str | None]]] = [
    (rf"{_YEAR}(?P<gap>[-/.])(?P<second>\d\d)(?P=gap)(?P<first>\d\d){_CLOCK}", _year_first),
    (r"(?P<first>\d{1,2})(?P<gap>[-/.])(?P<second>\d{1,2})(?P=gap)(?P<year>\d{4}|\d\d)", _in_figures),
    (rf"{_DAY} {_MONTH} {_YEAR}", _shaped("{day}{ending} {month} {year}")),
    (rf"{_MONTH} {_DAY}, {_YEAR}", _shaped("{month} {day}{ending}, {year}")),
    (rf"{_MONTH} {_DAY} {_YEAR}", _shaped("{month} {day}{ending} {year}")),
    (rf"{_DAY} {_MONTH}", _shaped("{day}{ending} {month}")),
    (rf"{_MONTH} {_YEAR}", _shaped("{month} {year}")),
    (rf"{_MONTH} {_DAY}", _shaped("{month} {day}{ending}")),
    (
        rf"{_DAY_ELSEWHERE}(?P<of> (?:d[ei]l? |d['’])?){_MONTH_ELSEWHERE}(?P<then>,? (?:del? )?){_YEAR}",
        _shaped("{day}{ending}{of}{month}{then}{year}"),
    ),
    (
        r"(?P<year>\d{4})(?P<of> ?[年년] ?)(?P<month>\d{1,2})(?P<then> ?[月월] ?)"
        r"(?P<day>\d{1,2})(?P<rest> ?[日号號일])",
        _signed,
    ),
    (_YEAR, _whole_years),
]
