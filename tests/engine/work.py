"""Pieces of work for the tests of engines: they live in a module, as workers load them by name."""

import hashlib
import os
import signal
import time
from pathlib import Path

from reticent.core.errors import DataError
from reticent.engine.work import Piece


def digest(argument, told):
    """A result that depends on the argument alone."""
    for _ in range(argument % 5):
        told(1)
    return hashlib.blake2b(str(argument).encode()).hexdigest()


def pieces(count):
    return [Piece(f"piece-{number:02d}", number) for number in range(count)]


def float_sum(argument, told):
    """Sums that come out otherwise with another order of additions, and the threads torch has."""
    import torch

    numbers = torch.randn(200_000, generator=torch.Generator().manual_seed(argument))
    return float(numbers.sum()), torch.get_num_threads()


def die_once(argument, told):
    """Kills its own process the first time, after telling of work that is lost with it."""
    mark, number = Path(argument[0]), argument[1]
    told(7)
    if number == 1 and not mark.exists():
        mark.write_text("died")
        time.sleep(0.5)  # so that the lost work has been told
        told(1)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def always_die(argument, told):
    os.kill(os.getpid(), signal.SIGKILL)


def raise_with_text(argument, told):
    raise ValueError(f"the secret is {argument}")


def complain(argument, told):
    with Path(argument).open("a") as file:
        file.write("x")
    raise DataError("no records", path="corpus.jsonl", hint="bring some")


def slow(argument, told):
    """Takes a while, and says on which process and when it ran."""
    time.sleep(argument)
    told(1)
    return os.getpid()
