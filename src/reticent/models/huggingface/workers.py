"""Independent batches on the cores of a processor: a few threads, each with its share of torch's own threads.

Torch splits each operation over all cores and waits for the slowest after every one. For the small operations of
small models that wait is most of the time, so whole batches go side by side instead. On an accelerator, with one
core or with one batch, the work is done in the caller's thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")

_MOST_WORKERS: Final = 4  # each holds the activations of a batch


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
