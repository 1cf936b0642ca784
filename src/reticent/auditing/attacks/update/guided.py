"""Text of an update, written out by the snapshot after it: sampling that the snapshot before guides.

    guided(t | t_<i)  ∝  p'(t | t_<i) · (p'(t | t_<i) / p(t | t_<i))^w      for tokens with p' ≥ α · max p'

The first factor keeps the text fluent, the second leads to what the update made likelier, and the limit α leaves
out tokens that it is not likely to say. The windows of n tokens with the highest differential scores are the
phrases that are reported. They stand *inside* texts, where a search over the vocabulary looks at their start alone.

An attacker who holds two snapshots and no text has three kinds of context: the start of a text, prefixes that
are known or common, and what the snapshot before itself writes. So a part of the texts begins with some tokens
sampled from the snapshot before, and each given prefix has its own texts.

With the roles swapped this is the attack on deletion: the old model, guided by the one that was made to forget.

It reads texts · tokens by either snapshot, whatever the vocabulary is; memory is a block of `entries` numbers and
the caches of its rows. Nothing is proved of what was not sampled.

Reference: Li et al. 2023 (contrastive decoding: the limit α); Wu et al. 2025 (guided extraction after unlearning).
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.auditing.attacks.update.branches import branches_of
from reticent.auditing.attacks.update.score import LEAST_PROBABILITY, PhraseScore, Snapshots, UpdateScore
from reticent.auditing.attacks.update.windows import distinct_phrases, whole_words, windows_apart
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness

Ints = NDArray[np.int64]

TEXT_TOKENS: Final = 40
_LOG_LEAST: Final = float(np.log(LEAST_PROBABILITY))
_LEADS: Final = (0, 0, 4, 12)  # tokens sampled from the snapshot before, by turns


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedSettings:
    """How texts are written: `texts` in all, shared by the prefixes, of `tokens` tokens each."""

    length: int = 5  # of a phrase
    texts: int = 96
    tokens: int = TEXT_TOKENS
    guidance: float = 1.0  # w
    plausible: float = 0.1  # α
    score: UpdateScore = UpdateScore.ABSOLUTE
    prefixes: tuple[tuple[int, ...], ...] = ((),)
    entries: int = 2**21  # rows × vocabulary of one block
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.length, self.texts, self.tokens, self.entries, len(self.prefixes)) < 1:
            raise ValueError("length, texts, tokens, prefixes and entries of a search are positive")
        if self.guidance < 0.0 or not 0.0 < self.plausible <= 1.0:
            raise ValueError("guidance is not negative, and the limit of plausible tokens lies in (0, 1]")


@dataclass(frozen=True, slots=True)
class GuidedText:
    """A text that was written after a prefix, and its tokens' log-probabilities [T] before and after the update."""

    prefix: tuple[int, ...]
    tokens: tuple[int, ...]
    before: Floats
    after: Floats

    def __repr__(self) -> str:
        return f"GuidedText({len(self.tokens)} tokens)"

    @property
    def whole(self) -> tuple[int, ...]:
        """Prefix and text."""
        return (*self.prefix, *self.tokens)

    def phrases(self, settings: GuidedSettings) -> list[PhraseScore]:
        """Windows that share no token, each with all that stands before it as its context."""
        found = windows_apart(self.tokens, self.before, self.after, length=settings.length, score=settings.score)
        return [replace(one, context=(*self.prefix, *one.context)) for one in found]


@dataclass(frozen=True, slots=True)
class GuidedTexts:
    """All texts of a search."""

    texts: tuple[GuidedText, ...]
    forward_tokens: int  # read by both snapshots together

    def phrases(self, settings: GuidedSettings, *, most: int) -> list[PhraseScore]:
        """The highest windows of all texts, none of which says nearly the same as another."""
        found = (phrase for text in self.texts for phrase in text.phrases(settings))
        return distinct_phrases(found, most=most, score=settings.score)

    def words(self, model: LanguageModel, phrase: PhraseScore) -> tuple[int, ...]:
        """A phrase as whole words of the text in which it stands."""
        start = (*phrase.context, *phrase.tokens)
        text = next(text.whole for text in self.texts if text.whole[: len(start)] == start)
        return whole_words(model, text, (len(phrase.context), len(start)))


def write_texts(pair: Snapshots, settings: GuidedSettings) -> GuidedTexts:
    """Texts after every prefix; equal snapshots and seeds give equal texts."""
    pair.check_room(max(map(len, settings.prefixes)) + settings.tokens)
    randomness = Randomness.seeded(settings.seed).child("guided texts")
    each = -(-settings.texts // len(settings.prefixes))
    rows = max(1, settings.entries // pair.before.vocabulary_size)
    found: list[GuidedText] = []
    forward = 0
    for number, prefix in enumerate(settings.prefixes):
        for first in range(0, each, rows):
            count = min(rows, each - first)
            leads = np.resize(_LEADS, first + count)[first:]
            block = _Block(pair, settings, prefix, randomness.child(f"prefix {number}, text {first}"))
            found += block.write(leads)
            forward += block.forward_tokens
    return GuidedTexts(tuple(found), forward)


class _Block:
    """Texts after one prefix, token by token, both snapshots side by side."""

    def __init__(self, pair: Snapshots, settings: GuidedSettings, prefix: Tokens, randomness: Randomness) -> None:
        self._sides = (branches_of(pair.before, prefix), branches_of(pair.after, prefix))
        self._settings, self._prefix, self._generator = settings, tuple(prefix), randomness.generator()
        self._impossible = np.array(sorted(pair.special_tokens), dtype=np.int64)

    @property
    def forward_tokens(self) -> int:
        """Tokens read by both snapshots."""
        return sum(side.forward_tokens for side in self._sides)

    def write(self, leads: Ints) -> list[GuidedText]:
        """One text for each number of tokens that the snapshot before writes first: [m]."""
        count, length = len(leads), self._settings.tokens
        tokens = np.empty((count, length), dtype=np.int64)
        scores = np.empty((2, count, length))
        parents, rows = np.zeros(count, dtype=np.int64), np.arange(count)
        old, new = (np.broadcast_to(side.first(), (count, side.first().size)) for side in self._sides)  # [m, V]
        for step in range(length):
            if step:
                old, new = (side.read(parents, tokens[:, step - 1], keep=True) for side in self._sides)
                for side in self._sides:
                    side.advance()
                parents = rows
            tokens[:, step] = self._draw(old, new, is_lead=step < leads)
            for place, read in enumerate((old, new)):
                scores[place, :, step] = read[rows, tokens[:, step]]
        return [
            GuidedText(self._prefix, tuple(tokens[row].tolist()), scores[0, row], scores[1, row]) for row in rows
        ]

    def _draw(self, old: Floats, new: Floats, *, is_lead: NDArray[np.bool_]) -> Ints:
        """One token of each row: [m]."""
        weights = np.where(is_lead[:, None], old, new)  # [m, V]
        weights[:, self._impossible] = -np.inf
        floor = weights.max(axis=1, keepdims=True) + np.log(self._settings.plausible)
        gained = np.maximum(new, _LOG_LEAST) - np.maximum(old, _LOG_LEAST)
        guidance = np.where(is_lead[:, None], 0.0, self._settings.guidance * gained)
        guided = np.where(weights >= floor, weights + guidance, -np.inf)
        cumulated = np.cumsum(np.exp(guided - guided.max(axis=1, keepdims=True)), axis=1)
        drawn = self._generator.random((len(weights), 1)) * cumulated[:, -1:] * (1.0 - 1e-12)  # never all of it
        return np.asarray((cumulated <= drawn).sum(axis=1))
