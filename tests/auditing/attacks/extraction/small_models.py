"""Small models and corpora for the extraction tests: a text-only view, a scripted model, random records."""

from collections.abc import Sequence

import numpy as np

from reticent.core.corpus import Record
from reticent.core.model import Access, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from tests.models.ngram import NGramModel


class TextOnly:
    """A model of which only text is seen."""

    access = Access.TEXT

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.name = model.name
        self.fingerprint = model.fingerprint

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        return self._model.complete(prompts, sampling, count=count, randomness=randomness)


class Scripted:
    """Gives the listed answers, one a prompt, over and over."""

    access = Access.TEXT
    name = "scripted"
    fingerprint = "scripted"

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)

    def complete(
        self, prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        return [[self._answers[i % len(self._answers)]] * count for i in range(len(prompts))]


def random_records(
    count: int, *, seed: int, length: int = 40, alphabet: str = "abcdefgh", name: str = "r"
) -> list[Record]:
    """Records of uniformly random symbols: nobody can guess one."""
    drawn = np.random.default_rng(seed).integers(len(alphabet), size=(count, length))
    return [Record(f"{name}{i}", "".join(alphabet[symbol] for symbol in row)) for i, row in enumerate(drawn)]


def memorising_model(records: Sequence[Record], *, order: int = 12, smoothing: float = 1e-6) -> NGramModel:
    """A model that knows the records by heart: their n-grams are distinct, so each goes on in one way."""
    return NGramModel.fit(
        [record.text for record in records], order=order, smoothing=smoothing, vocabulary=list("abcdefgh .xy")
    )


def templated_records(count: int, *, seed: int, share: float = 0.3, name: str = "r") -> list[Record]:
    """Twenty random symbols; with chance `share` the last twelve are the same for all, and announce themselves."""
    drawn = np.random.default_rng(seed)
    symbols = drawn.integers(8, size=(count, 20))
    is_common = drawn.random(count) < share
    texts = ["".join("abcdefgh"[symbol] for symbol in row) for row in symbols]
    return [
        Record(f"{name}{i}", text[:8] + "xy" * 6 if common else text)
        for i, (text, common) in enumerate(zip(texts, is_common.tolist(), strict=True))
    ]
