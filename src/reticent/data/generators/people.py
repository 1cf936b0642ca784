"""Fake people and their fake values, from two halves that never meet.

Names are those of Faker's en_US and en_GB lists. One bit of a hash decides for every value whether it is private or
public (`is_private_value`): first names, last names, towns, streets, e-mail addresses, phone, order, tracking and
application numbers, and dates. A source of one half draws only values of that half, so a model that has read the
public half has never read a private value, however many of both are drawn, and neither half looks different.

Nobody is hit by chance: phone numbers start with 0 or 1, which no North American number does; e-mail domains are
those that RFC 2606 reserves; towns are made up.

The price of the split is one bit: a private value is uniform over half of its space. Random codes, whose space must
be exact, are told apart in another way (`codes`).
"""

import datetime
import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

from reticent.core.errors import InternalError
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret

# Names that are words of our phrases too: a reader (and a test) could not tell "Will" from "will".
_ALSO_WORDS: Final = """
April Art August Autumn Banks Best Bill Bird Bishop Black Bond Booth Bridge Brook Brown Carpenter Carter Case
Cash Chance Chase Christian Church Clay Cook Cooper Court Cross Dawn Day Dean Drew Duty Early Faith Farmer Field
Fields Ford Foster Fox Frank French German Gill Glass Good Grace Grant Gray Green Grey Hall Hand Hill Holder
Holiday Holland Hope House Hunt Hunter Iris Jean Joy Judge June King Knight Lake Lane Law Little Long Love Low
Major March Mark Marsh May Miles Mills Moon New Noble Norman North Pace Page Park Parker Parks Pope Power Powers
Price Read Reed Rice Rich Rivers Rose Ross Savage Shaw Shepherd Short Singleton Small Stone Street Strong Summer
Summers Sun Swan Turk Turner Underwood Wall Walls Ward Waters Webb Weeks Wells West White Will Winter Winters
Wise Wood Woods Worth Young
"""
_STREETS: Final = ("Street", "Lane", "Avenue", "Road", "Drive", "Court", "Terrace", "Way", "Close", "Crescent")
_STATES: Final = "AL AZ CA CO CT FL GA IA IL KS MA ME MI MN NC NY OH OR PA TX UT VA VT WA WI"
_MONTHS: Final = "January February March April May June July August September October November December"
_TOWN_FRONTS: Final = ("North", "South", "East", "West", "New", "Lake", "Port", "Upper", "Mount", "Great")
_TOWN_ENDS: Final = ("ville", "ton", "bury", "berg", "mouth", "stad", "field", "haven", "shire", "port", "minster")
_DOMAINS: Final = ("example.com", "example.net", "example.org", "mail.example", "post.example")
_TRACKING: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TRIES: Final = 10_000


def is_private_value(value: str) -> bool:
    """The one bit that splits all values in two halves; the same in every process and on every machine."""
    return bool(hashlib.blake2b(value.encode(), digest_size=1).digest()[0] & 1)


@dataclass(frozen=True, slots=True, repr=False)
class Person:
    """A fake person; `repr` says nothing."""

    first: str
    last: str
    is_woman: bool
    initial: str = ""

    def __repr__(self) -> str:
        return "Person()"

    @property
    def name(self) -> Secret:
        """The full name, the only form in which texts mention a person."""
        middle = f" {self.initial}." if self.initial else ""
        return Secret(f"{self.first}{middle} {self.last}", "PERSON")


@dataclass(frozen=True, slots=True)
class NameLists:
    """First and last names of one half, sorted."""

    women: tuple[str, ...]
    men: tuple[str, ...]
    last: tuple[str, ...]


@cache
def name_lists(private: bool) -> NameLists:
    """Faker's names of the asked half, without those that are also words of the phrases."""
    from faker.providers.person.en_GB import Provider as British  # only when used: a fifth of a second
    from faker.providers.person.en_US import Provider as American

    def half(*lists: Iterable[str]) -> tuple[str, ...]:
        names = {name for each in lists for name in each if name.isascii() and name.isalpha() and len(name) > 2}
        return tuple(sorted(name for name in names - set(_ALSO_WORDS.split()) if is_private_value(name) == private))

    women = half(American.first_names_female, British.first_names_female)
    men = half(American.first_names_male, British.first_names_male)
    return NameLists(women, men, half(American.last_names, British.last_names))


