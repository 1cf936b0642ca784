"""From found phrases back to the update's records: which hold them, and how much each record was taught.

A phrase stands in a record where its tokens do, one after another, or where its text does with white space evened
out: a tokenizer may split the same words differently at the start of a text and within it. The gain of a record is
what the update taught about it, Σ log2 p'/p over its tokens, the first conditioned on the start token; of a text
longer than the context, the tokens that fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.auditing.attacks.update.score import Snapshots
from reticent.core.corpus import Record
from reticent.core.model import Floats, LanguageModel, Tokens

_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class RecordGains:
    """What an update taught about records: bits [n] and tokens [n], in their order; without token they are 0."""

    ids: tuple[str, ...]
    owners: tuple[str, ...]
    bits: Floats
    tokens: Floats

    @property
    def per_token(self) -> Floats:
        """Bits per token [n]."""
        return np.asarray(self.bits / np.maximum(self.tokens, 1.0))


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


def record_gains(pair: Snapshots, records: Iterable[Record]) -> RecordGains:
    """What the update taught about each record."""
    limits = [m.context_length for m in (pair.before, pair.after) if m.context_length is not None]
    room = min(limits) - 1 if limits else None
    ids, owners, bits, tokens = [], [], [], []
    for block in _blocks(records):
        encoded = [row[:room] for row in pair.before.encode([record.text for record in block])]
        for record, row, score in zip(block, encoded, pair.score_texts(encoded), strict=True):
            ids.append(record.id)
            owners.append(record.owner)
            bits.append(score.bits)
            tokens.append(float(len(row)))
    return RecordGains(tuple(ids), tuple(owners), np.array(bits), np.array(tokens))


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
