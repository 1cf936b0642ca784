"""Fake values in place of real ones: of the same class and rough shape, and the same one wherever a value stands.

A fake is a function of a secret key, the class and the value (case and white space aside): with the key, "Ada
Byron" and "ADA BYRON" become one made-up person in every record; without it, nobody can tell which value a fake
stands for better than from the text around it. It follows that fakes keep what a mask hides: which mentions are the
same value, and its rough shape. They are for data that must look real, never for a guarantee.

    person   names of Faker's lists, as many words; titles and initials stay in their places
    e-mail   at domains that RFC 2606 reserves          IP     from ranges kept for documentation (RFC 5737, 3849)
    card     a right check digit                        IBAN   a right checksum, same country and length
    SSN      from the range that is never issued        date   another day in the same notation
    others   digits for digits and letters for letters

Never equal to the value itself. Other real values may be met by chance: a made-up phone number may be somebody's.
"""

import hashlib
import ipaddress
import random
import re
import string
from collections.abc import Callable
from functools import cache

from reticent.data.kinds import TITLES, canonical
from reticent.data.policies.checksums import luhn

_TRIES = 100
_MONTHS = "January February March April May June July August September October November December"
_CLASSES = {
    "person": "PERSON",
    "place": "LOC ADDRESS",
    "organisation": "ORG",
    "email": "EMAIL",
    "date": "DATE",
    "card": "CARD",
    "iban": "IBAN",
    "ip": "IP",
    "ssn": "SSN",
}
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds.split()}


class Fakes:
    """Makes fakes under a key of 16 to 64 bytes."""

    def __init__(self, key: bytes) -> None:
        if not 16 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a key has 16 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, found {len(key)}")
        self._key = key

    def __repr__(self) -> str:
        return "Fakes()"

    def fake(self, value: str, kind: str) -> str:
        """The fake that stands for `value` of `kind`, in the value's own case."""
        name = _CLASS_OF.get(canonical(kind), "shape")
        folded = " ".join(value.casefold().split())
        digest = hashlib.blake2b(f"{name}\0{folded}".encode("utf8", "surrogatepass"), key=self._key, digest_size=16)
        source = random.Random(digest.digest())
        for _ in range(_TRIES):
            made = _MAKERS[name](value, source)
            if made.casefold() != value.casefold():
                break
        else:  # a value without letters or digits: nothing of its shape differs from it
            return "x" * len(value)
        if value.isupper() and name in ("person", "place", "organisation"):
            return made.upper()
        return made.lower() if value.islower() and name == "person" else made


def _shape(value: str, source: random.Random) -> str:
    """Digits for digits, letters for letters of the same case, the rest as it is."""
    made = []
    for symbol in value:
        if symbol.isdigit():
            made.append(source.choice(string.digits))
        elif symbol.isalpha():
            made.append(source.choice(string.ascii_uppercase if symbol.isupper() else string.ascii_lowercase))
        else:
            made.append(symbol)
    return "".join(made)


def _person(value: str, source: random.Random) -> str:
    words = [word for word in value.split() if word]
    plain = [
        n for n, word in enumerate(words) if word.strip(".").casefold() not in TITLES and len(word.strip(".")) > 1
    ]
    made = []
    for n, word in enumerate(words):
        if n in plain:
            made.append(source.choice(_last_names() if n == plain[-1] else _first_names()))
        elif word.strip(".").casefold() in TITLES:
            made.append(word)
        else:
            made.append(_shape(word, source))
    return " ".join(made)


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
def _first_names() -> tuple[str, ...]:
    from faker.providers.person.en_US import Provider  # deferred: Faker takes a while to load

    return tuple(sorted(set(Provider.first_names)))


@cache
def _last_names() -> tuple[str, ...]:
    from faker.providers.person.en_US import Provider

    return tuple(sorted(set(Provider.last_names)))


_MAKERS: dict[str, Callable[[str, random.Random], str]] = {
    "person": _person,
    "place": _place,
    "organisation": _organisation,
    "email": _email,
    "date": _date,
    "card": _card,
    "iban": _iban,
    "ip": _ip,
    "ssn": _ssn,
    "shape": _shape,
}
