"""Hand-made models for the PII games: one emits a list, one knows its text by heart, one knows nothing."""

from collections.abc import Callable, Sequence

import numpy as np

from reticent.core.corpus import Corpus, Record, Span
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.data.policies.combined import Dictionary
from tests.models.ngram import NGramModel

FIRST = ("Ada", "Ben", "Cleo", "Dora", "Egon", "Fay", "Gus", "Hedy", "Ivo", "Jana")
LAST = ("Abel", "Bock", "Cruz", "Dorn", "Egge", "Falk", "Gros", "Hahn", "Ibel", "Jung")
SYMBOLS = "".join(chr(code) for code in range(32, 127))


def names(start: int, count: int) -> list[str]:
    """Distinct names of the same length, the first ten of one initial each."""
    every = [f"{FIRST[i]} {LAST[j]}" for i in range(10) for j in range(10)]
    return [name for name in every if len(name) in (8, 9)][start : start + count]


class Emitting:
    """Emits the listed texts in order, over and over; whatever is asked."""

    access = Access.TEXT
    name = fingerprint = "emitting"

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)
        self._next = 0

    def complete(
        self,
        prompts: Sequence[str],
        sampling: Sampling,
        *,
        count: int,
        randomness: Randomness,
    ) -> list[list[str]]:
        answers = []
        for _ in prompts:
            answers.append([self._texts[(self._next + place) % len(self._texts)] for place in range(count)])
            self._next += count
        return answers


class Telling:
    """Answers with what `answer` gives for a prompt, whatever is drawn."""

    access = Access.TEXT
    name = fingerprint = "telling"

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer

    def complete(
        self,
        prompts: Sequence[str],
        sampling: Sampling,
        *,
        count: int,
        randomness: Randomness,
    ) -> list[list[str]]:
        return [[self._answer(prompt)] * count for prompt in prompts]


def people(persons: Sequence[str], *, name: str = "r") -> Corpus:
    """One record a person: where they were seen is told apart by a number before and a town number after."""
    records = []
    for place, person in enumerate(persons):
        before, after = f"case {place:03d} was brought by ", f" of town {(7 * place) % 100:02d}."
        span = Span(len(before), len(before) + len(person), "PERSON")
        records.append(Record(f"{name}{place}", before + person + after, spans=(span,)))
    return Corpus(records)


def tagger(persons: Sequence[str]) -> Dictionary:
    return Dictionary(dict.fromkeys(persons, "PERSON"), name="names")


def by_heart(texts: Sequence[str], *, order: int = 24) -> NGramModel:
    """Goes on as the text does, given what is unique about its beginning."""
    return NGramModel.fit(texts, order=order, smoothing=1e-6, vocabulary=list(SYMBOLS))


def knows_nothing(seed: int = 0) -> NGramModel:
    """Of the same alphabet, fitted on random symbols."""
    drawn = np.random.default_rng(seed).choice(list(SYMBOLS), size=(4, 200))
    return NGramModel.fit(["".join(row) for row in drawn], order=1, smoothing=1.0, vocabulary=list(SYMBOLS))