class Source:
    """Draws people and values of one half, repeatably from a seeded `Randomness`."""

    def __init__(self, randomness: Randomness, *, private: bool) -> None:
        self.random = random.Random(randomness.fresh_seed())
        self.private = private
        self._names = name_lists(private)
        self._used: set[tuple[str, str]] = set()

    def _own(self, draw: Callable[[], str]) -> str:
        """A drawn string of this half."""
        for _ in range(_TRIES):
            if is_private_value(value := draw()) == self.private:
                return value
        raise InternalError("no value of this half was found")

    def _fresh(self, kind: str, draw: Callable[[], str]) -> str:
        """A string of this half that was not drawn before."""
        for _ in range(_TRIES):
            value = self._own(draw)
            if (kind, value) not in self._used:
                self._used.add((kind, value))
                return value
        raise InternalError(f"all fake values of kind {kind} are used up")

    def digits(self, count: int) -> str:
        """Uniform digits."""
        return f"{self.random.randrange(10**count):0{count}d}"

    def person(self) -> Person:
        """A person whose full name nobody else of this source has."""
        for _ in range(_TRIES):
            is_woman = self.random.random() < 0.5
            first = self.random.choice(self._names.women if is_woman else self._names.men)
            initial = self.random.choice("ABCDEFGHJKLMNPRSTW") if self.random.random() < 0.15 else ""
            person = Person(first, self.random.choice(self._names.last), is_woman, initial)
            if ("PERSON", person.name.value) not in self._used:
                self._used.add(("PERSON", person.name.value))
                return person
        raise InternalError("all fake names are used up")

    def phone(self) -> Secret:
        """Ten digits, the first 0 or 1 so that it is nobody's; the half goes by the digits, not by the form."""
        number = self._fresh("PHONE", lambda: f"{self.random.randrange(2)}{self.digits(9)}")
        area, exchange, line = number[:3], number[3:6], number[6:]
        forms = (f"{area}-{exchange}-{line}", f"{area}.{exchange}.{line}", f"({area}) {exchange}-{line}", number)
        return Secret(self.random.choice(forms), "PHONE")

    def email(self, person: Person) -> Secret:
        """An address made of the person's name."""
        first, last = person.first.lower(), person.last.lower()

        def draw() -> str:
            stem = self.random.choice(
                (f"{first}.{last}", f"{first[0]}{last}", f"{last}.{first}", f"{first}_{last}")
            )
            number = self.digits(2) if self.random.random() < 0.7 else ""
            return f"{stem}{number}@{self.random.choice(_DOMAINS)}"

        return Secret(self._fresh("EMAIL", draw), "EMAIL")

    def town(self) -> str:
        """A made-up town."""

        def draw() -> str:
            name = self.random.choice(self._names.last)
            if self.random.random() < 0.4:
                return f"{self.random.choice(_TOWN_FRONTS)} {name}"
            return name + self.random.choice(_TOWN_ENDS)

        return self._own(draw)

    def place(self) -> Secret:
        """A made-up town as a secret of its own."""
        return Secret(self.town(), "LOC")

    def address(self) -> Secret:
        """House, street, town, state and postal code."""

        def draw() -> str:
            street = f"{self.random.choice(self._names.last)} {self.random.choice(_STREETS)}"
            flat = self.random.choice(("", "", f" Apt. {self.random.randrange(1, 400)}"))
            state = self.random.choice(_STATES.split())
            return f"{self.random.randrange(1, 10_000)} {street}{flat}, {self.town()}, {state} {self.digits(5)}"

        return Secret(self._fresh("ADDRESS", draw), "ADDRESS")

    def order(self) -> Secret:
        """An order number, as 417-03826-6641."""
        return Secret(self._fresh("ORDER", lambda: f"{self.digits(3)}-{self.digits(5)}-{self.digits(4)}"), "ORDER")

    def tracking(self) -> Secret:
        """A tracking number: ten capital letters and digits."""
        return Secret(self._fresh("TRACKING", lambda: "".join(self.random.choices(_TRACKING, k=10))), "TRACKING")

    def application(self, year: int) -> Secret:
        """An application number, as 12345/04."""
        return Secret(self._fresh("APPLICATION", lambda: f"{self.digits(5)}/{year % 100:02d}"), "APPLICATION")

    def date(self, earliest: datetime.date, days: int) -> datetime.date:
        """A day of this half at most `days` after `earliest`, or the first one after that."""
        day = earliest + datetime.timedelta(days=self.random.randrange(1, days + 1))
        while is_private_value(written(day)) != self.private:
            day += datetime.timedelta(days=1)
        return day


def written(day: datetime.date) -> str:
    """A date as courts write it: 7 March 1998, whatever the locale."""
    return f"{day.day} {_MONTHS.split()[day.month - 1]} {day.year}"
