"""Subjects of audits on n-gram models: one that learnt its text by heart, one that never saw it."""

import string

import numpy as np

from reticent.auditing.subject import ModelPlace, Subject, make_subject
from reticent.core.corpus import Corpus, Record
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace
from reticent.data.canaries import CanaryOwner, make_canaries, plant_canaries
from tests.models.ngram import NGramModel

SYMBOLS = string.ascii_lowercase + string.digits + " :"
WORDS = ("late", "order", "lamp", "green", "refund", "please", "monday", "paid", "box", "lost", "again", "thanks")


def sentences(seed: int, count: int, *, words: int = 12) -> list[str]:
    """Distinct sentences of random words."""
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, words)) + f" {seed}{place:03d}" for place in range(count)]


def records(name: str, texts: list[str], *, per_owner: int = 1) -> Corpus:
    return Corpus(
        Record(f"{name}-{place}", text, owner=f"{name} owner {place // per_owner}")
        for place, text in enumerate(texts)
    )


def fit(texts: list[str], *, order: int = 30) -> NGramModel:
    return NGramModel.fit(texts, order=order, level="character", smoothing=1e-3, vocabulary=list(SYMBOLS))


CANARIES = make_canaries("my id is {}", CodeSpace(4), count=3, copies=6, randomness=Randomness.seeded(9))


def subject(
    *,
    learnt: bool = True,
    count: int = 60,
    guarantee: Guarantee | None = None,
    owner: CanaryOwner = CanaryOwner.COPY,
    per_owner: int = 1,
) -> Subject:
    """A subject whose model learnt the training text, canaries included, or another text of the same kind."""
    # One number for both, so that no word tells members from non-members.
    texts = sentences(1, 2 * count)
    order = np.random.default_rng(2).permutation(2 * count)
    inside, outside = [texts[i] for i in order[:count]], [texts[i] for i in order[count:]]
    training = plant_canaries(
        records("train", inside, per_owner=per_owner), CANARIES, randomness=Randomness.seeded(4), owner=owner
    )
    return make_subject(
        fit(training.texts if learnt else sentences(3, count)),
        fit(sentences(5, 40), order=3),
        training=training,
        held_out=records("held", outside, per_owner=per_owner),
        canaries=CANARIES,
        place=ModelPlace("", guarantee),
    )


def promise(epsilon: float, *, unit: Unit = Unit.RECORD) -> Guarantee:
    """A guarantee that somebody wrote beside the weights."""
    return Guarantee(
        mechanism="a claim",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=unit,
        neighbours=Neighbours.ADD_REMOVE,
        epsilon=epsilon,
        delta=1e-5,
        covers="one unit",
    )


class TextOnly:
    """A model of which only text is seen, as through a server."""

    name = "text only"
    fingerprint = "cannot tell"
    access = Access.TEXT

    def __init__(self, model: NGramModel) -> None:
        self._model = model

    def complete(self, prompts, sampling, *, count, randomness):
        return self._model.complete(prompts, sampling, count=count, randomness=randomness)
