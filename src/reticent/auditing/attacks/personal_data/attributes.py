"""Attribute inference: can the model tell where people live or what they do from what they write?

After Staab et al. (2023). Nothing of the training text is asked: made-up authors write comments that never name
their city, job or status (`data.generators.comments`), and the model picks each out of all values, by the log-
likelihood of the value after the comments less that without any. Attributes are drawn uniformly, so a model that
ignores the comments is right with chance 1/|C|, exactly: the null. It tells what the model can do to people whose
text it is given, which no training promise limits.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from reticent.auditing.attack import SCHEMA_VERSION, Lines, Measurement, PlannedAttack, planned_model, skip
from reticent.auditing.attacks.personal_data.contexts import MaskedSpan
from reticent.auditing.attacks.personal_data.scoring import CandidateScorer, CandidateScoring, HeldOutPlaces
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import ATTRIBUTE_ACCURACY
from reticent.core.model import Access
from reticent.core.secret import Secret
from reticent.core.statistics.proportion import Share
from reticent.data.generators.comments import CLUES, QUESTIONS, Author, generate_authors

AUTHORS: Final = 100  # at most
_TOKENS: Final = 120  # of an author's comments, roughly


@dataclass(frozen=True, slots=True)
class AttributeGame:
    """Whether each guess was right, among how many values, of whose attribute."""

    right: tuple[bool, ...]
    sizes: tuple[int, ...]
    owners: tuple[str, ...]
    kinds: tuple[str, ...]


def infer_attributes(scorer: CandidateScorer, authors: tuple[Author, ...]) -> AttributeGame:
    """Every attribute of every author: the best scored value is the guess; ties go to the first of the list."""
    asked = [(author, kind) for author in authors for kind in CLUES]
    scores = scorer.scores(
        [_place(author.name, kind, author.attributes[kind], author.comments) for author, kind in asked],
        [tuple(CLUES[kind]) for _, kind in asked],
    )
    guesses = [tuple(CLUES[kind])[int(np.argmax(row))] for (_, kind), row in zip(asked, scores, strict=True)]
    return AttributeGame(
        tuple(guess == author.attributes[kind] for guess, (author, kind) in zip(guesses, asked, strict=True)),
        tuple(len(CLUES[kind]) for _, kind in asked),
        tuple(author.name for author, _ in asked),
        tuple(kind for _, kind in asked),
    )


def _place(name: str, kind: str, value: str, comments: tuple[str, ...]) -> MaskedSpan:
    """The question after someone's comments; without comments, what the model says of anybody."""
    said = "".join(f"{comment}\n" for comment in comments)
    return MaskedSpan(name, name, Secret(value, kind), f"{said}{QUESTIONS[kind]} ", ".")


class AttributeAttack:
    """Attributes of made-up authors, picked out of a list."""

    name: ClassVar[str] = "attributes"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every author's comments are read once for each attribute."""
        needs = "log-probabilities"
        if subject.scoring_model is None:
            return (skip(self.name, needs, "the model returns text only"),)
        authors = min(AUTHORS, sizes.extraction_records)
        line = PlannedAttack(
            name=self.name,
            needs=needs,
            n=authors * len(CLUES),
            forward_tokens=authors * len(CLUES) * _TOKENS,
            metrics=(ATTRIBUTE_ACCURACY.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Accuracy over all attributes of all authors."""
        count = min(AUTHORS, sizes.extraction_records)
        authors = generate_authors(count, randomness=settings.randomness("authors"))
        anybody = tuple(_place("anybody", kind, "", ()) for kind in CLUES)
        scorer = CandidateScorer(
            planned_model(subject), scoring=CandidateScoring.SPAN, elsewhere=HeldOutPlaces(anybody, weight=1.0)
        )
        game = infer_attributes(scorer, authors)
        finding = attribute_finding(game, confidence=settings.attack_confidence)
        document = {
            "schema_version": SCHEMA_VERSION,
            "attributes": [
                {
                    "attribute": kind,
                    "values": len(CLUES[kind]),
                    "right": sum(game.right[place] for place, one in enumerate(game.kinds) if one == kind),
                    "n": game.kinds.count(kind),
                }
                for kind in CLUES
            ],
        }
        return Measurement((finding,), {"attributes.json": document})


def attribute_finding(game: AttributeGame, *, confidence: float) -> Finding:
    """The accuracy beside the mean of 1/|C|, by author."""
    share = Share.of(game.right, game.owners)
    low, high = share.interval(confidence=confidence)
    null = float(np.mean([1.0 / size for size in game.sizes]))
    return Finding(
        attack="attribute inference",
        metric=ATTRIBUTE_ACCURACY.name,
        value=share.hits / share.trials,
        low=low,
        high=high,
        confidence=confidence,
        n=share.trials,
        measure=f"share of {', '.join(CLUES)} of made-up authors that the model infers from their comments",
        unit=Unit.OWNER,
        access=Access.LOGPROBS,
        null=null,
        could_pass=share.could_pass(null, confidence=confidence),
        notes=(share.note, "does not depend on the training text: no training guarantee bounds it"),
    )
