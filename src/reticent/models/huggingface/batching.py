"""Ragged sequences into dense batches: sorted by length, packed by a token budget, padded on the right.

A batch of n rows padded to T columns costs n·T tokens of work and, for a vocabulary of V, n·T·V·4 bytes of logits.
Both are bounded. Sorting by length keeps the padding small: a batch holds neighbours in length alone.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

LOGIT_BYTES: Final = 512 * 2**20  # most memory that the float32 logits of one forward may take
# What a batch is packed to, in padded tokens and bytes of logits. A processor gains nothing from more rows than
# keep it busy and loses by memory that is mapped anew for every batch, as allocators do above 32 MB.
_CPU_TOKENS: Final = 1024
_CPU_BYTES: Final = 32 * 2**20
_ACCELERATOR_TOKENS: Final = 16_384


def choose_budget(vocabulary_size: int, device: torch.device) -> int:
    """Padded tokens per forward for a vocabulary and a device, so that work and logits stay bounded."""
    tokens, most = (_CPU_TOKENS, _CPU_BYTES) if device.type == "cpu" else (_ACCELERATOR_TOKENS, LOGIT_BYTES)
    return max(1, min(tokens, most // (4 * vocabulary_size)))


def pack(lengths: Sequence[int], token_budget: int, *, most_rows: int | None = None) -> list[list[int]]:
    """Indices of `lengths` in batches, each index once; a batch's rows × its longest length is within the budget.

    Longest first, so that memory trouble shows at once. A row longer than the budget is a batch by itself.
    """
    if token_budget < 1 or (most_rows is not None and most_rows < 1):
        raise ValueError("a batch needs room for at least one token")
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        rows = max(1, token_budget // max(1, lengths[order[start]]))  # the first row is the longest of its batch
        rows = rows if most_rows is None else min(rows, most_rows)
        batches.append(order[start : start + rows])
        start += rows
    return batches


def pad_right(rows: Sequence[Sequence[int]], filler: int, *, device: torch.device) -> torch.Tensor:
    """Rows as one [n, T] tensor, T the longest, the rest of each row filled with `filler`.

    No attention mask goes with it: a causal model's real tokens never look to the right, and the token in column p
    has position p. The loader checks that a model is causal.
    """
    padded: NDArray[np.int64] = np.full((len(rows), max(map(len, rows))), filler, dtype=np.int64)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return torch.from_numpy(padded).to(device)
