"""Canary phrases by how frequent their words are, made from any corpus by a template of word classes.

    all low       every word from the least frequent fifth of the corpus's words
    low to high   one word from each fifth, the rarest first
    mixed         one word from each fifth, the rarest first, then in no order
    high to low   one word from each fifth, the most frequent first

Fifths are of *distinct* words by their count. A template is a sequence of slots; a slot takes words with certain
endings, so that phrases have a valid structure (subject, verb, adverb, compound object) in whatever the corpus
speaks about. No phrase stands in the corpus. An update that holds one exposes rare words before frequent ones:
Zanella-Béguelin et al. 2020, section 3.2.

The default endings are English; give other slots for other languages. Words count as they stand between white
space; only those of letters in lower case are used.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from reticent.core import Canary, ConfigError, Randomness, Secret

PARTS: Final = 5
_TRIES: Final = 1000


class FrequencyClass(StrEnum):
    """How frequent the words of a phrase are, from its first to its last."""

    ALL_LOW = "all low"
    LOW_TO_HIGH = "low to high"
    MIXED = "mixed"
    HIGH_TO_LOW = "high to low"

    def parts(self, length: int) -> tuple[int, ...]:
        """Which fifth each word comes from; 0 is the least frequent one."""
        rising = [place * PARTS // length for place in range(length)]
        if self is FrequencyClass.ALL_LOW:
            return (0,) * length
        if self is FrequencyClass.LOW_TO_HIGH:
            return tuple(rising)
        if self is FrequencyClass.HIGH_TO_LOW:
            return tuple(reversed(rising))
        half = -(-length // 2)  # rarest first, then a word of the upper and one of the lower half in turn
        return tuple(rising[place // 2 if place % 2 == 0 else half + place // 2] for place in range(length))


@dataclass(frozen=True, slots=True)
class Slot:
    """A place of a template: words with one of these endings, longer than the longest by two letters at least."""

    name: str
    endings: tuple[str, ...]

    def takes(self, word: str) -> bool:
        """Whether the word may stand here."""
        return word.endswith(self.endings) and len(word) > max(map(len, self.endings)) + 1


TEMPLATE: Final = (
    Slot("subject", ("ers", "ors", "ions", "ments", "ists", "ies", "ts", "es")),
    Slot("verb", ("ed",)),
    Slot("adverb", ("ly",)),
    Slot("modifier", ("al", "ic", "ous", "ive", "ful", "ary", "ern", "ish")),
    Slot("object", ("tion", "sion", "ment", "ity", "ness", "ance", "ence", "er", "or", "ry")),
)


class PhraseSpace:
    """All phrases with one word of each list: what a canary phrase is drawn from."""

    def __init__(self, choices: Sequence[Sequence[str]]) -> None:
        self._choices = tuple(tuple(words) for words in choices)

    def __repr__(self) -> str:
        return f"PhraseSpace({self.size} phrases)"

    @property
    def size(self) -> int:
        """Number of phrases."""
        return math.prod(len(words) for words in self._choices)

    def __iter__(self) -> Iterator[str]:
        for index in range(self.size):
            words = []
            for choices in reversed(self._choices):
                index, place = divmod(index, len(choices))
                words.append(choices[place])
            yield " ".join(reversed(words))

    def __contains__(self, candidate: object) -> bool:
        words = candidate.split(" ") if isinstance(candidate, str) else []
        return len(words) == len(self._choices) and all(
            word in choices for word, choices in zip(words, self._choices, strict=True)
        )

    def sample(self, randomness: Randomness) -> str:
        """One phrase, uniformly."""
        return " ".join(words[int(randomness.integers(len(words), 1)[0])] for words in self._choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseSettings:
    """How many phrases of each class, planted how often, by which template.

    `known` leaves out words that a model has no token for.
    """

    count: int = 1
    copies: int = 10
    template: tuple[Slot, ...] = TEMPLATE
    known: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if min(self.count, self.copies, len(self.template)) < 1:
            raise ValueError("phrases, copies and slots are positive")


def make_phrase_canaries(
    texts: Iterable[str], settings: PhraseSettings, *, randomness: Randomness
) -> dict[FrequencyClass, tuple[Canary, ...]]:
    """Canaries of each class from the words of the texts; no word serves in two of them where others are left."""
    listed = list(texts)
    counts = Counter(word for text in listed for word in text.split())
    if settings.known is not None:
        counts = Counter({word: count for word, count in counts.items() if word in settings.known})
    fifths = frequency_parts(counts)
    spaced = [f" {' '.join(text.split())} " for text in listed]
    used: set[str] = set()
    canaries = {}
    for kind in FrequencyClass:
        made = []
        for number in range(settings.count):
            space = _space(kind, settings.template, fifths, used)
            phrase = _fresh_phrase(space, spaced, randomness.child(f"{kind.value} {number}"))
            used.update(phrase.split(" "))
            made.append(Canary(f"{kind.value} {number}", "{}", Secret(phrase, "phrase"), space, settings.copies))
        canaries[kind] = tuple(made)
    return canaries


def frequency_parts(counts: Counter[str]) -> list[list[str]]:
    """The plain words in five parts of equal number, the least frequent first; equal counts by the alphabet."""
    words = sorted((word for word in counts if word.isalpha() and word.islower()), key=lambda w: (counts[w], w))
    edges = [len(words) * part // PARTS for part in range(PARTS + 1)]
    return [words[start:end] for start, end in pairwise(edges)]


def _space(
    kind: FrequencyClass, template: Sequence[Slot], fifths: Sequence[Sequence[str]], used: set[str]
) -> PhraseSpace:
    """The words that may stand in each slot."""
    choices = []
    for slot, part in zip(template, kind.parts(len(template)), strict=True):
        words = [word for word in fifths[part] if slot.takes(word)]
        if not words:
            raise ConfigError(
                f"the corpus has no word for the slot '{slot.name}' of a canary '{kind.value}'",
                found=f"{sum(map(len, fifths))} words, none with its endings in fifth {part + 1}",
                hint="take a larger corpus, or a template with other slots",
            )
        choices.append([word for word in words if word not in used] or words)
    return PhraseSpace(choices)


def _fresh_phrase(space: PhraseSpace, spaced: Sequence[str], randomness: Randomness) -> str:
    """A phrase that stands in no text."""
    for _ in range(_TRIES):
        phrase = space.sample(randomness)
        words = phrase.split(" ")
        if len(set(words)) == len(words) and not any(f" {phrase} " in text for text in spaced):
            return phrase
    raise ConfigError("every phrase of the template stands in the corpus", hint="take a longer template")
