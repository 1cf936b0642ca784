"""Texts as token ids, grouped into the units that are protected, and drawn units as micro-batches.

A text is its tokens and the end token, where the model has one; of longer texts the **first** `max_length` tokens
are kept and the rest, end token included, is left out. The start token is put in front by `record_loss`.

A step is cut into micro-batches in one of two ways. How it is cut changes its clipped sum by rounding alone:

    micro_batches        packed closely, padded to the largest unit: a unit's rounding depends on the others'
    own_size_batches     each unit padded to a size that follows from its own texts, with its likes alone

`gradients.rounding` decides which of them private steps may use.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.core.choice import member_of
from reticent.core.corpus import Record
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.models.huggingface.batching import LOGIT_BYTES
from reticent.training.gradients.record_loss import TokenBatch

TokenArray = NDArray[np.int32]
Limits = NDArray[np.float64]  # the norm that each drawn unit is clipped to [units], where it is its own
_BLOCK = 256  # texts encoded in one call
_TOKENS = 4096  # padded tokens of one forward and backward, where the logits' memory allows it
_WORTH = 512  # padded tokens that are worth a forward and backward of their own


class Encoder(Protocol):
    """The part of a `LanguageModel` that turns texts into tokens."""

    @property
    def start_token(self) -> int:
        """The token every sequence is conditioned on."""
        ...

    @property
    def end_token(self) -> int | None:
        """The token that ends a text."""
        ...

    @property
    def context_length(self) -> int | None:
        """Longest sequence, start token included."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        ...


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """Encoded texts with their owners, in the order of the corpus. `repr` shows counts alone."""

    texts: tuple[TokenArray, ...]
    owners: tuple[str, ...]
    start_token: int
    shortened: int  # texts that were longer than the model reads

    def __repr__(self) -> str:
        return f"TokenTexts({len(self)} texts, {self.tokens} tokens)"

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def tokens(self) -> int:
        """Scored tokens in all."""
        return sum(len(text) for text in self.texts)

    def hold(self, tokens: Sequence[int]) -> bool:
        """Whether any of these tokens stands in any text."""
        return any(bool(np.isin(text, tokens).any()) for text in self.texts)


def encode_texts(model: Encoder, records: Iterable[Record], *, max_length: int | None = None) -> TokenTexts:
    """The records' texts as the model will read them."""
    limit = longest_text(model, max_length)
    end = [] if model.end_token is None else [model.end_token]
    texts: list[TokenArray] = []
    owners: list[str] = []
    shortened = 0
    left = iter(records)
    while block := list(islice(left, _BLOCK)):
        for record, tokens in zip(block, model.encode([record.text for record in block]), strict=True):
            whole = [*tokens, *end]
            shortened += limit is not None and len(whole) > limit
            texts.append(np.asarray(whole[:limit], dtype=np.int32))
            owners.append(record.owner)
    return TokenTexts(tuple(texts), tuple(owners), model.start_token, shortened)


def longest_text(model: Encoder, wish: int | None) -> int | None:
    """How many tokens of a text are kept: what was wished for, if the model can read it; else all it can."""
    most = None if model.context_length is None else model.context_length - 1  # the start token takes a place
    if wish is not None and (wish < 1 or (most is not None and wish > most)):
        raise ConfigError(
            "the longest text must fit the model",
            found=wish,
            expected="at least 1" if most is None else f"1 to {most}",
            hint=None if most is None else "lower --max-length, or leave it out for the model's context",
        )
    return most if wish is None else wish


class Units:
    """The texts of each unit: one record each, or all records of an owner."""

    def __init__(self, texts: TokenTexts, unit: Unit = Unit.RECORD, *, texts_per_unit: int = 1) -> None:
        unit = member_of(Unit, unit, name="unit")
        if unit not in (Unit.RECORD, Unit.OWNER):
            raise ConfigError("training protects records or owners", found=unit.value)
        self.start_token = texts.start_token
        self._texts = texts.texts
        self._most = texts_per_unit
        members: dict[object, list[int]] = {}
        for index, owner in enumerate(texts.owners):
            members.setdefault(owner if unit is Unit.OWNER else index, []).append(index)
        self._members = list(members.values())

    def __repr__(self) -> str:
        return f"Units({len(self)})"

    def __len__(self) -> int:
        return len(self._members)

    def gather(self, drawn: Iterable[int], randomness: Randomness) -> list[list[TokenArray]]:
        """The texts of each drawn unit, at most `texts_per_unit` of them, chosen at random."""
        return self.texts_at(self.choose(drawn, randomness))

    def choose(self, drawn: Iterable[int], randomness: Randomness) -> list[list[int]]:
        """The places of those texts."""
        return [self._chosen(unit, randomness) for unit in drawn]

    def texts_at(self, places: Iterable[Iterable[int]]) -> list[list[TokenArray]]:
        """The texts at the places that `choose` gave."""
        return [[self._texts[place] for place in unit] for unit in places]

    def _chosen(self, unit: int, randomness: Randomness) -> list[int]:
        members = self._members[unit]
        if len(members) <= self._most:
            return members
        return [members[place] for place in randomness.permutation(len(members))[: self._most]]


