"""Facts of made-up court cases, in the style of the European Court of Human Rights, with exact labels.

One record is one case of several paragraphs; its owner is the applicant, who may have several cases (the tail).
Lawyers, government agents and towns are shared between cases, a few of them by many, as in real case law: their
names repeat across owners. Days run forward within a case. Kinds: PERSON, LOC, DATE, APPLICATION. States,
nationalities, occupations and sums are not labelled: they single out nobody.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import Secret
from reticent.data.generators import case_phrases as phrases
from reticent.data.generators.dialogue_phrases import offered
from reticent.data.generators.labels import Draft, without_labels
from reticent.data.generators.people import Source, written
from reticent.data.generators.tail import Favourites, tail_sizes

_FIRST_YEAR: Final = 1990
_YEARS: Final = 18
_NOTICE: Final = 0.4
_STEP_DAYS: Final = 280  # six steps end before the application, five years on

Option = TypeVar("Option")


@dataclass(frozen=True, slots=True)
class _Applicant:
    """What stays the same about an applicant."""

    owner: str
    slots: dict[str, Secret | str]


@dataclass(frozen=True, slots=True)
class _Shared:
    """People and places that many cases have in common."""

    lawyers: Favourites[Secret]
    towns: Favourites[Secret]
    agents: dict[str, Favourites[Secret]]


def generate_cases(count: int, *, randomness: Randomness, private: bool = True) -> Corpus:
    """`count` cases with labelled secrets, or as many of the public half, which holds none and has no labels."""
    corpus = labelled_cases(count, randomness=randomness, private=private)
    return corpus if private else without_labels(corpus)


def labelled_cases(count: int, *, randomness: Randomness, private: bool) -> Corpus:
    """As `generate_cases`, with the spans of the public half's values too: for checks of the generator itself."""
    source = Source(randomness, private=private)
    half = "private" if private else "public"
    shared = _shared(source, count)
    cases: list[_Applicant] = []
    for index, size in enumerate(tail_sizes(count, randomness)):
        cases += [_applicant(source, shared, f"{half}/applicant-{index}")] * size
    order = randomness.permutation(count).tolist()
    return Corpus(_case(source, shared, cases[at], f"{half}/case-{i}") for i, at in enumerate(order))


def _shared(source: Source, count: int) -> _Shared:
    """Lawyers, towns and each state's agents, the more of them the more cases there are."""
    several = max(8, count // 8)
    agents = 1 + count // 250
    return _Shared(
        Favourites([source.person().name for _ in range(several)]),
        Favourites([source.place() for _ in range(several)]),
        {state: Favourites([source.person().name for _ in range(agents)]) for state, _ in phrases.STATES},
    )


def _applicant(source: Source, shared: _Shared, owner: str) -> _Applicant:
    person = source.person()
    born = source.date(datetime.date(source.random.randrange(1925, 1972), 1, 1), 365)
    state, nation = source.random.choice(offered(phrases.STATES, private=source.private))
    he, his, him, title = ("she", "her", "her", "Ms") if person.is_woman else ("he", "his", "him", "Mr")
    words: dict[str, Secret | str] = {"he": he, "He": he.title(), "his": his, "His": his.title(), "him": him}
    words |= {"title": title, "state": state, "nation": nation}
    words["occupation"] = source.random.choice(offered(phrases.OCCUPATIONS, private=source.private))
    words |= {"name": person.name, "birth": Secret(written(born), "DATE"), "home": shared.towns.draw(source.random)}
    return _Applicant(owner, words | {"agent": shared.agents[state].draw(source.random)})


class _Calendar:
    """Writes templates whose every {date} is a new day, later than the one before."""

    def __init__(self, source: Source, draft: Draft, start: datetime.date) -> None:
        self._source = source
        self._draft = draft
        self.day = start

    def write(self, template: str, slots: dict[str, Secret | str]) -> None:
        """Append the template; {date} moves the calendar on."""
        if "{date}" in template:  # no phrase has two
            self.day = self._source.date(self.day, _STEP_DAYS)
        self._draft.write(template, slots | {"date": Secret(written(self.day), "DATE")})


def _case(source: Source, shared: _Shared, applicant: _Applicant, record_id: str) -> Record:
    """Procedure, person, three steps of the story, ending."""
    draw = source.random

    def pick(options: Sequence[Option]) -> Option:
        return draw.choice(offered(options, private=source.private))

    lodged = source.date(datetime.date(_FIRST_YEAR + draw.randrange(_YEARS), 1, 1), 365)
    slots = applicant.slots | {
        "application": source.application(lodged.year),
        "lawyer": shared.lawyers.draw(draw),
        "other": source.person().name,
        "town": shared.towns.draw(draw),
        "sum": pick(phrases.SUMS),
    }
    draft = Draft()
    draft.write("PROCEDURE\n\n" + pick(phrases.ORIGINS), slots | {"date": Secret(written(lodged), "DATE")})
    draft.write("\n\n" + pick(phrases.COUNSEL), slots)
    if draw.random() < _NOTICE:
        _Calendar(source, draft, lodged).write("\n\n" + pick(phrases.NOTICES), slots)
    draft.write("\n\nTHE FACTS\n\n" + pick(phrases.PERSONS), slots)
    # The story happened in the five years before the application.
    story = _Calendar(source, draft, lodged - datetime.timedelta(days=5 * 365))
    steps = pick(phrases.SUBJECTS)
    for step in steps:
        first, second = draw.sample(offered(step, private=source.private), 2)
        story.write("\n\n" + first, slots)
        if draw.random() < 0.4:
            story.write(" " + second, slots)
    draft.write("\n\n" + pick(phrases.ENDINGS), slots)
    return draft.record(record_id, applicant.owner)
