"""Slow, obvious versions of differential scores, searches and ranks: every phrase, one at a time."""

import itertools
import math

from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from tests.models.ngram import NGramModel

OLD = ["abcab", "bcabd", "aabbc", "dacab", "cabad", "bbdca"]
NEW = ["dddab", "dddab", "dddab"]


def ngram(texts, *, order=3, smoothing=0.2) -> NGramModel:
    """A trigram model over the letters a to d."""
    return NGramModel.fit(texts, order=order, smoothing=smoothing, vocabulary="abcd")


def updated() -> Snapshots:
    """A model of some texts, and of these with three copies of one more."""
    return Snapshots(ngram(OLD), ngram(OLD + NEW))


def plain_score(pair, phrase, score=UpdateScore.ABSOLUTE, prefix=()) -> float:
    """Definition 1, token by token, each phrase read by itself."""
    whole = [[*prefix, *phrase]]
    before, after = (model.token_log_probs(whole)[0][len(prefix) :] for model in (pair.before, pair.after))
    total = 0.0
    for old, new in zip(map(math.exp, before), map(math.exp, after), strict=True):
        total += new - old if score is UpdateScore.ABSOLUTE else (new - old) / old
    return total


def all_scores(pair, length, score=UpdateScore.ABSOLUTE, prefix=()) -> dict[tuple[int, ...], float]:
    """The score of every phrase of a length, special tokens left out."""
    tokens = [t for t in range(pair.before.vocabulary_size) if t not in pair.special_tokens]
    return {phrase: plain_score(pair, phrase, score, prefix) for phrase in itertools.product(tokens, repeat=length)}
