"""What scores phrases reach though no text was added: the null that an update is read against.

- **Other seed**: a model of the *same* data as the snapshot before, trained from another seed. The same search
  between these two finds how far scores drift by chance alone. The better null, where one can be trained.
- **Untouched text**: phrases of text that the update did not contain, scored between the two snapshots themselves.
  It shows the drift of ordinary phrases. It is a sample, whereas a search picks the best of |T|^n: a found phrase
  above it was moved more than any sampled phrase, no more.

A phrase is called above the null where its score passes the highest score of every null that was given.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reticent.auditing.differential import Snapshots
from reticent.auditing.differential_bounded import find_phrases
from reticent.auditing.differential_search import BeamSettings
from reticent.core.corpus import Record
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Null:
    """The highest score of `phrases` phrases that owe nothing to the update."""

    source: str
    highest: float
    phrases: int


def seed_null(before: LanguageModel, other: LanguageModel, *, settings: BeamSettings) -> Null:
    """The highest score that the same search finds between two models of the same data."""
    beam = find_phrases(Snapshots(before, other), settings)
    return Null("two models of the same data", float(beam.scores[0]), len(beam.scores))


def text_null(
    pair: Snapshots, records: Iterable[Record], *, settings: BeamSettings, randomness: Randomness, most: int = 2000
) -> Null | None:
    """The highest score of phrases of untouched text, at most `most` drawn; None where no text is long enough."""
    drawn = sample_phrases(pair.before, records, length=settings.length, most=most, randomness=randomness)
    if not drawn:
        return None
    scores = [one.by(settings.score) for one in pair.score(drawn, prefix=settings.prefix)]
    return Null("phrases of untouched text", max(scores), len(scores))


def sample_phrases(
    model: LanguageModel, records: Iterable[Record], *, length: int, most: int, randomness: Randomness
) -> list[tuple[int, ...]]:
    """Distinct phrases of `length` tokens from the records, at most `most`, every one equally likely."""
    phrases: dict[tuple[int, ...], None] = {}
    for record in records:
        (tokens,) = model.encode([record.text])
        for start in range(len(tokens) - length + 1):
            phrases[tuple(tokens[start : start + length])] = None
    listed = list(phrases)
    return [listed[int(place)] for place in randomness.permutation(len(listed))[:most]]


def highest(nulls: Iterable[Null | None]) -> float:
    """The score that a phrase must pass: the highest of all nulls, and of a phrase that did not change."""
    return max([0.0, *(null.highest for null in nulls if null is not None)])
