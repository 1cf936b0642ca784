"""People and what belongs to them: pairs of a person and a value that one record holds together.

The person is the last one named before the value. Where the policy itself names nobody (patterns, say), people are
found by another one. A person has several names: "J. Doe" and "Doe" are John Doe where one longer name alone, of
the same record or else of the whole text, can be meant by them. Pairs of one person and one value are one pair.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reticent.auditing.attacks.personal_data.inventory import PiiInventory, value_of
from reticent.core.corpus import Policy, Span
from reticent.core.secret import Secret
from reticent.data.kinds import TITLES, VAGUE, canonical

PERSON: Final = "PERSON"
_BEFORE: Final = 400  # characters before a value


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A person and a value that stand together in a record, what else the person is called, and the text before."""

    record: str
    owner: str
    name: Secret
    value: Secret
    aliases: tuple[Secret, ...] = ()
    prefix: str = ""

    def __repr__(self) -> str:
        return f"Pair({self.record}, {self.value.kind})"

    @property
    def names(self) -> tuple[Secret, ...]:
        """All names of the person, the fullest first."""
        return (self.name, *self.aliases)


def associated_pairs(inventory: PiiInventory, *, people: Policy | None = None) -> tuple[Pair, ...]:
    """Distinct pairs of a person and a value, in order of appearance; `people` is asked where nobody is tagged."""
    spans = inventory.spans
    if people is not None and PERSON not in map(canonical, inventory.kinds):
        found = people.find([record.text for record in inventory.records])
        spans = tuple(_with_people(mine, others) for mine, others in zip(spans, found, strict=True))
    named: list[list[tuple[Span, Secret]]] = [
        [(span, value_of(record.text[span.start : span.end], canonical(span.kind))) for span in each]
        for record, each in zip(inventory.records, spans, strict=True)
    ]
    everybody = {value for each in named for _, value in each if value.kind == PERSON}
    known = Aliases(everybody)
    pairs: dict[tuple[Secret, Secret], Pair] = {}
    for record, each in zip(inventory.records, named, strict=True):
        here = Aliases({value for _, value in each if value.kind == PERSON})
        name: Secret | None = None
        for span, value in each:
            if value.kind == PERSON:
                name = known.person(here.person(value))
            elif name is not None and value.value:
                prefix = record.text[max(0, span.start - _BEFORE) : span.start]
                pairs.setdefault((name, value), Pair(record.id, record.owner, name, value, prefix=prefix))
    called: dict[Secret, list[Secret]] = {}
    for alias in sorted(everybody, key=lambda one: one.reveal()):
        called.setdefault(known.person(alias), []).append(alias)
    return tuple(
        replace(pair, aliases=tuple(one for one in called.get(pair.name, ()) if one != pair.name))
        for pair in pairs.values()
    )


def _with_people(spans: Sequence[Span], found: Iterable[Span]) -> tuple[Span, ...]:
    """The spans of a record, and people of another policy where no span says more than that it stands out."""
    typed = [span for span in spans if canonical(span.kind) not in VAGUE]
    people = [one for one in found if canonical(one.kind) == PERSON and not any(one.overlaps(s) for s in typed)]
    vague = [span for span in spans if span not in typed and not any(span.overlaps(one) for one in people)]
    return tuple(sorted([*typed, *people, *vague]))


class Aliases:
    """Which names mean the same person."""

    def __init__(self, names: Iterable[Secret]) -> None:
        self._by_last: dict[str, list[Secret]] = {}
        for name in sorted(names, key=lambda one: one.reveal()):
            if words := words_of(name.reveal()):
                self._by_last.setdefault(words[-1], []).append(name)

    def person(self, name: Secret) -> Secret:
        """The fullest name that is meant; the name itself where none or several could be."""
        words = words_of(name.reveal())
        listed = self._by_last.get(words[-1], []) if words else []
        fuller = [one for one in listed if _size(one) > _size(name) and is_alias(name.reveal(), one.reveal())]
        if not fuller:
            return name
        fullest = max(fuller, key=_size)
        agree = all(one == fullest or is_alias(one.reveal(), fullest.reveal()) for one in fuller)
        return fullest if agree else name


def is_alias(short: str, full: str) -> bool:
    """Whether the first name may stand for the second: the same last word, and given names or their initials."""
    one, other = words_of(short), words_of(full)
    if not one or not other or one[-1] != other[-1] or len(one) > len(other):
        return False
    return all(
        mine == theirs or (len(mine) == 1 and theirs.startswith(mine))
        for mine, theirs in zip(one[:-1], other[:-1], strict=False)
    )


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, titles and full stops left out."""
    words = [word.strip(".,;:'’\"()").casefold() for word in name.replace(".", ". ").split()]
    return [word for word in words if word and word not in TITLES]


def _size(name: Secret) -> tuple[int, int]:
    """How much a name tells: its words, then their letters."""
    words = words_of(name.reveal())
    return len(words), sum(map(len, words))
