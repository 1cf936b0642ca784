"""Small corpora and models for tests of updates: sentences from a few words, and a phrase that an update brings."""

from reproductions.updates.regimes import UpdateData, UpdateExperiment, UpdateSettings
from reproductions.updates.vocabulary import word_tokenizer
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, ListedSpace, Secret

SUBJECTS = ("cats", "dogs", "birds", "foxes", "wolves")
VERBS = ("chased", "watched", "followed", "feared")
MANNERS = ("quickly", "slowly", "rarely")
OBJECTS = ("mice", "shadows", "leaves", "rivers")
RARE = ("zeppelins", "auctioned", "quietly", "velvet", "orchids")
PHRASE = " ".join(RARE)


def sentences(count: int, seed: int, name: str) -> Corpus:
    """Sentences of four words."""
    draws = Randomness.seeded(seed).integers(1000, (count, 4)).tolist()
    parts = (SUBJECTS, VERBS, MANNERS, OBJECTS)
    return Corpus(
        Record(f"{name}{place}", " ".join(part[draw % len(part)] for part, draw in zip(parts, row, strict=True)))
        for place, row in enumerate(draws)
    )


def canary(copies: int, name: str = "planted") -> Canary:
    """The phrase of rare words."""
    return Canary(name, "{}", Secret(PHRASE, "phrase"), ListedSpace((PHRASE, "another")), copies)


def experiment(seed: int = 1, **settings) -> UpdateExperiment:
    """Tiny LSTMs on eighty sentences."""
    original, extra, later = sentences(80, 0, "d"), sentences(80, 1, "e"), sentences(80, 2, "f")
    tokenizer = word_tokenizer([*original.texts, *[PHRASE] * 2], size=64)
    chosen = {"hidden_size": 24, "epochs": 8.0, "batch": 8, "learning_rate": 2e-2, "seed": seed, **settings}
    return UpdateExperiment(UpdateData(original, extra, later, tokenizer), UpdateSettings(**chosen))
