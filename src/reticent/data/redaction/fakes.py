"""Fake values in place of real ones: of the same class and rough shape, and the same one wherever a value stands.

A fake is a function of a secret key, the class and the value (case and white space aside): with the key, "Ada
Byron" and "ADA BYRON" become one made-up person in every record; without it, nobody can tell which value a fake
stands for better than from the text around it. It follows that fakes keep what a mask hides: which mentions are the
same value, its rough shape, and how far dates are apart. They are for data that must look real, never for a
guarantee.

    person   names of Faker's lists, word by word: "Ada Byron", "Byron" and "A. Byron" stay one person; titles stay
    e-mail   at domains that RFC 2606 reserves          IP     from ranges kept for documentation (RFC 5737, 3849)
    card     a right check digit                        IBAN   a right checksum, same country and length
    SSN      from the range that is never issued        phone  a valid number of the same country, where it says one
    URL      a site of the reserved domain .example, with the same scheme
    date     moved by as many days, in the same notation, for every date under one key: what lies between two dates
             stays as long; years alone move by whole years
    others   digits for digits and letters for letters

Never equal to the value itself. Other real values may be met by chance: a made-up phone number may be someone's.
"""

import hashlib
import ipaddress
import random
import re
import string
import unicodedata
from collections.abc import Callable
from functools import cache

from reticent.data.kinds import TITLES, canonical
from reticent.data.policies.shapes.checksums import luhn
from reticent.data.policies.words.vocabulary import first_names
from reticent.data.redaction.shifted_dates import shifted

# Of a word: letters, and in scripts that have them marks that are none by themselves, such as vowels.
_LETTERS = r"(?:[^\W_]|[\u0300-\u036f\u0591-\u05c7\u0610-\u065f\u0900-\u0dff\u0e31-\u0e4e])+"
_SCHEME = re.compile(r"(?i)(?:[a-z][a-z0-9+.-]{1,20}://)?(?:www\.)?")
_TRIES = 100
_DRAWS = 30  # of a phone number, to find a valid one
_KEPT = 100_000  # fakes that are kept in memory, since values repeat
_MONTHS = "January February March April May June July August September October November December"
_CLASSES = {
    "person": "PERSON",
    "place": "LOC ADDRESS",
    "organisation": "ORG",
    "email": "EMAIL",
    "date": "DATE YEAR",
    "phone": "PHONE",
    "card": "CARD",
    "iban": "IBAN",
    "ip": "IP",
    "ssn": "SSN",
    "url": "URL",
}
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds.split()}


class Fakes:
    """Makes fakes under a key of 16 to 64 bytes."""

    def __init__(self, key: bytes) -> None:
        if not 16 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a key has 16 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, found {len(key)}")
        self._key = key
        # One to five years, in either direction: years alone must move too.
        draw = self._source("offset", "")
        self.days = draw.choice((-1, 1)) * draw.randint(400, 1800)
        self._made: dict[tuple[str, str], str] = {}

    def __repr__(self) -> str:
        return "Fakes()"

    def fake(self, value: str, kind: str) -> str:
        """The fake that stands for `value` of `kind`, in the value's own case."""
        name = _CLASS_OF.get(canonical(kind), "shape")
        made = self._made.get((name, value))
        if made is None:
            if len(self._made) >= _KEPT:
                self._made.clear()
            made = self._made[name, value] = self._fake(value, name)
        return made

    def _fake(self, value: str, name: str) -> str:
        if name == "person":
            return self._person(value) or "x" * len(value)
        if name == "date" and (moved := shifted(value, self.days)) is not None and moved != value:
            return moved
        source = self._source(name, " ".join(value.casefold().split()))
        for _ in range(_TRIES):
            made = _MAKERS[name](value, source)
            if made.casefold() != value.casefold():
                break
        else:  # a value without letters or digits: nothing of its shape differs from it
            return "x" * len(value)
        return made.upper() if value.isupper() and name in ("place", "organisation") else made

    def _source(self, name: str, folded: str) -> random.Random:
        digest = hashlib.blake2b(f"{name}\0{folded}".encode("utf8", "surrogatepass"), key=self._key, digest_size=16)
        return random.Random(digest.digest())

    def _person(self, value: str) -> str:
        """Each word of a name by itself, so that a part of it alone, or an initial, still names the same person."""
        made = " ".join(re.sub(_LETTERS, self._word, word) for word in value.split())
        return made if made.casefold() != value.casefold() else ""

    def _word(self, match: re.Match[str]) -> str:
        word = match.group()
        folded = word.casefold()
        if folded in TITLES:
            return word
        first, last = _by_initial()
        letters = sorted(first.keys() & last.keys())
        # An initial and a name that starts with it become an initial and a name that starts with that.
        order = self._source("initials", "").sample(letters, len(letters))
        initial = order[ord(folded[0]) % len(order)]
        if len(word) == 1:
            other = order[(order.index(initial) + 1) % len(order)]
            return other if initial.casefold() == folded else initial if word.isupper() else initial.lower()
        source = self._source("person", folded)
        names = first if folded in first_names() else last
        made = source.choice([name for name in names[initial] if name.casefold() != folded])
        return made.upper() if word.isupper() else made.lower() if word.islower() else made


def _shape(value: str, source: random.Random) -> str:
    """Digits for digits, letters for letters of the same case, marks on letters away; the rest as it is."""
    head = _SCHEME.match(value)
    made = [head.group() if head else ""]
    for symbol in value[len(made[0]) :]:
        if symbol.isdigit():
            made.append(source.choice(string.digits))
        elif symbol.isalpha():
            made.append(source.choice(string.ascii_uppercase if symbol.isupper() else string.ascii_lowercase))
        elif not unicodedata.category(symbol).startswith("M"):
            made.append(symbol)
    return "".join(made)


