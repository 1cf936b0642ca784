"""A masked place of a text as a model reads it: what stands before it once, then any candidates, in several calls.

A model that keeps what it has read offers that itself (`OpeningModel`); any other reads the prefix again in every
call: slower, same numbers. The blank before a value belongs to its first token in most vocabularies, so the prefix
ends before it; where a candidate changes how the end of the prefix is cut into tokens, the prefix ends where all
candidates still agree.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from reticent.auditing.attacks.personal_data.contexts import MaskedSpan
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens, common_length


class Opened(Protocol):
    """A prefix that was read."""

    def log_probs(self, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation."""
        ...


@runtime_checkable
class OpeningModel(Protocol):
    """A model that keeps what it has read of a prefix."""

    def opened(self, prefix: Tokens) -> Opened:
        """The prefix (without start token), read once."""
        ...


class _Reopened:
    """A prefix of any model: sent again in every call."""

    def __init__(self, model: LanguageModel, prefix: Tokens) -> None:
        self._model, self._prefix = model, prefix

    def log_probs(self, continuations: Sequence[Tokens]) -> list[Floats]:
        """log p of every token of every continuation."""
        return self._model.continuation_log_probs(self._prefix, continuations)


class Place:
    """The place of a target, and scores of candidates in it."""

    def __init__(self, model: LanguageModel, target: MaskedSpan) -> None:
        self._model, self._target = model, target
        self._opened: tuple[list[int], Opened] | None = None

    def sums(self, candidates: Sequence[str], *, with_suffix: bool = False) -> Floats:
        """Log-likelihood [m] of each candidate, and of what follows it where asked, in nats."""
        before, rest = self._encode(candidates, suffix=self._target.suffix if with_suffix else "")
        return np.array([float(row.sum()) for row in self._open(before).log_probs(rest)])

    def means(self, candidates: Sequence[str]) -> Floats:
        """Mean log-likelihood a token of the whole text with each candidate [m]."""
        before, rest = self._encode(candidates, suffix=self._target.suffix)
        prefix = float(self._model.token_log_probs([before])[0].sum()) if before else 0.0
        sums = [float(row.sum()) for row in self._open(before).log_probs(rest)]
        return np.array(
            [(one + prefix) / max(1, len(before) + len(row)) for one, row in zip(sums, rest, strict=True)]
        )

    def _encode(self, candidates: Sequence[str], *, suffix: str) -> tuple[list[int], list[list[int]]]:
        """Tokens before the place as far as they are common to all, and each candidate's tokens after them."""
        prefix = self._target.prefix
        opening, *wholes = self._model.encode(
            [prefix.rstrip(), *(f"{prefix}{candidate}{suffix}" for candidate in candidates)]
        )
        shared = min(common_length(opening, whole) for whole in wholes)
        rest = [list(whole[shared:]) for whole in wholes]
        return fitting(self._model, opening[:shared], room=max(len(row) for row in rest)), rest

    def _open(self, before: list[int]) -> Opened:
        if self._opened is None or self._opened[0] != before:
            model = self._model
            opened = model.opened(before) if isinstance(model, OpeningModel) else _Reopened(model, before)
            self._opened = (before, opened)
        return self._opened[1]


def fitting(model: LanguageModel, tokens: Tokens, *, room: int = 0) -> list[int]:
    """The last tokens that fit the model's context with `room` more."""
    if model.context_length is None:
        return list(tokens)
    most = max(0, model.context_length - 1 - room)
    return list(tokens[max(0, len(tokens) - most) :])
