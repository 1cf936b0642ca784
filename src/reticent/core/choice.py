"""A closed choice that a caller makes by its member or by its word.

Code compares members by identity, and a `StrEnum` equals its own value: "replace one" == Neighbours.REPLACE, but is
not that member. So a word that slips through is read as another choice, and a cache takes it for the member.
Whatever is public and takes a member therefore starts with `member_of` or `settle_choices`.
"""

import difflib
from collections.abc import Sequence
from enum import Enum
from typing import Any, TypeVar

from reticent.core.errors import ConfigError

Member = TypeVar("Member", bound=Enum)
_LONGEST = 40  # of a wrong word that is quoted: what is longer may be somebody's text


def word_of(member: Enum) -> str:
    """A member as flags and files spell it: its `word` where it has one, its name where its value is a number."""
    if isinstance(member.value, int):
        return member.name.lower()
    return str(getattr(member, "word", member.value))


def member_of(kind: type[Member], given: Member | str, *, name: str) -> Member:
    """The member of `kind` that was given as it is, by its value or by its word; anything else is refused.

    `name` is what the caller calls the choice, such as the name of an argument.

    >>> member_of(Neighbours, "add-remove", name="neighbours")
    <Neighbours.ADD_REMOVE: 'add or remove one'>
    """
    if isinstance(given, kind):
        return given
    for member in kind:
        if type(given) in (str, int) and given in (member.value, word_of(member)):
            return member
    is_short = type(given) in (str, int) and len(str(given)) <= _LONGEST
    raise ConfigError(
        f"{name} is none of its choices",
        found=repr(given) if is_short else type(given).__name__,
        expected=" or ".join(word_of(member) for member in kind),
    )


def advice(name: str, known: Sequence[str]) -> str:
    """What to say after an unknown name: the nearest of the known ones, or all of them."""
    near = meant(name, known)
    return f", {near}" if near else f"; known: {', '.join(known)}"


def meant(name: str, known: Sequence[str], *, alike: float = 0.6) -> str | None:
    """A question after the known name that is nearest to an unknown one; None where none is at least so `alike`.

    >>> meant("unoin", ["patterns", "union"])
    "did you mean 'union'?"
    """
    near = difflib.get_close_matches(name, known, n=1, cutoff=alike)
    return f"did you mean '{near[0]}'?" if near else None


def settle_choices(values: Any, **kinds: type[Enum]) -> None:
    """Put the members into the named fields of a frozen dataclass that is being made, where words were given."""
    for name, kind in kinds.items():
        object.__setattr__(values, name, member_of(kind, getattr(values, name), name=name))
