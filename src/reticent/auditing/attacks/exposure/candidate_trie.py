"""All candidates of a canary as a tree of tokens: what they share is computed once.

A candidate's text is template with the candidate in its place, encoded as a whole, suffix included: the tokens that
training saw. All candidates begin with `shared` tokens; after those the tree branches. Two kinds:

- `SymbolTrie`: every symbol of a code is one token of its own. The tree is uniform and never written down, so
  that 10^9 candidates cost nothing. The tokenizer is a black box, so this is checked, not proved: all pairs of
  neighbouring symbols at all places, and random codes.
- `ListedTrie`: any tokenizer and any list; all candidates are encoded and sorted. Bounded by `LISTED_LIMIT`.

A node stands for the candidates [first, last) of the tree's own order. Where neither kind is possible there is no
tree, and the caller samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.core.model import LanguageModel, Tokens
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace

LISTED_LIMIT: Final = 2_000_000  # candidates that are encoded one by one; a row of 16 tokens is 64 bytes
_CHECKED_CODES: Final = 256
_ENCODED_AT_ONCE: Final = 50_000
_NO_TOKEN: Final = -1  # fills short rows; sorts before every token


@dataclass(frozen=True, slots=True)
class Node:
    """Candidates [first, last) of the tree, which begin with the tokens `path` after the shared ones."""

    path: tuple[int, ...]
    first: int
    last: int

    @property
    def weight(self) -> int:
        """Number of candidates below, and at, this node."""
        return self.last - self.first


class CandidateTrie(Protocol):
    """A tree of candidates in tokens."""

    @property
    def shared(self) -> tuple[int, ...]:
        """Tokens that every candidate's text begins with."""
        ...

    @property
    def size(self) -> int:
        """Number of candidates."""
        ...

    @property
    def enumeration_tokens(self) -> int:
        """Tokens a model reads to score every candidate, the shared ones once."""
        ...

    def remainder(self, node: Node) -> tuple[int, ...] | None:
        """The tokens after the node where all its candidates have the same, else None."""
        ...

    def children(self, node: Node) -> list[Node]:
        """The branches of a node, each one token longer; candidates that end at the node have none."""
        ...


@dataclass(frozen=True, slots=True)
class SymbolTrie:
    """All codes of a `CodeSpace`, one token a symbol: `symbols[place]` are the tokens of the alphabet there."""

    shared: tuple[int, ...]
    symbols: tuple[tuple[int, ...], ...]
    suffix: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(len(self.symbols[0]) ** len(self.symbols))

    @property
    def enumeration_tokens(self) -> int:
        """Tokens read by enumeration: the last token of a text is never read."""
        return 1 + len(self.shared) + self.size * (len(self.symbols) + len(self.suffix) - 1)

    def remainder(self, node: Node) -> tuple[int, ...] | None:
        """The suffix, once the code is complete."""
        return self.suffix if len(node.path) == len(self.symbols) else None

    def children(self, node: Node) -> list[Node]:
        """One branch a symbol."""
        tokens = self.symbols[len(node.path)]
        step = node.weight // len(tokens)
        starts = range(node.first, node.last, step)
        return [Node((*node.path, token), start, start + step) for token, start in zip(tokens, starts, strict=True)]