def choose_token_budget(vocabulary_size: int) -> int:
    """How many padded tokens a micro-batch may have, so that the logits stay within bounded memory."""
    return max(1, min(_TOKENS, LOGIT_BYTES // (4 * vocabulary_size)))


def micro_batches(
    groups: Sequence[Sequence[TokenArray]],
    start_token: int,
    *,
    token_budget: int,
    device: str = "cpu",
    limits: Limits | None = None,
) -> Iterator[TokenBatch]:
    """The groups as padded batches of at most `token_budget` tokens each, largest first; none for no group.

    A group that is larger than the budget is a batch by itself: a unit is never divided. Texts of half the width
    begin a new batch, where the last one is worth its pass: a few long texts would make all others as wide.
    """
    shapes = [(len(group), max((len(text) for text in group), default=1)) for group in groups]
    order = sorted(range(len(groups)), key=lambda index: shapes[index], reverse=True)
    batch: list[int] = []
    rows = width = 0
    for index in order:
        wider = max(rows, shapes[index][0]), max(width, shapes[index][1])
        is_full = (len(batch) + 1) * wider[0] * wider[1] > token_budget
        is_narrow = 2 * shapes[index][1] <= width and len(batch) * rows * width >= _WORTH
        if batch and (is_full or is_narrow):
            yield _batch(groups, batch, start_token, device, limits=limits)
            batch, wider = [], shapes[index]
        batch.append(index)
        rows, width = wider
    if batch:
        yield _batch(groups, batch, start_token, device, limits=limits)


def own_size_batches(
    groups: Sequence[Sequence[TokenArray]],
    start_token: int,
    *,
    token_budget: int,
    longest: int | None = None,
    device: str = "cpu",
    limits: Limits | None = None,
) -> Iterator[TokenBatch]:
    """The groups as batches of one size each, of 1, 2, 4, 8 … units within `token_budget` padded tokens.

    `longest` is the most tokens that the model reads in a row.

    Guarantee: how a unit is padded follows from its own texts alone. Few numbers of units occur, so that each
    shape of a batch can be tested once.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for index, group in enumerate(groups):
        alike.setdefault(own_size(group, longest=longest), []).append(index)
    for size, chosen in sorted(alike.items(), reverse=True):
        most = _power_of_two_within(max(1, token_budget // (size[0] * size[1])))
        while chosen:
            count = min(most, _power_of_two_within(len(chosen)))
            yield _batch(groups, chosen[:count], start_token, device, size, limits=limits)
            chosen = chosen[count:]


def own_size(group: Sequence[TokenArray], *, longest: int | None = None) -> tuple[int, int]:
    """Rows and width that a unit is padded to: the next power of two of its texts, and at most 1/8 more tokens."""
    texts, tokens = max(1, len(group)), max((len(text) for text in group), default=1)
    step = max(8, _power_of_two_within(max(1, tokens - 1)) // 8)
    width = step * -(-tokens // step)
    return 1 << (texts - 1).bit_length(), max(1, tokens, width if longest is None else min(width, longest))


def _power_of_two_within(count: int) -> int:
    return 1 << (count.bit_length() - 1)


def _batch(
    groups: Sequence[Sequence[TokenArray]],
    chosen: Sequence[int],
    start_token: int,
    device: str,
    shape: tuple[int, int] = (1, 1),
    *,
    limits: Limits | None = None,
) -> TokenBatch:
    tokens = [[text.tolist() for text in groups[index]] for index in chosen]
    batch = TokenBatch.of_groups(tokens, start_token, shape=shape, device=device)
    if limits is None:
        return batch
    return replace(batch, limits=torch.as_tensor(limits[list(chosen)], device=device))
