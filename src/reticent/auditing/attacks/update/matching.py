"""From found phrases back to the update's records: which hold them, and how much each record was taught.

A phrase stands in a record where its tokens do, one after another, or where its text does with white space evened
out: a tokenizer may split the same words differently at the start of a text and within it. The gain of a record is
what the update taught about it, Σ log2 p'/p over its tokens, the first conditioned on the start token; of a text
longer than the context, the tokens that fit. Its **windows** are the phrases inside it: a few tokens learnt by
heart stand out there, where the mean over a long text hides them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from reticent.auditing.attacks.update.score import Snapshots, UpdateScore, phrase_score
from reticent.auditing.attacks.update.windows import whole_words, window_scores
from reticent.core.arrays import Floats
from reticent.core.corpus import Record
from reticent.core.model import LanguageModel, Tokens

_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class RecordGains:
    """What an update taught about records, in their order: their tokens that were read, bits [n], and the scores of
    all windows inside each ([T − n + 1]).
    """

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    texts: tuple[tuple[int, ...], ...] = field(repr=False)
    bits: Floats
    windows: tuple[Floats, ...] = field(repr=False)

    @property
    def per_token(self) -> Floats:
        """Bits per token [n]; 0 without a token."""
        return np.asarray(self.bits / np.maximum([len(text) for text in self.texts], 1.0))

    @property
    def highest(self) -> Floats:
        """The score of each record's highest window [n]; −∞ without one."""
        return np.array([one.max(initial=-np.inf) for one in self.windows])

    def words(self, model: LanguageModel, places: Sequence[int], *, length: int) -> list[tuple[int, ...]]:
        """The window of each record that begins at this place, as whole words."""
        spans = ((place, place + length) for place in places)
        return [whole_words(model, text, span) for text, span in zip(self.texts, spans, strict=True)]


def match_phrases(model: LanguageModel, phrases: Sequence[Tokens], records: Iterable[Record]) -> list[list[str]]:
    """For each phrase the ids of the records that hold it, in their order."""
    by_tokens: dict[tuple[int, ...], list[int]] = {}
    for place, phrase in enumerate(phrases):
        by_tokens.setdefault(tuple(phrase), []).append(place)
    lengths = sorted({len(phrase) for phrase in by_tokens})
    texts = [_evened(text) for text in model.decode(phrases)]
    holders: list[list[str]] = [[] for _ in phrases]
    for block in _blocks(records):
        encoded = model.encode([record.text for record in block])
        for record, tokens in zip(block, encoded, strict=True):
            found = {place for place, text in enumerate(texts) if text and text in _evened(record.text)}
            for length in lengths:
                for start in range(len(tokens) - length + 1):
                    found.update(by_tokens.get(tuple(tokens[start : start + length]), ()))
            for place in sorted(found):
                holders[place].append(record.id)
    return holders


def record_gains(
    pair: Snapshots, records: Iterable[Record], *, length: int = 5, score: UpdateScore = UpdateScore.ABSOLUTE
) -> RecordGains:
    """What the update taught about each record, and about every window of `length` tokens in it."""
    limits = [m.context_length for m in (pair.before, pair.after) if m.context_length is not None]
    room = min(limits) - 1 if limits else None
    names: list[str] = []
    owners: list[str] = []
    texts: list[tuple[int, ...]] = []
    bits: list[float] = []
    windows: list[Floats] = []
    for block in _blocks(records):
        encoded = [tuple(row[:room]) for row in pair.before.encode([record.text for record in block])]
        names += [record.id for record in block]
        owners += [record.owner for record in block]
        texts += encoded
        read = (encoded, pair.before.token_log_probs(encoded), pair.after.token_log_probs(encoded))
        for tokens, before, after in zip(*read, strict=True):
            bits.append(phrase_score(tokens, before, after).bits)
            windows.append(window_scores(before, after, length=length, score=score))
    return RecordGains(tuple(names), tuple(owners), tuple(texts), np.array(bits), tuple(windows))


def _evened(text: str) -> str:
    """The text with every run of white space as one space, one at either end: words match whole."""
    words = " ".join(text.split())
    return f" {words} " if words else ""


def _blocks(records: Iterable[Record]) -> Iterable[list[Record]]:
    block: list[Record] = []
    for record in records:
        block.append(record)
        if len(block) == _AT_ONCE:
            yield block
            block = []
    if block:
        yield block
