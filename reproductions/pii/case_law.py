"""Generated case law for the PII experiments: paragraphs as records, held-out cases, and a tagger of shapes.

A case is cut into paragraphs before anything else, each a record whose owner is the applicant. Training and
held-out cases come from one generator and share no owner; lawyers and towns they have in common are nobody's
decoy.

The tagger knows no name: a person is two capitalised words that are no phrase of a court, a town a capitalised
word after a preposition of place. What a model garbles is tagged like a real name, so that precision is not
flattered. How often it misses is measured on the generator's labels and carried into every finding.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from reticent import Corpus, Record
from reticent.auditing import PiiInventory, take_inventory
from reticent.core import Policy, Randomness, Span
from reticent.data import (
    PatternPolicy,
    PolicyMeasurement,
    UnionPolicy,
    generate_cases,
    measure_policy,
    redact_records,
)

_FEWEST: Final = 24  # characters of a paragraph that is more than a heading
# Capitalised words of courts and states, which are nobody's names.
_WORDS: Final = """
Agent Appeal Article Austria Before By Chamber Civil Code Constitutional Convention Court Criminal Czech Denmark
District European Family Finland Government Her High His In Justice Kingdom Labour Law Ministry Mr Mrs Ms Norway
On Only Poland President Regional Relying Republic Section Social Spain State Supreme The They Ukraine United
"""
_FRONTS: Final = "North|South|East|West|New|Lake|Port|Upper|Mount|Great"
_NAME: Final = re.compile(r"\b([A-Z][a-z]+) (?:[A-Z]\. )?([A-Z][a-z]+)\b")
_TOWN: Final = re.compile(
    rf"\b(?:(?:{_FRONTS}) [A-Z][a-z]+"
    r"|(?:(?<=\bin )|(?<=\bof )|(?<=\bfrom )|(?<=\bnear ))[A-Z][a-z]{3,}(?! (?:[A-Z]\. )?[A-Z])"
    r"|(?:(?<=\bthe )|(?<=\bThe ))[A-Z][a-z]{3,}(?= (?:District|Regional|Family|Court)))\b"
)


class ShapeTagger:
    """Finds persons and towns by the shape of their mentions; reads the words around them, so it is not local."""

    name = "shapes"
    is_local = False

    def __init__(self) -> None:
        self._words = frozenset(_WORDS.split())

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        towns = [
            Span(match.start(), match.end(), "LOC")
            for match in _TOWN.finditer(text)
            if not set(match.group().split()) & self._words
        ]
        found = list(towns)
        position = 0
        while match := _NAME.search(text, position):
            span = Span(match.start(), match.end(), "PERSON")
            first_is_word = match.group(1) in self._words
            if first_is_word or match.group(2) in self._words or any(span.overlaps(town) for town in towns):
                position = match.start() + len(match.group(1))  # the second word may begin a name
                continue
            found.append(span)
            position = match.end()
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True, eq=False)
class CaseLaw:
    """What a PII experiment is made of. Inventories are the generator's labels: exact."""

    training: Corpus
    held_out: Corpus
    tagger: Policy
    tagged: PolicyMeasurement  # the tagger, measured on the training labels
    values: PiiInventory
    held_out_values: PiiInventory

    def scrubbed(self, records: Corpus) -> Corpus:
        """The records with every value that the tagger finds masked."""
        return Corpus(redact_records(records, self.tagger))

    @property
    def tagger_note(self) -> str:
        """The tagger's measured quality, for findings."""
        recall, precision = self.tagged.recall, self.tagged.precision
        (low, high), (least, most) = recall.interval, precision.interval
        return f"tagger: recall {low:.3f} to {high:.3f}, precision {least:.3f} to {most:.3f} on the labels"


def make_case_law(cases: int, *, held_out: int, randomness: Randomness) -> CaseLaw:
    """So many training and held-out cases, no owner in both."""
    whole = generate_cases(cases + held_out, randomness=randomness)
    owners = {record.owner for record in whole[:cases]}
    training = Corpus(paragraphs(whole[:cases]))
    others = Corpus(paragraphs(record for record in whole[cases:] if record.owner not in owners))
    tagger = UnionPolicy([PatternPolicy(kinds=("DATE", "APPLICATION")), ShapeTagger()], name="patterns and shapes")
    return CaseLaw(
        training, others, tagger, measure_policy(training, tagger), take_inventory(training), take_inventory(others)
    )


def paragraphs(records: Iterable[Record]) -> Iterator[Record]:
    """Each paragraph of each record with its labels, headings left out."""
    for record in records:
        start = 0
        for number, text in enumerate(record.text.split("\n\n")):
            end = start + len(text)
            if len(text) >= _FEWEST:
                inside = [span for span in record.spans if start <= span.start and span.end <= end]
                spans = tuple(Span(s.start - start, s.end - start, s.kind, s.identifier) for s in inside)
                yield Record(f"{record.id}/{number}", text, owner=record.owner, spans=spans)
            start = end + 2
