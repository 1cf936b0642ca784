"""Many short continuations of one prefix, grown together through the model's cache.

A generation of rows is held as pieces: a `Stream` each, as it was read. A row of the next generation forks its
parent's piece and reads one token. Caches are kept within `cache_bytes`; rows beyond that are kept as tokens and
read again from the prefix's own cache: slower, same numbers. What a search over a vocabulary needs: the rows share
their beginning, there are thousands of them, and most have no children.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.models.huggingface.scoring import exact_log_softmax, finite
from reticent.models.huggingface.stream import Stream

Ints = NDArray[np.int64]

CACHE_BYTES: Final = 2**30


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows [start, stop) of a generation, and the stream that holds them; None where they are read again."""

    start: int
    stop: int
    stream: Stream | None


class CachedBranches:
    """Rows that grow from one prefix. `tokens` begins with the start token; `inference` wraps every forward."""

    def __init__(
        self,
        module: torch.nn.Module,
        tokens: list[int],
        *,
        inference: Callable[[], AbstractContextManager[None]],
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._inference = inference
        self._device = next(iter(module.parameters())).device
        self._limit = cache_bytes
        self.forward_tokens = len(tokens)
        self._root = Stream(module)
        with self._inference():
            columns = torch.tensor([tokens], device=self._device)
            logits = self._root.advance(columns, keep=self._last(len(tokens)))
            self._first = finite(exact_log_softmax(logits[0, -1]).cpu().numpy())  # [V]
        self._pieces = [_Piece(0, 1, self._root)]
        self._rows: Ints = np.empty((1, 0), dtype=np.int64)  # [m, depth]
        self._next: list[_Piece] = []
        self._next_rows: list[Ints] = []
        self._held = 0

    def first(self) -> Floats:
        """Next-token log-pmf [V] after the prefix."""
        return self._first

    def read(self, parents: Ints, tokens: Ints, *, keep: bool) -> Floats:
        """Next-token log-pmfs [n, V] after the rows `parents` [n] (ascending) with `tokens` [n] after them."""
        found = []
        with self._inference():
            for piece in self._pieces:
                begin, end = np.searchsorted(parents, (piece.start, piece.stop))
                if end > begin:
                    found.append(self._read(piece, parents[begin:end], tokens[begin:end], keep=keep))
        rows: Floats = np.concatenate(found)
        return finite(rows)

    def advance(self) -> None:
        """What was read since the last call is now the current generation."""
        self._pieces, self._next = self._next, []
        self._rows = np.concatenate(self._next_rows)
        self._next_rows, self._held = [], 0

    def _read(self, piece: _Piece, parents: Ints, tokens: Ints, *, keep: bool) -> Floats:
        """Read the rows whose parents stand in one piece."""
        rows = np.column_stack([self._rows[parents], tokens])  # [n, depth + 1]
        if piece.stream is None:
            stream, picked, columns = self._root.copy(), np.zeros_like(parents), rows
        else:
            stream, picked, columns = piece.stream.copy(), parents - piece.start, tokens[:, None]
        stream.select(torch.from_numpy(np.ascontiguousarray(picked)).to(self._device))
        read = torch.from_numpy(np.ascontiguousarray(columns)).to(self._device)
        logits = stream.advance(read, keep=self._last(read.shape[1]), is_last=not keep)
        self.forward_tokens += read.numel()
        if keep:
            self._remember(stream, rows)
        log_pmfs: Floats = exact_log_softmax(logits[:, -1]).cpu().numpy()
        return log_pmfs

    def _remember(self, stream: Stream, rows: Ints) -> None:
        """Append rows to the next generation, with their cache where there is room for it."""
        size = tensor_bytes(stream.held)
        has_room = self._held + size <= self._limit
        self._held += size if has_room else 0
        start = self._next[-1].stop if self._next else 0
        self._next.append(_Piece(start, start + len(rows), stream if has_room else None))
        self._next_rows.append(rows)

    def _last(self, width: int) -> torch.Tensor:
        return torch.tensor([width - 1], device=self._device)


def tensor_bytes(value: Any) -> int:
    """Bytes of all tensors in a cache: of its attributes, lists and dictionaries, however deep."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(tensor_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(tensor_bytes, value))
    return tensor_bytes(vars(value)) if hasattr(value, "__dict__") and not isinstance(value, type) else 0