def _url(value: str, source: random.Random) -> str:
    head = _SCHEME.match(value)
    start = len(head.group()) if head else 0
    _, slash, path = value[start:].partition("/")
    return f"{value[:start]}{source.choice(_last_names()).lower()}.example{slash}{_shape(path, source)}"


def _place(value: str, source: random.Random) -> str:
    town = source.choice(_last_names()) + source.choice(("ville", "ton", "bury", "field", "haven", "port"))
    digits = "".join(symbol if symbol.isdigit() else " " for symbol in value).split()
    return f"{_shape(digits[0], source)} {town}" if digits else town


def _organisation(_value: str, source: random.Random) -> str:
    ending = source.choice(("Group", "Partners", "Institute", "Office", "Holdings", "Society"))
    return f"{source.choice(_last_names())} {ending}"


def _email(_value: str, source: random.Random) -> str:
    local = f"{source.choice(_first_names())}.{source.choice(_last_names())}{source.randrange(100)}".lower()
    return f"{local}@{source.choice(('example.com', 'example.net', 'example.org'))}"


def _card(value: str, source: random.Random) -> str:
    first = source.choice("3456")
    made = re.sub(r"\d", first, _shape(value, source), count=1)
    body = "".join(symbol for symbol in made if symbol.isdigit())[:-1]
    check = next(digit for digit in string.digits if luhn(body + digit))
    last = max(n for n, symbol in enumerate(made) if symbol.isdigit())
    return made[:last] + check + made[last + 1 :]


def _iban(value: str, source: random.Random) -> str:
    compact = "".join(value.split()).upper()
    country, body = compact[:2], _shape(compact[4:], source)
    number = int("".join(str(int(symbol, 36)) for symbol in body + country + "00"))
    made = iter(f"{country}{98 - number % 97:02}{body}")
    return "".join(symbol if symbol.isspace() else next(made) for symbol in value)


def _phone(value: str, source: random.Random) -> str:
    """A number of the same country, valid by its numbering plan where one is found in some draws."""
    import phonenumbers  # deferred: some 50 ms

    head = re.match(r"\+\d{1,3}", value)
    try:
        country = f"+{phonenumbers.parse(value).country_code}" if head else ""
    except phonenumbers.NumberParseException:
        country = head.group() if head else ""
    zeros = re.match(r"\D*0*", value[len(country) :])
    kept = value[: len(country) + (zeros.end() if zeros else 0)]
    made = kept + _shape(value[len(kept) :], source)
    for _ in range(_DRAWS if country else 0):
        try:
            if made != value and phonenumbers.is_valid_number(phonenumbers.parse(made)):
                return made
        except phonenumbers.NumberParseException:
            break
        made = kept + _shape(value[len(kept) :], source)
    return made


def _ip(value: str, source: random.Random) -> str:
    try:
        is_six = ipaddress.ip_address(value).version == 6
    except ValueError:
        return _shape(value, source)
    if is_six:
        return str(ipaddress.ip_address(f"2001:db8::{source.randrange(1, 2**16):x}:{source.randrange(2**16):x}"))
    return f"{source.choice(('192.0.2', '198.51.100', '203.0.113'))}.{source.randrange(1, 255)}"


def _ssn(value: str, source: random.Random) -> str:
    return re.sub(r"\d", "9", _shape(value, source), count=1)  # areas from 900 are never issued


def _date(value: str, source: random.Random) -> str:
    worded = re.search(r"[^\W\d_]{3}", value) is not None

    def number(match: re.Match[str]) -> str:
        digits = match.group()
        if len(digits) == 4:
            return str(source.randrange(1950, 2025))
        if len(digits) > 2:
            return _shape(digits, source)
        # In figures alone nobody knows which field is the month: twelve is a day, a month, an hour and a minute.
        high = 9 if len(digits) == 1 else 28 if worded else 12
        low = 10 if len(digits) == 2 and worded else 1
        return str(source.randint(low, high)).zfill(len(digits))

    def month(match: re.Match[str]) -> str:
        name = match.group()
        known = next((m for m in _MONTHS.split() if m.casefold().startswith(name.casefold())), None)
        if known is None:
            return _shape(name, source)  # a feast, a weekday, a month of another language: it tells the date
        return source.choice(_MONTHS.split())[: len(name) if len(name) == 3 else None]

    return re.sub(r"[^\W\d_]{3,}", month, re.sub(r"\d+", number, value))


@cache
def _by_initial() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """First and last names by their first letter, of letters that have some of each."""
    made: list[dict[str, list[str]]] = []
    for names in (_first_names(), _last_names()):
        listed: dict[str, list[str]] = {}
        for name in names:
            listed.setdefault(name[0].upper(), []).append(name)
        made.append({letter: found for letter, found in listed.items() if len(found) >= 5})
    return made[0], made[1]


@cache
def _first_names() -> tuple[str, ...]:
    from faker.providers.person.en_US import Provider  # deferred: Faker takes a while to load

    return tuple(sorted(set(Provider.first_names)))


@cache
def _last_names() -> tuple[str, ...]:
    from faker.providers.person.en_US import Provider

    return tuple(sorted(set(Provider.last_names)))


_MAKERS: dict[str, Callable[[str, random.Random], str]] = {
    "place": _place,
    "organisation": _organisation,
    "email": _email,
    "date": _date,
    "phone": _phone,
    "card": _card,
    "iban": _iban,
    "ip": _ip,
    "ssn": _ssn,
    "url": _url,
    "shape": _shape,
}
