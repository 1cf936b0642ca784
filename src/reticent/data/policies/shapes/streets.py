"""Streets with a house number, flats, boxes and postcodes of many countries, as expressions of all that they need.

"Villacher Straße 89", "Rua do Arenque 1634", "12, rue de la Paix", "24 Clarke Avenue, Apt. 805", "P.O. Box 12",
"SW1A 1AA". Towns that follow are the business of whoever knows towns; a postcode between them and a street is taken
with the street. Every shape holds a number, and is looked for there: `address_starts` says where one may begin.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from reticent.data.policies.shapes.stretches import Begun, one_of, places

GAP: Final = "[ \u00a0]"
_CAPITAL = "[A-ZÀ-ÖØ-ÞĂĄĆČĎĐĘĚĞİŁŃŇŐŘŚŞŠŤŮŰŹŻŽΆ-ΏΑ-ΩА-Я]"
_NAME = rf"{_CAPITAL}[\w'’-]{{0,30}}"
_FIRST = rf"(?:{_NAME}|(?:St|Dr|Prof)\.)"
_SMALL = (
    "(?:af|al|av|d[aeio]|das|degli|dei|de[lnr]|dell[aeo]|des|dos|du|e|el|l[ae]|los|of|sul|the|van|vo[mn]|y|zu[mr]?)"
)

# Ends of words that are streets, each with a house number behind it.
_ENDS: Final = (
    *("strasse", "straße", "str", "gasse", "weg", "platz", "allee", "damm", "graben"),
    *("straat", "laan", "plein", "gracht", "singel", "dijk"),
    *("gade", "vej", "vænget", "stræde", "sgata", "gatan", "vägen", "vegen", "vegur", "veien", "gränd", "braut"),
    *("katu", "ntie", "kuja", "polku"),
    *("utca", "útja", "körút"),
)
_NO_STREET = (
    "(?<![Bb]ri)(?<![Rr]ene)(?<!isten)(?<!bellen)(?<!tart)"  # brigade, renegade; ranks in lists, tables, races
)
_ENDING = rf"{_NAME}{_NO_STREET}(?:{'|'.join((*_ENDS, *(end.upper() for end in _ENDS)))})\.?"
_APART = r"(?:[Ss]tra(?:ss|ß)e|[Ss]tr\.|[Ww]eg|[Aa]llee|utca|u\.|út|tér|körút)"  # words of their own
_STREETS_BEFORE = (
    *("Rue", "Rua", "Travessa", "Estrada", "Praça", "Via", "Viale", "Vicolo", "Piazza", "Piazzale", "Calle"),
    *("Avenida", "Avda.", "Paseo", "Plaza", "Corso", "Praceta", "ul.", "ulica", "plac", "aleja"),
    *("Av.", "Avda", "C/", "Carrer", "Camino", "Carretera", "Passeig", "Rambla", "Ronda", "Alameda"),
    *("Calea", "Aleea", "Avenue", "Place", "Chaussée", "Allée", "Chemin", "al.", "pl.", "Plac", "Aleja"),
)
# These begin with letters that the search for the others would have to stop at, and are looked for whole.
_LOOKED_FOR = ("Strada", "Jalan")
# Streets whose name is where they lie: "An der Linde 27". One that begins a sentence may be a chapter or a day.
_LYING = ("Am", "An der", "An den", "An dem", "Im", "Zum", "Zur")
_IN_LYING = (" Am ", " An de", " Im ", " Zu")  # one of these is in a text with one of those
_LIES = rf"(?<=[^.!?\n] )(?:{'|'.join(each.replace(' ', GAP) for each in _LYING)})"
# In small letters as well, as within sentences; not "via", which is a word of English.
_IN_SMALL_LETTERS = (
    *("rua", "travessa", "estrada", "praça", "viale", "vicolo", "piazza", "piazzale", "corso"),
    *("calle", "avenida", "avda.", "paseo", "plaza", "c/"),
)
_BEFORE = one_of((*_STREETS_BEFORE, *_LOOKED_FOR, *_IN_SMALL_LETTERS))
_FLAT = r"(?:Apt|apt|Apartment|apartment|Suite|suite|Ste|Flat)\.?"
_BOX = rf"P\.?{GAP}?O\.?{GAP}?Box"
_NR = rf"(?:(?:[Nn][º°]\.?|n\.|núm\.|nr\.?|No\.?:?){GAP}?)"  # "nº 45"
_NUMBER = r"[1-9]\d{0,4}[A-Za-z]?(?:/\d{1,4}[A-Za-z]?)?"
# Years come before streets, too.
_HOUSE = rf"(?:(?!(?:19|20)\d\d{GAP})\d{{1,6}}(?:[/-]\d{{1,5}})?[A-Za-z]?(?:{GAP}\d{{1,5}})?{GAP})"

_ROAD_WORDS = (
    *("Street", "St", "Avenue", "Ave", "Road", "Rd", "Lane", "Ln", "Drive", "Boulevard", "Blvd", "Crescent"),
    *("Terrace", "Parkway", "Pkwy", "Highway", "Hwy", "Court", "Ct", "Close", "Gardens", "Gdns", "Grove", "Way"),
    *("Place", "Pl", "Square", "Sq", "Circle", "Cir", "Trail", "Mews", "Walk", "Loop", "Turnpike"),
)
_ROADS = f"(?:{'|'.join(_ROAD_WORDS)})"
_RUE_WORDS = tuple(
    each
    for word in ("rue", "avenue", "boulevard", "chemin", "impasse", "quai", "allée")
    for each in (word, word.capitalize())
)
_RUES = f"(?:{'|'.join(_RUE_WORDS)})"
_ROAD_AHEAD = re.compile(rf"(?:{'|'.join((*_ROAD_WORDS, *_RUE_WORDS))})\b")
_LONGEST_ROAD = 130  # characters from a house number to the end of such a word

_LINE = rf"(?:{GAP}|\r?\n[ \t>]{{0,8}})"
# What goes on a house number elsewhere: "9 bis", "18 A 4", "45, 2º B".
_DOOR = (
    rf"(?:{GAP}(?:bis|ter|hs)(?!\w)|{GAP}[A-H]{GAP}\d{{1,3}}(?!\w)"
    rf"|,{GAP}\d{{1,2}}[ºª°](?:{GAP}?[A-Za-z]{{1,4}}(?!\w))?)"
)
_TOWN = rf"{_NAME}(?:{GAP}{_NAME})?(?:{GAP}\d{{1,2}}(?=\.?\s|[,;]|\.?\Z))?"
_TAIL = (
    rf"{_DOOR}?(?:,?{_LINE}{_FLAT}{GAP}#?{_NUMBER}){{0,2}}"
    rf"(?:,?{_LINE}(?:[A-Z]{{1,2}}-)?(?:\d{{4,6}}|\d{{3}}{GAP}\d\d|\d\d-\d{{3}}|\d{{4}}-\d{{3}}|\d{{4}}{GAP}?[A-Z]{{2}}){GAP}{_TOWN})?"
)

# "415 oak street", but no "10 mile road": numbers of two digits and words that nothing is counted in.
_COUNTED_WORDS = (
    "miles?|minutes?|min|hours?|days?|weeks?|years?|feet|foot|ft|kms?|lanes?|ways?|people|cars?|blocks?|of"
)
_OTHER_WORDS = "and|the|in|on|to|at|from|for|more|other|new|dirt|different|down|up|per"
_SMALL_WORDS = rf"(?!(?:{_COUNTED_WORDS}|{_OTHER_WORDS})\b)[a-z]{{3,15}}"
_SMALL_ROADS = ("street", "avenue")
_IN_SMALL = (
    rf"[1-9]\d{{1,5}}{GAP}(?:[nsew]{GAP})?{_SMALL_WORDS}{GAP}(?:{_SMALL_WORDS}{GAP})?(?:{'|'.join(_SMALL_ROADS)})\b"
)
_BEFORE_SMALL_ROADS = [f" {word}" for word in _SMALL_ROADS]
_LONGEST_SMALL = 42  # characters of `_IN_SMALL` before its last word

# Whatever the name of the street, a flat behind its number tells.
_WITH_FLAT = rf"{_HOUSE}?(?:{_FIRST}{GAP}){{0,2}}{_NAME}{GAP}{_NUMBER},?{_LINE}{_FLAT}"

EXPRESSIONS: Final = (
    rf"{_HOUSE}?(?:{_FIRST}{GAP})?(?:{_ENDING}|{_NAME}{GAP}{_APART}){GAP}{_NUMBER}{_TAIL}",
    rf"{_HOUSE}?{_BEFORE}(?:{GAP}{_SMALL}){{0,2}}(?:{GAP}(?:{_NAME}|{_SMALL})){{0,3}}{GAP}{_NAME},?{GAP}{_NR}?{_NUMBER}{_TAIL}",
    rf"{_LIES}{GAP}(?:{_NAME}{GAP})?{_NAME}{GAP}[1-9]\d{{0,2}}[a-z]?{_TAIL}",
    rf"{_HOUSE}(?:{_FIRST}{GAP}){{1,3}}{_ROADS}\b\.?{_TAIL}",
    rf"{_IN_SMALL}{_TAIL}",
    rf"\d{{1,4}}(?:{GAP}?(?:bis|ter))?,?{GAP}{_RUES}(?:{GAP}{_SMALL}|{GAP}[LlDd]['’]){{0,2}}{GAP}?{_NAME}{_TAIL}",
    rf"{_WITH_FLAT}{GAP}#?{_NUMBER}",
    rf"{_FLAT}{GAP}#?{_NUMBER}",
    rf"{_BOX}{GAP}{_NUMBER}",
    r"[A-Z]{1,2}\d[A-Z\d]? \d(?!ST|ND|RD|TH)[A-Z]{2}",
    r"[ABCEGHJ-NPRSTVXY]\d[A-Z] ?\d[A-Z]\d",
)

_JOINING = frozenset(" \u00a0#")  # to a house number
_BEHIND = 200  # characters before a house number in which its street begins
_LONGEST_NAME = 31  # characters of `_NAME`
_STREET = re.compile(
    rf"(?<!\w)(?:{_HOUSE}?(?:(?:{_FIRST}{GAP})?(?:{_ENDING}|{_NAME}{GAP}{_APART})"
    rf"|{_BEFORE}(?:{GAP}(?:{_NAME}|{_SMALL})){{1,6}},?(?:{GAP}{_NR})?)|{_WITH_FLAT}|{_FLAT}|{_BOX}){GAP}#?\Z"
)
# Where the word before the number tells nothing, what `_STREET` finds begins with a word that streets are named
# after, or with a number before it.
_NAMED = re.compile(rf"{_BEFORE}(?:{GAP}(?:{_NAME}|{_SMALL})){{1,6}},?(?:{GAP}{_NR})?{GAP}?#?\Z")
_LYING_BEHIND = re.compile(rf"{_LIES}(?:{GAP}{_NAME}){{1,2}}{GAP}\Z")
_LONGEST_LYING = 76  # characters
_NUMBERED = re.compile(rf"(?<!\w){_HOUSE}\Z")
_LONGEST_HOUSE = 20  # characters
# Letters before a house number, less a dot and a gap: one look at them spares nearly every search. So does one for
# the word itself, and for the words that streets are named after where there is none.
_LAST = frozenset(
    each[-3:]
    for end in (*_ENDS, "Str", "Weg", "tér", "Apt", "apt", "ment", "ite", "Ste", "lat", "Box")
    for each in (end, end.upper())
)
_TOLD = re.compile(rf"(?:{_ENDING}|{_APART}|{_FLAT}|{_BOX})\Z")
_LONGEST_TOLD = 48  # characters
_NAMED_AFTER = Begun("".join({word[0] for word in _STREETS_BEFORE}), _BEFORE + GAP)
# "piazza" is in any text that holds "piazzale".
_PARTS_IN_SMALL_LETTERS = [w for w in _IN_SMALL_LETTERS if not any(o in w for o in {*_IN_SMALL_LETTERS} - {w})]
_SMALL_WORD = re.compile(f"{_SMALL}|{_NR}")
_WORDS = re.compile(r"(?<!\w)\w")
_DIGITS = re.compile(r"(?<!\w)\d")
_AHEAD = re.compile(
    rf"\d{{1,6}}(?:[/-]\d{{1,5}})?(?:[A-Za-z]|{GAP}?bis|{GAP}?ter)?(?:{GAP}\d{{1,5}})?,?{GAP}(?:{_CAPITAL}|{_RUES})"
)
_CODED = re.compile(rf"(?<!\w)[A-Z]{{1,2}}\d[A-Z\d]?{GAP}?\d[A-Z\d]{{2}}(?!\w)")


def address_starts(text: str, digits: Sequence[int]) -> list[int]:
    """Every place where an expression may begin, and others, in order. `digits` are runs of digits."""
    named: list[int] | None = None  # words that streets are named after, in order; looked for when first needed
    lying: list[int] = []  # and where words stand that say where a street lies
    found = set()
    for place in digits:
        if _AHEAD.match(text, place) and _ROAD_AHEAD.search(text, place, place + _LONGEST_ROAD):
            found.add(place)
        before = text[place - 1 : place]
        if before in _JOINING:
            end = place - 2 if before == "#" else place - 1
            first = max(0, place - _BEHIND)
            begin = None
            if _tells(text, end):
                if match := _STREET.search(text[first:place]):
                    begin = first + match.start()
            elif (
                named is None or _between(named, first, place) or _between(lying, place - _LONGEST_LYING, place)
            ) and _may_be_named(text, end):
                if named is None:
                    named, lying = _named_after(text), places(text, _IN_LYING)
                begin = _named_start(text, _between(named, first, place), place)
                if begin is None and _between(lying, place - _LONGEST_LYING, place):
                    lies = _LYING_BEHIND.search(text, max(0, place - _LONGEST_LYING), place)
                    begin = lies.start() if lies else None
            if begin is not None:
                found.update(word.start() for word in _WORDS.finditer(text, begin, place))
        elif before.isupper():
            found.update(first for first in (place - 2, place - 1) if first >= 0 and _CODED.match(text, first))
    for place in places(text, _BEFORE_SMALL_ROADS):
        first = max(0, place - _LONGEST_SMALL)
        found.update(first + match.start() for match in _DIGITS.finditer(text[first:place]))
    return sorted(found)


def _between(found: list[int], first: int, last: int) -> list[int]:
    """The places from `first` on and before `last`, of some in order."""
    return found[bisect_left(found, first) : bisect_left(found, last)]


def _named_after(text: str) -> list[int]:
    """Where words stand that streets are named after, in order; those in small letters are rare, and looked for
    whole."""
    whole = (*_PARTS_IN_SMALL_LETTERS, *_LOOKED_FOR)
    small = (n for n in places(text, whole) if not n or not text[n - 1].isalnum())
    capital = (match.start() for match in _NAMED_AFTER.finditer(text, 0, len(text)))
    return sorted({*small, *capital})


def _named_start(text: str, named: Sequence[int], place: int) -> int | None:
    """Where a street begins that has its number at `place` and its first word at one of the places `named`."""
    for start in named:
        if _NAMED.match(text, start, place):
            house = _NUMBERED.search(text, max(0, start - _LONGEST_HOUSE), start)
            return house.start() if house else start
    return None


def _tells(text: str, end: int) -> bool:
    """Whether the word that ends here may be that of a street, a flat or a box."""
    last = end - 1 if text[end - 1 : end] == "." else end
    may = text[last - 3 : last] in _LAST or text[last - 2 : last] == "út" or text[last - 1 : end] == "u."
    return may and bool(_TOLD.search(text[max(0, end - _LONGEST_TOLD) : end]))


def _may_be_named(text: str, end: int) -> bool:
    """Whether the word that ends here, perhaps with a comma, may be the last of the name of a street."""
    if text[end - 1 : end] == ",":
        end -= 1
    first = max(0, end - _LONGEST_NAME - 1)
    start = 1 + max(text.rfind(" ", first, end), text.rfind("\u00a0", first, end))
    return start > 0 and (not text[start : start + 1].islower() or bool(_SMALL_WORD.fullmatch(text, start, end)))
