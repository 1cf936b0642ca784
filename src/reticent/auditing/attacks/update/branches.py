"""Phrases that grow token by token from one prefix, and what a model says of the next token after each.

A generation is a set of rows of equal length. `read` makes rows of the next generation (a parent, and a token after
it) and gives the next-token log-pmfs after them; `advance` makes what was read the current generation. A model that
keeps caches offers this itself (`BranchingModel`): each row then costs one token of forward, whatever its length.
For any other model `PlainBranches` sends whole contexts: slower, same numbers.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel, Tokens

Ints = NDArray[np.int64]


class Branches(Protocol):
    """Rows that grow from one prefix. Generation 0 is one row without a token."""

    @property
    def forward_tokens(self) -> int:
        """Tokens that the model read so far, start token and prefix included."""
        ...

    def first(self) -> Floats:
        """Next-token log-pmf [V] after the prefix."""
        ...

    def read(self, parents: Ints, tokens: Ints, *, keep: bool) -> Floats:
        """Next-token log-pmfs [n, V] after the rows `parents` [n] (ascending) with `tokens` [n] after them.

        The rows are appended to the next generation, unless `keep` is False: then nothing will be read after them.
        """
        ...

    def advance(self) -> None:
        """What was read since the last call is now the current generation, in that order."""
        ...


@runtime_checkable
class BranchingModel(Protocol):
    """A model that reads branches through its own cache."""

    def branches(self, prefix: Tokens) -> Branches:
        """Branches after a prefix (without start token)."""
        ...


class PlainBranches:
    """Branches of any model: every context is sent whole."""

    def __init__(self, model: LanguageModel, prefix: Tokens) -> None:
        self._model = model
        self._prefix = list(prefix)
        self._rows: list[list[int]] = [[]]
        self._next: list[list[int]] = []
        self.forward_tokens = 0

    def first(self) -> Floats:
        """Next-token log-pmf [V] after the prefix."""
        (row,) = self._read([[]])
        return np.asarray(row)

    def read(self, parents: Ints, tokens: Ints, *, keep: bool) -> Floats:
        """Next-token log-pmfs [n, V] after each row and its token."""
        rows = [
            [*self._rows[parent], token] for parent, token in zip(parents.tolist(), tokens.tolist(), strict=True)
        ]
        if keep:
            self._next += rows
        return self._read(rows)

    def advance(self) -> None:
        """What was read is the current generation."""
        self._rows, self._next = self._next, []

    def _read(self, rows: Sequence[list[int]]) -> Floats:
        contexts = [[*self._prefix, *row] for row in rows]
        self.forward_tokens += sum(len(context) + 1 for context in contexts)
        return self._model.next_token_log_probs(contexts)


def branches_of(model: LanguageModel, prefix: Tokens = ()) -> Branches:
    """The model's own branches, or plain ones."""
    return model.branches(prefix) if isinstance(model, BranchingModel) else PlainBranches(model, prefix)