class ListedTrie:
    """Any candidates, encoded and sorted: a node is a range of rows."""

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        if not sequences:
            raise ValueError("a tree needs at least one candidate")
        lengths = np.array([len(sequence) for sequence in sequences])
        rows = np.full((len(sequences), int(lengths.max()) + 1), _NO_TOKEN, dtype=np.int32)  # [n, T + 1]
        for row, sequence in zip(rows, sequences, strict=True):
            row[: len(sequence)] = sequence
        self._rows: NDArray[np.int32] = rows[np.lexsort(rows.T[::-1])]
        differs = (self._rows[0] != self._rows[-1]).nonzero()[0]  # sorted: first and last share what all share
        depth = int(differs[0]) if len(differs) else int(lengths[0])
        self._depth = depth
        self._total = int((lengths - depth).clip(min=1).sum())

    @property
    def shared(self) -> tuple[int, ...]:
        """Tokens that every candidate's text begins with."""
        return tuple(self._rows[0, : self._depth].tolist())

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self._rows)

    @property
    def enumeration_tokens(self) -> int:
        """Tokens read by enumeration: the last token of a text is never read."""
        return 1 + self._depth + self._total - self.size

    def remainder(self, node: Node) -> tuple[int, ...] | None:
        """What is left of a row where all rows of the node are equal."""
        start, end = self._rows[node.first], self._rows[node.last - 1]
        if not (start == end).all():
            return None
        rest = start[self._depth + len(node.path) :]
        return tuple(rest[rest != _NO_TOKEN].tolist())

    def children(self, node: Node) -> list[Node]:
        """One branch for each token that follows."""
        column = self._rows[node.first : node.last, self._depth + len(node.path)]
        tokens, places = np.unique(column, return_index=True)  # the column is sorted within a node
        ends = [*places[1:].tolist(), len(column)]
        return [
            Node((*node.path, token), node.first + start, node.first + end)
            for token, start, end in zip(tokens.tolist(), places.tolist(), ends, strict=True)
            if token != _NO_TOKEN
        ]


def build_trie(model: LanguageModel, canaries: Sequence[Canary], *, randomness: Randomness) -> CandidateTrie | None:
    """The tree of the candidates of canaries of one template and space, in this model's tokens.

    None where it is neither uniform nor small enough to be listed.
    """
    canary = canaries[0]
    if any(other.template != canary.template or other.space != canary.space for other in canaries):
        raise ValueError("a tree is of canaries of one template and one space")
    if isinstance(canary.space, CodeSpace):
        trie = _symbol_trie(model, canaries, canary.space, randomness)
        if trie is not None:
            return trie
    if canary.space.size > LISTED_LIMIT:
        return None
    sequences: list[list[int]] = []
    candidates = iter(canary.space)
    while piece := list(islice(candidates, _ENCODED_AT_ONCE)):
        sequences += model.encode([canary.text(candidate) for candidate in piece])
    return ListedTrie(sequences)


def _symbol_trie(
    model: LanguageModel, canaries: Sequence[Canary], space: CodeSpace, randomness: Randomness
) -> SymbolTrie | None:
    """The uniform tree, read off one code a symbol and held against many more."""
    canary = canaries[0]
    plain = [canary.text(symbol * space.length) for symbol in space.alphabet]
    rows = model.encode(plain)
    if len(rows) < 2 or len({len(row) for row in rows}) != 1:
        return None
    columns = [
        tuple(row[place] for row in rows) for place in range(len(rows[0]))
    ]  # tokens of the alphabet, by place
    varying = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    start = varying[0] if varying else 0
    end = start + space.length
    if varying != list(range(start, end)) or any(len(set(columns[place])) < len(rows) for place in varying):
        return None
    trie = SymbolTrie(tuple(rows[0][:start]), tuple(columns[start:end]), tuple(rows[0][end:]))
    checked = [*(planted.secret.reveal() for planted in canaries), *_neighbouring(space)]
    checked += [space.sample(randomness) for _ in range(_CHECKED_CODES)]
    encoded = model.encode([canary.text(code) for code in checked])
    agrees = all(row == _spell(trie, space, code) for row, code in zip(encoded, checked, strict=True))
    return trie if agrees else None


def _neighbouring(space: CodeSpace) -> list[str]:
    """Codes that hold every pair of symbols at every place: a tokenizer that merges any pair shows itself."""
    pairs = [a + b for a in space.alphabet for b in space.alphabet]
    return [(pair * space.length)[offset : offset + space.length] for pair in pairs for offset in (0, 1)]


def _spell(trie: SymbolTrie, space: CodeSpace, code: str) -> list[int]:
    """The tokens a code has in the uniform tree, shared ones and suffix included."""
    chosen = [tokens[space.alphabet.index(symbol)] for tokens, symbol in zip(trie.symbols, code, strict=True)]
    return [*trie.shared, *chosen, *trie.suffix]
