"""A policy of patterns with checksums: things whose shape gives them away. Names and places are out of its reach.

E-mail addresses, postal addresses of the USA, streets with a house number (`streets`), IP addresses, IBANs, card
numbers, social security numbers, order numbers, application numbers, dates, tracking numbers, codes that a word
announces ("My ID is: 123456"), phone numbers.

Why it is local (masking a span never changes what is found elsewhere):

- Rules run in a fixed order; what one finds is blanked, so that later rules see it as they would see a mask.
- A match starts with "+" or "(", or with a letter or digit with no other directly before it, and ends with a letter
  or digit with no other directly after it. So what stands before a finding decides nothing if it is masked, as no
  finding, of this policy or another, ends within a word.
- A number joined by one of "-./:" to another digit is part of something longer: no rule takes a piece of it.
- A candidate that fails its checksum does not hide one that starts within it. Runs of spaced digits are taken or
  refused as wholes, after every rule that could cut them; a code that a word announces is never part of one.

Words that announce a code, and numbers joined to another, are not always found themselves. Another policy may mask
them, though, and then more or less is found beside them: `reads_context`.
Bare years, amounts and short numbers without announcement are not found.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import groupby
from operator import attrgetter

from reticent.core.corpus import Span
from reticent.data.policies.shapes.checksums import (
    keep_application,
    keep_area_phone,
    keep_card,
    keep_french_number,
    keep_iban,
    keep_international,
    keep_ip,
    keep_long_code,
    keep_mixed_code,
    keep_paper,
    keep_phone,
    keep_slashed_phone,
    keep_spaced_phone,
    keep_ssn,
)
from reticent.data.policies.shapes.months import BEGINNINGS as _MONTHS_BEGIN
from reticent.data.policies.shapes.months import MONTH as _MONTH_ELSEWHERE
from reticent.data.policies.shapes.streets import EXPRESSIONS as _STREETS
from reticent.data.policies.shapes.streets import GAP as _GAP
from reticent.data.policies.shapes.streets import address_starts
from reticent.data.policies.shapes.stretches import BLANK, around, places, words_apart
from reticent.data.redaction.masking import MASK, mask_for

KINDS = (
    "EMAIL",
    "ADDRESS",
    "IP",
    "IBAN",
    "CARD",
    "SSN",
    "ORDER",
    "APPLICATION",
    "DATE",
    "TRACKING",
    "PHONE",
    "CODE",
)

_BLANK = BLANK
_END = r"(?<=\w)(?!\w)(?!(?<=\d)[-./:]\d)"
_CONTEXT = 52  # characters before a code in which its announcement lies; none is longer than 48

_MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
_DAY = r"(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_DAYS = rf"{_DAY}(?:(?:{_GAP}(?:and|to|or){_GAP}|[-–]){_DAY})?"
_YEAR = r"(?:1[5-9]|20)\d\d"
_EAST_ASIAN_DATE = (
    r"(?<!\d)(?:(?:\d{4}|\d\d) ?[年년] ?\d{1,2} ?[月월](?: ?\d{1,2} ?[日号號일])?"
    r"|\d{1,2} ?[月월] ?\d{1,2} ?[日号號일])"
)
_DAY_OR_MONTH = r"(?:0?[1-9]|[12]\d|3[01])"
# "12. Februar 2024", "3 de abril de 2024", "1er mai": what stands between a day, a month and a year elsewhere.
_DAY_ELSEWHERE = r"(?:[12]\d|3[01]|0?[1-9])(?:\.|er|[ºª°])?"
_OF_MONTH = rf"(?:d[ei]l?{_GAP}|d['’])?"
_OF_YEAR = rf",?{_GAP}(?:del?{_GAP})?"
_CLOCK = r"(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"


def _start(first: str, ahead: str = "") -> str:
    # The first character is consumed, not looked at, since the search can then skip to it: four times as fast.
    # The lookbehinds are one character wider for it.
    return rf"{first}(?:(?<!\w.)|(?<=[+(]))(?<!\d[-./:]\d){ahead}"


class Start(Enum):
    """Places where matches may start; each text is searched once for each of them."""

    __hash__ = object.__hash__  # an enumeration's own hash is that of its name, and slow

    ADDRESS = r"\w(?<!\w.)(?=[\w.+%'-]{0,63}@)"
    HOUSE = _start(r"[\dPU]", r"(?:(?<=\d)|(?=SC |nit )(?<=[PU]))")
    STREET = _start(r"\w")
    NUMBER = _start(r"[+(\d]")
    HEXADECIMAL = _start("[0-9A-Fa-f]", "(?=[0-9A-Fa-f]{0,3}:)")
    IBAN = _start("[A-Za-z]", r"(?=[A-Za-z]\d\d)")
    LETTERS = _start("[A-Z]", rf"(?=[A-Z]{_GAP}?\d)")
    MONTH = _start("[JFMASOND]", "(?=an|eb|ar|pr|ay|u[nlg]|ep|ct|ov|ec)")
    CODE = _start("[A-Z0-9]", r"(?=[A-Z0-9/-]{3})")


@dataclass(frozen=True, slots=True)
class Rule:
    """One shape of one kind, looked for at the places where it may start.

    `keep` returns how many characters of a match to keep, 0 for none. `announced` must match what ends right
    before a match. Within a refused match of a `whole` rule nothing else is looked for.
    """

    kind: str
    start: Start
    pattern: str
    keep: Callable[[str], int] = len
    announced: str = ""
    whole: bool = False


def _announcement(words: str) -> str:
    """Words that announce a code, with "is", a colon or the like after them."""
    between = (
        rf"(?:[ \u00a0,:#=(]{{0,3}}(?:which{_GAP})?(?:is|was|ist|lautet|es|est|è|é|jest)\b)?[ \u00a0,:#=(]{{0,3}}"
    )
    return rf"(?<!\w)(?i:{words}){between}\Z"


_GROUPS_OF_FOUR = r"\d{4}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
_COUNTRY = r"(?:\+\d{1,3}[ \u00a0.-]?)?"
_AREA = r"(?:\(\d{1,4}\)[ \u00a0.-]?)?"
_EXTENSION = rf"(?:{_GAP}?(?:x|ext\.?){_GAP}?\d{{1,6}})?"
_PIECE = r"(?:\(\d{1,4}\)\d{0,8}|\d{2,8})"
# A digit in each group but the first, behind whose hyphen nothing is announced: no code announces another.
_GROUP = r"[A-Z]{0,30}\d[A-Z0-9]*"
_CODE = rf"(?:[A-Z]{{1,5}}-)?{_GROUP}(?:[-/]{_GROUP})*"
_CODE_WORDS = r"id|pin|code|password|passcode|account|reference|number|no\.?|nr\.?"

# Papers, files and registers that people are known by; a number may be said to be that of one ("Nº de historia").
_PAPERS = (
    rf"(?:n[º°]\.?|no\.|nr\.?|n[uú]mero|numéro|number|nummer|numer|номер)(?:{_GAP}[^\W\d_]{{2,10}}){{1,2}}"
    r"|n[º°]|n[uú]mero|numéro|nummer|numer|номер"
    r"|mrn|nino|tin|vat|vin|imei|npi|mbi|medicare|dni|nie|nif|curp|cpf|cnpj|bsn|pesel|nip|ahv|nhs|bvn|aadhaar|pan|steuer-?id"
    r"|passport|passeport|pasaporte|paspoort|reisepass|licen[cs]e|permit|plate|reg|registration|policy|case|file|patient"
    r"|member|invoice|serial|badge|employee|student|docket"
)

_STATES = (
    "A[AEKLPRZ]|C[AOT]|D[CE]|FL|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEINOPST]|N[CDEHJMVY]|O[HKR]|P[AR]|RI|S[CD]|T[NX]|UT"
    "|V[AIT]|W[AIVY]"
)
_POSTCODE = rf"(?:{_STATES}){_GAP}\d{{5}}(?:-\d{{4}})?"
# House, street, perhaps a flat, town: words with capitals and numbers, over at most three lines.
_STREET_WORD = r"(?:[A-Z#][\w.'’-]{0,30}|\d{1,5}[A-Za-z]{0,2})"
_HOUSE = (
    # No other number directly behind that of the house. Soldiers abroad have a box of their unit.
    rf"(?:(?:PSC|Unit){_GAP})?\d{{1,6}}[A-Za-z]?,?{_GAP}[A-Z][\w.'’-]{{0,30}}"
    rf"(?:,?(?:{_GAP}|\r?\n){_STREET_WORD}){{0,12}}?,?{_GAP}{_POSTCODE}"
)

_RULES = (
    Rule(
        "EMAIL", Start.ADDRESS, r"\w[\w.+%'-]{0,63}@(?:(?:\w[\w-]{0,62}\.)+[A-Za-z]{2,24}|\d{1,3}(?:\.\d{1,3}){3})"
    ),
    Rule("ADDRESS", Start.HOUSE, _HOUSE),
    Rule("IP", Start.NUMBER, r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2}|:\d{1,5})?", keep_ip),
    Rule("IP", Start.HEXADECIMAL, r"(?:[0-9A-Fa-f]{1,4}:{1,2}){2,7}[0-9A-Fa-f]{1,4}", keep_ip),
    Rule("IBAN", Start.IBAN, r"[A-Za-z]{2}\d\d[A-Za-z0-9]{11,30}", keep_iban),
    Rule("IBAN", Start.IBAN, rf"[A-Z]{{2}}\d\d(?:{_GAP}[A-Z0-9]{{4}}){{2,7}}(?:{_GAP}[A-Z0-9]{{1,3}})?", keep_iban),
    Rule("CARD", Start.NUMBER, r"\d{12,19}", keep_card),
    Rule("CARD", Start.NUMBER, _GROUPS_OF_FOUR + r"(?P=gap)\d{3}", keep_card),
    Rule("CARD", Start.NUMBER, _GROUPS_OF_FOUR, keep_card),
    Rule("CARD", Start.NUMBER, r"\d{4}(?P<gap>[ -])\d{6}(?P=gap)\d{4,5}", keep_card),
    Rule("SSN", Start.NUMBER, r"\d{3}(?P<gap>[ -])\d\d(?P=gap)\d{4}", keep_ssn),
    Rule(
        "SSN",
        Start.NUMBER,
        rf"[12]{_GAP}?\d\d{_GAP}?\d\d{_GAP}?\d[\dAB]{_GAP}?\d{{3}}{_GAP}?\d{{3}}{_GAP}?\d\d",
        keep_french_number,
    ),
    Rule(
        "SSN", Start.LETTERS, rf"[A-CEGHJ-PQR-TW-Z]{{2}}(?P<gap>{_GAP}?)\d\d(?P=gap)\d\d(?P=gap)\d\d(?P=gap)[A-D]"
    ),
    Rule("ORDER", Start.NUMBER, r"\d{3}-(?:\d{5}-\d{4}|\d{7}-\d{7})"),
    Rule("APPLICATION", Start.NUMBER, rf"\d{{3,6}}/(?:{_YEAR}|\d\d)", keep_application),
    Rule("APPLICATION", Start.NUMBER, r"\d{1,2}:\d\d-(?:bk|cr|cv|mc|md|mj|po)-\d{3,6}"),  # of courts in the USA
    Rule("DATE", Start.NUMBER, rf"{_YEAR}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]){_CLOCK}"),
    Rule("DATE", Start.NUMBER, rf"{_DAY_OR_MONTH}(?P<gap>[/.-]){_DAY_OR_MONTH}(?P=gap)(?:{_YEAR}|\d\d)"),
    Rule("DATE", Start.NUMBER, rf"{_DAYS}{_GAP}(?:of{_GAP})?{_MONTH}(?:,?{_GAP}{_YEAR})?"),
    Rule("DATE", Start.MONTH, rf"{_MONTH}{_GAP}(?:{_DAYS}(?:,?{_GAP}{_YEAR})?|{_YEAR})"),
    # In other languages whole dates alone: a day without a year singles few people out.
    Rule("DATE", Start.NUMBER, rf"{_DAY_ELSEWHERE}{_GAP}{_OF_MONTH}{_MONTH_ELSEWHERE}{_OF_YEAR}{_YEAR}"),
    # After cards and the like, whose first digits could be those of a house. Before runs of spaced digits, which
    # these cut, and codes, whose announcement may be part of a street's name.
    *(Rule("ADDRESS", Start.STREET, expression) for expression in _STREETS),
    Rule("TRACKING", Start.CODE, "[A-Z0-9]{8,34}", announced=_announcement(r"tracking (?:number|code|id|no\.?)")),
    Rule("TRACKING", Start.CODE, "[A-Z0-9]{10,34}", keep_mixed_code),
    Rule(
        "PHONE",
        Start.NUMBER,
        rf"(?:\+\d{{1,3}}{_GAP}?\(0\){_GAP}?|0)\d{{2,4}}{_GAP}?/{_GAP}?\d{{2,9}}(?:[ .-]\d{{1,6}}){{0,4}}",
        keep_slashed_phone,
    ),
    Rule("PHONE", Start.NUMBER, r"3[2-9]\d/\d{6,7}"),  # mobiles in Italy
    # With the digit that is dialled before a number within the country.
    Rule("PHONE", Start.NUMBER, rf"[08]{_GAP}?\(\d{{3,4}}\){_GAP}?\d{{2,4}}(?:[ -]\d{{2,4}}){{1,3}}"),
    Rule("PHONE", Start.NUMBER, rf"8{_GAP}[3-9]\d\d{_GAP}\d{{3}}[ -]\d\d[ -]\d\d"),
    Rule(
        "PHONE",
        Start.NUMBER,
        rf"\+\d{{1,3}}(?:[ \u00a0.-]{{0,2}}(?:\(\d{{1,4}}\)|\d{{1,9}})){{2,6}}{_EXTENSION}",
        keep_international,
    ),
    Rule(
        "PHONE", Start.NUMBER, rf"0\d{{1,4}}-\d{{2,8}}(?:{_GAP}\d{{2,8}}){{1,4}}(?!{_GAP}?[(\d])", keep_area_phone
    ),
    Rule(
        "PHONE",
        Start.NUMBER,
        rf"\(0\d{{1,5}}\){_GAP}?\d{{2,8}}(?:{_GAP}\d{{2,8}}){{0,3}}-\d{{1,5}}",
        keep_area_phone,
    ),
    Rule("PHONE", Start.NUMBER, rf"{_COUNTRY}{_AREA}\d[\d.-]{{4,24}}\d{_EXTENSION}", keep_phone),
    Rule("PHONE", Start.NUMBER, rf"0\d{{1,4}}-\d{{2,8}}(?:{_GAP}{_PIECE})+", keep_area_phone, whole=True),
    Rule("PHONE", Start.NUMBER, rf"\+?{_PIECE}(?:{_GAP}{_PIECE})+", keep_spaced_phone, whole=True),
    Rule(
        "CODE",
        Start.CODE,
        rf"{_CODE}(?!{_GAP}\d\d)",
        keep_long_code,
        announced=_announcement(_CODE_WORDS),
    ),
    Rule(
        "CODE",
        Start.CODE,
        rf"{_CODE}(?!{_GAP}\d\d)",
        keep_paper,
        announced=_announcement(_PAPERS),
    ),
)


def rules_as_patterns() -> list[tuple[str, str]]:
    """Kind and one regular expression for each rule that needs no announcement: for other engines to compare with.

    Without the checks of digits and without the order of rules, so they match more than the policy finds.
    """
    return [(rule.kind, f"(?={rule.start.value}){rule.pattern}{_END}") for rule in _RULES if not rule.announced]


# What a number must go on with so that any rule can take it: seven digits, another number behind joining marks, or
# a month. Nearly all numbers of running text are years, counts and sums, and are left here.
_TAKEN = (
    r"[+(]{1,2}\d|\d{7}|\d{1,19}[-./: \u00a0(]{1,25}\d"
    rf"|{_DAY_ELSEWHERE}{_GAP}{_OF_MONTH}{_MONTHS_BEGIN}"
    rf"|{_DAY}(?:{_GAP}(?:(?:and|to|or){_GAP}\d|(?:of{_GAP})?[JFMASOND])|[-–]\d)"
)
# The same with what `Start.NUMBER` asks of the characters before it, which is asked first.
_NUMBER_HERE = rf"(?:(?<!\w)|(?=[+(]))(?!(?<=\d[-./:])\d)(?:{_TAKEN})"
_CODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-")
_SHORTEST_CODE = 4
_BLANKS = frozenset(" \u00a0")
_MONTH_ENDS = frozenset("yhletrnbgpvc.")  # last characters of months
_LONGEST_MONTH = 10  # characters, with the blank behind it
_LONGEST_ADDRESS = 160  # characters before its state
_SIGNS = 2  # before the first digit of a number
_PLACE = attrgetter("start")  # no two spans of one text start together
# An address holds an "@" and a hexadecimal one a colon: how far before it a match may start, and how far behind it
# what a start must see may end.
_NEAR = {Start.ADDRESS: (64, 1), Start.HEXADECIMAL: (4, 1)}
_MASKS = "|".join(re.escape(mask) for mask in (MASK, *(mask_for(kind) for kind in KINDS)))


class PatternPolicy:
    """Finds personal data by its shape, such as e-mail addresses, phone and card numbers, and dates.

    `context=False` leaves out codes that a word announces.
    """

    is_local = True

    def __init__(self, *, kinds: Sequence[str] = KINDS, context: bool = True) -> None:
        unknown = sorted(set(kinds) - set(KINDS))
        if unknown or not kinds:
            raise ValueError(f"unknown kinds {unknown}: choose from {', '.join(KINDS)}")
        chosen = [rule for rule in _RULES if rule.kind in kinds and (context or not rule.announced)]
        self._groups = [
            (
                start,
                _any_of(rules),
                [(rule, _compiled(rule.pattern + _END), _compiled(rule.announced)) for rule in rules],
            )
            for start, rules in ((start, list(group)) for start, group in groupby(chosen, attrgetter("start")))
        ]
        self.kinds = tuple(kind for kind in KINDS if kind in kinds)
        self.reads_context = True  # the digits joined to a number, and with `context` the words before a code
        self._has_announced = any(rule.announced for rule in chosen)
        self.name = "patterns" if self.kinds == KINDS else "patterns " + ", ".join(self.kinds)

    def __repr__(self) -> str:
        return f"PatternPolicy({self.name})"

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings, together with the version of the code."""
        return f"patterns {','.join(self.kinds)} {self._has_announced}"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text.

        Guarantee: masking one of them leaves the others as they are, in the same places of the rest.
        """
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        blanked = _compiled(_MASKS).sub(lambda mask: _BLANK * len(mask.group()), text) if "<" in text else text
        spans: list[Span] = []
        if not text.isascii():
            if "DATE" in self.kinds and (dates := _east_asian_dates(blanked)):
                blanked = _without(blanked, dates)
                spans += dates
            blanked = words_apart(blanked)
        # No finding ends within a word, so blanking never makes or moves a start: one search for each kind will do.
        starts = _starts(blanked)
        for start, any_of_them, rules in self._groups:
            if not (found := starts.get(start)):
                continue
            likely = found
            if len(rules) > 1:
                likely = [place for place in found if any_of_them.match(blanked, place)]
            if not likely:
                continue
            for rule, pattern, announced in rules:
                if matches := _matches(rule, pattern, announced, text=blanked, starts=likely):
                    blanked = _without(blanked, matches)
                    spans += matches
                    likely = found  # what was looked at has changed
        return tuple(sorted(spans, key=_PLACE))


def _east_asian_dates(text: str) -> list[Span]:
    """Dates whose digits stand between the signs for year, month and day."""
    if not _compiled("[月월]").search(text):
        return []
    return [Span(*match.span(), "DATE") for match in _compiled(_EAST_ASIAN_DATE).finditer(text)]


def _any_of(rules: Sequence[Rule]) -> re.Pattern[str]:
    """An expression that matches where that of any rule does: one look at a start spares trying them one by one."""
    # Groups of one expression need names of their own.
    named = (re.sub(r"\(\?P([<=])gap", rf"(?P\1gap{n}", rule.pattern) for n, rule in enumerate(rules))
    return _compiled(f"(?:{'|'.join(named)}){_END}")


def _without(text: str, spans: Sequence[Span]) -> str:
    """The text with these spans blanked, which are in order."""
    pieces, end = [], 0
    for span in spans:
        pieces += [text[end : span.start], _BLANK * (span.end - span.start)]
        end = span.end
    return "".join((*pieces, text[end:]))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _starts(text: str) -> dict[Start, Sequence[int]]:
    """Where matches may start, in order. But for addresses and some tracking numbers, all hold a digit."""
    digits = [run.start() for run in _compiled("[0-9]+" if text.isascii() else r"\d+").finditer(text)]
    starts: dict[Start, Sequence[int]] = {}
    if digits:
        starts[Start.NUMBER] = _numbers(text, digits)
        starts[Start.IBAN] = _behind_letters(text, digits)
        starts[Start.CODE] = _codes(text, digits)
        starts[Start.LETTERS] = _behind_capitals(text, digits)
        begins = _compiled(Start.STREET.value)
        starts[Start.STREET] = [place for place in address_starts(text, digits) if begins.match(text, place)]
        if _compiled(":[0-9A-Fa-f]{0,4}:").search(text):
            starts[Start.HEXADECIMAL] = _near(Start.HEXADECIMAL, text, ":")
        starts |= _behind_blanks(text, digits)
    if announced := _places_of_tracking(text):
        starts[Start.CODE] = sorted({*starts.get(Start.CODE, ()), *announced})
    if "@" in text:
        starts[Start.ADDRESS] = _near(Start.ADDRESS, text, "@")
    return starts


def _behind_blanks(text: str, digits: Sequence[int]) -> dict[Start, Sequence[int]]:
    """Starts of dates that begin with a month, and of addresses by their postcodes: numbers behind a blank."""
    months, postcodes = [], []
    postcode = _compiled(rf"(?<!\w){_POSTCODE}")
    for place in digits:
        if place > 2 and text[place - 1] in _BLANKS:
            last = text[place - 2]
            if last in _MONTH_ENDS:
                months.append(place)
            elif last.isupper() and postcode.match(text, place - 3):
                postcodes.append(place - 3)
    return {
        start: [
            place
            for stretch in around(ends, len(text), before=before, after=0)
            for place in _places(start, text, *stretch)
        ]
        for start, ends, before in (
            (Start.MONTH, months, _LONGEST_MONTH),
            (Start.HOUSE, postcodes, _LONGEST_ADDRESS),
        )
        if ends
    }


def _places(start: Start, text: str, begin: int = 0, end: int | None = None) -> list[int]:
    found = _compiled(start.value).finditer(text, begin, len(text) if end is None else end)
    return [match.start() for match in found]


def _near(start: Start, text: str, sign: str) -> list[int]:
    """Places around a sign that every match holds."""
    before, after = _NEAR[start]
    stretches = around(places(text, sign), len(text), before=before, after=after)
    return [place for stretch in stretches for place in _places(start, text, *stretch)]


def _numbers(text: str, digits: Sequence[int]) -> list[int]:
    """Starts of numbers that a rule could take: at the first digit, or at a sign or bracket before it."""
    here = _compiled(_NUMBER_HERE).match
    found = []
    for place in digits:
        first = place
        while first and place - first < _SIGNS and text[first - 1] in "+(":
            first -= 1
        while first < place:
            if here(text, first):
                found.append(first)
            first += 1
        if here(text, place):
            found.append(place)
    return found


def _behind_letters(text: str, digits: Sequence[int]) -> list[int]:
    """Starts of IBANs: the two letters before a number."""
    start = _compiled(Start.IBAN.value)
    return [
        place - 2 for place in digits if place > 1 and text[place - 1].isalpha() and start.match(text, place - 2)
    ]


def _behind_capitals(text: str, digits: Sequence[int]) -> list[int]:
    """Where two capitals stand before a number, perhaps with a blank between."""
    start = _compiled(Start.LETTERS.value)
    ends = (place - 1 if text[place - 1] in _BLANKS else place for place in digits if place > 1)
    return [end - 2 for end in ends if end > 1 and text[end - 1].isupper() and start.match(text, end - 2)]


def _places_of_tracking(text: str) -> list[int]:
    """Starts of codes that are announced as tracking numbers."""
    lower = text.lower()
    if "tracking" not in lower:
        return []
    if len(lower) != len(text):
        return _places(Start.CODE, text)
    stretches = around(places(lower, ("tracking",)), len(text), before=0, after=_CONTEXT + _SHORTEST_CODE)
    return [place for stretch in stretches for place in _places(Start.CODE, text, *stretch)]


def _codes(text: str, digits: Sequence[int]) -> list[int]:
    """Starts of codes with a digit, in runs of capitals, digits and the marks that join them."""
    found: list[int] = []
    end = 0
    run, start = _compiled("[A-Z0-9/-]*"), _compiled(Start.CODE.value)
    for place in digits:
        if place < end:
            continue
        begin = place
        while begin > end and text[begin - 1] in _CODED:
            begin -= 1
        end = run.match(text, place).end()  # type: ignore[union-attr]
        if end - begin < _SHORTEST_CODE:
            continue
        if text.find("-", begin, end) >= 0 or text.find("/", begin, end) >= 0:
            found += _places(Start.CODE, text, begin, end)
        elif start.match(text, begin):  # nowhere else does a word begin
            found.append(begin)
    return found


def _matches(
    rule: Rule, pattern: re.Pattern[str], announced: re.Pattern[str], *, text: str, starts: Sequence[int]
) -> list[Span]:
    """Non-overlapping matches from left to right; one that is refused does not hide those that start in it."""
    found = []
    free = 0
    for start in starts:
        if start < free or not (match := pattern.match(text, start)):
            continue
        if rule.announced and not announced.search(text[max(0, start - _CONTEXT) : start]):
            continue
        kept = rule.keep(match.group())
        if kept:
            found.append(Span(start, start + kept, rule.kind))
        if kept or rule.whole:
            free = start + (kept or match.end() - start)
    return found
