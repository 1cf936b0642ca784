"""The demo's text: a few messages of each of thousands of customers, with planted numbers, split by customer.

Every customer visits the shop once, and a few messages of that visit are kept: what a promise for owners costs
depends on how many people there are, not on how much each of them says. A record is one message, since redacted
training trains a whole record with noise wherever one word of it is sensitive. Every planted number belongs to one
more customer, who repeats it in several messages, so that a promise for owners speaks of exactly what is measured.
Customers are trained on or held out as wholes.

Many messages are courtesies that every customer hears. A model that has learnt its trade says them, whomever it
learnt them from, so attacks look at messages of one customer alone, on both sides by the same rule: leaving them in
on one side would pass off what everybody says as memory.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.document import folder_at
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace
from reticent.data.canaries import CanaryOwner, make_canaries, plant_canaries, write_key
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.runs.demo.scale import HOLDOUT, KEY, TARGETS, TRAIN, UTILITY, Scale

TEMPLATE: Final = "USR: Hello, my customer ID is {}."
_CHARACTERS_A_TOKEN: Final = 2.5  # of the embedded tokenizer, about; only the size of the utility text hangs on it


@dataclass(frozen=True, slots=True)
class Corpora:
    """What the story is told with; all of it also stands in files."""

    train: Corpus
    targets: Corpus  # training messages of one customer alone, and the planted ones
    holdout: Corpus  # held-out messages of one customer alone
    utility: Corpus  # any held-out messages, on which usefulness is measured
    canaries: tuple[Canary, ...]


def write_corpora(folder: Path, *, seed: int, scale: Scale) -> Corpora:
    """Generate, plant and write: train, holdout and utility text, and the key."""
    randomness = Randomness.seeded(seed)
    visits = generate_dialogues(
        scale.customers + scale.held_out, randomness=randomness.child("dialogues"), returning=False
    )
    canaries = make_canaries(
        TEMPLATE, CodeSpace(6), count=scale.canaries, copies=scale.copies, randomness=randomness.child("canaries")
    )
    kept = [_some(visit, scale.messages, randomness.child(visit.id)) for visit in visits]
    told = list(itertools.chain.from_iterable(kept[: scale.customers]))
    train = plant_canaries(told, canaries, randomness=randomness.child("places"), owner=CanaryOwner.CANARY)
    others = Corpus(itertools.chain.from_iterable(kept[scale.customers :]))
    own = texts_of_one_owner([*train, *others])
    corpora = Corpora(
        train,
        Corpus(record for record in train if record.text in own),
        Corpus(record for record in others if record.text in own),
        _utility(others, scale.answers, randomness.child("utility")),
        canaries,
    )
    named = {TRAIN: train, TARGETS: corpora.targets, HOLDOUT: corpora.holdout, UTILITY: corpora.utility}
    with folder_at(folder):
        for name, corpus in named.items():
            write_corpus(corpus, folder / name)
        write_key(canaries, folder / KEY)
    return corpora


def _some(visit: Record, count: int, randomness: Randomness) -> list[Record]:
    """So many messages of a visit, in their order."""
    said = list(messages([visit]))
    return [said[place] for place in sorted(randomness.permutation(len(said)).tolist()[:count])]


def messages(dialogues: Iterable[Record]) -> Iterator[Record]:
    """Every line of every dialogue as a record of the same owner, with the spans that lie in it."""
    for dialogue in dialogues:
        start = 0
        for number, line in enumerate(dialogue.text.split("\n")):
            end = start + len(line)
            spans = tuple(
                Span(span.start - start, span.end - start, span.kind, span.identifier)
                for span in dialogue.spans
                if start <= span.start and span.end <= end
            )
            if line:
                yield Record(f"{dialogue.id}/{number}", line, owner=dialogue.owner, spans=spans)
            start = end + 1


def texts_of_one_owner(records: Iterable[Record]) -> set[str]:
    """Texts that stand in the records of one owner alone."""
    owners: dict[str, set[str]] = {}
    for record in records:
        owners.setdefault(record.text, set()).add(record.owner)
    return {text for text, holders in owners.items() if len(holders) == 1}


def _utility(holdout: Corpus, answers: int, randomness: Randomness) -> Corpus:
    """Messages with about as many tokens as there are answers, drawn from the held-out ones."""
    chosen, characters = [], 0
    for place in randomness.permutation(len(holdout)).tolist():
        if characters >= answers * _CHARACTERS_A_TOKEN:
            break
        chosen.append(holdout[place])
        characters += len(holdout[place].text)
    return Corpus(chosen)
