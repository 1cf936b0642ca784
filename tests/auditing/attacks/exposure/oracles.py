"""Random n-gram models, a tokenizer that merges, a model that counts what it reads, and ranks by brute force."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.core.model import Tokens
from reticent.core.secret import Canary, CodeSpace, ListedSpace, Secret, SecretSpace
from tests.models.ngram import END, NGramModel

SYMBOLS = "0123456789 i:."


class MergingModel(NGramModel):
    """A character model whose tokenizer makes one token of "12", as byte-pair encodings do."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        ids = {symbol: index for index, symbol in enumerate((*SYMBOLS, "12"))}
        return [[ids[piece] for piece in re.findall("12|.", text)] for text in texts]


class CountingModel(NGramModel):
    """Counts the tokens a model with a cache for one prefix would read."""

    read = 0

    def next_token_log_probs(self, contexts: Sequence[Tokens]) -> NDArray[np.float64]:
        self.read += sum(1 + len(context) for context in contexts)
        return super().next_token_log_probs(contexts)

    def continuation_log_probs(self, prefix: Tokens, continuations: Sequence[Tokens]) -> list[NDArray[np.float64]]:
        self.read += 1 + len(prefix) + sum(max(0, len(row) - 1) for row in continuations)
        return super().continuation_log_probs(prefix, continuations)


def random_model(seed: int, kind: type[NGramModel] = NGramModel, *, sharpness: float = 0.5) -> NGramModel:
    """A bigram model with random rows over digits and a few marks; small `sharpness` makes rows peaked."""
    generator = np.random.default_rng(seed)
    symbols = [*SYMBOLS, "12"] if kind is MergingModel else list(SYMBOLS)
    contexts: Iterable[tuple[str, ...]] = [(), *((symbol,) for symbol in symbols)]
    table = {}
    for context in contexts:
        pmf = 0.999 * generator.dirichlet(np.full(len(symbols) + 1, sharpness)) + 0.001 / (len(symbols) + 1)
        table[context] = dict(zip((*symbols, END), (pmf / pmf.sum()).tolist(), strict=True))
    return kind.from_table(symbols, table, order=2)


def make_canary(secret: str, space: SecretSpace, template: str = "i: {}", name: str = "canary") -> Canary:
    """A canary with a chosen secret."""
    return Canary(name, template, Secret(secret, "code"), space, 1)


def brute_force_log_probs(model: NGramModel, canary: Canary) -> dict[str, float]:
    """log p of the whole text of every candidate."""
    candidates = list(canary.space)
    rows = model.token_log_probs(model.encode([canary.text(candidate) for candidate in candidates]))
    return {candidate: float(row.sum()) for candidate, row in zip(candidates, rows, strict=True)}


def brute_force_rank(model: NGramModel, canary: Canary, tolerance: float = 1e-9) -> int:
    """Rank with ties before the canary, from all candidates."""
    scores = brute_force_log_probs(model, canary)
    own = scores[canary.secret.reveal()]
    return sum(score >= own - tolerance for score in scores.values())


CODES = CodeSpace(3)
NAMES = ListedSpace(("1", "12", "123", "2", "31", "312", "4.", "121"))
