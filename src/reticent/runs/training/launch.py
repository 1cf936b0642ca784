"""Whether this process was started as one of several, by torchrun or alike, and which.

    torchrun --nproc-per-node 2 -m reticent train --method dp-sgd …

The launcher says it in the environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Rank 0 does the talking and the
writing; the others work in silence.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reticent.core.errors import ConfigError

if TYPE_CHECKING:
    from reticent.training.distributed.ranks import Ranks

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_follower() -> bool:
    """Whether another process leads this run."""
    rank, size = _place()
    return size > 1 and rank > 0


@contextmanager
def launched() -> "Iterator[Ranks]":
    """The ranks of this run: alone, unless a launcher says otherwise."""
    from reticent.training.distributed.ranks import Ranks, joined

    rank, size = _place()
    if size == 1:
        yield Ranks()
        return
    address = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    with joined(rank, size, address=address) as ranks:
        yield ranks


def _place() -> tuple[int, int]:
    """Rank and number of processes; alone unless the launcher said everything that is needed."""
    if not all(os.environ.get(name) for name in _NEEDED):
        return 0, 1
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except ValueError as error:
        raise ConfigError("RANK and WORLD_SIZE in the environment are not numbers") from error
