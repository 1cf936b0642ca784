"""Ragged sequences into dense batches: sorted by length, packed by a token budget, padded on the right.

A batch of n rows padded to T columns costs n·T tokens of work and, for a vocabulary of V, n·T·V·4 bytes of logits.
Both are bounded. Sorting by length keeps the padding small: a batch holds neighbours in length alone.

Batches are computed on the cores of a processor by a few threads, each with its share of torch's own. Torch splits
each operation over all cores and waits for the slowest after every one; for the small operations of small models
that wait is most of the time, so whole batches go side by side instead. On an accelerator, with one core or with
one batch, the work is done in the caller's thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

Batch = TypeVar("Batch")
Result = TypeVar("Result")

LOGIT_BYTES: Final = 512 * 2**20  # most memory that the float32 logits of one forward may take
# What a batch is packed to, in padded tokens and bytes of logits. A processor gains nothing from more rows than
# keep it busy and loses by memory that is mapped anew for every batch, as allocators do above 32 MB.
_CPU_TOKENS: Final = 1024
_CPU_BYTES: Final = 32 * 2**20
_ACCELERATOR_TOKENS: Final = 16_384
_MOST_WORKERS: Final = 4  # each holds the activations of a batch


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


def map_batches(work: Callable[[Batch], Result], batches: Sequence[Batch], *, device: torch.device) -> list[Result]:
    """`work` of every batch, in order, without gradients. The number of torch's threads is put back afterwards."""

    def inferred(batch: Batch) -> Result:
        with torch.inference_mode():  # belongs to a thread, so every worker enters it
            return work(batch)

    threads = torch.get_num_threads()
    workers = min(threads, len(batches), _MOST_WORKERS)
    if device.type != "cpu" or workers < 2:
        return [inferred(batch) for batch in batches]
    try:
        with ThreadPoolExecutor(
            workers, initializer=torch.set_num_threads, initargs=(max(1, threads // workers),)
        ) as pool:
            return list(pool.map(inferred, batches))
    finally:
        torch.set_num_threads(threads)  # a thread's own setting is also the default of threads to come
