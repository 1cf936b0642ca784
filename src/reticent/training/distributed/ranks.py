"""Several processes that train one model together, and the few things they say to each other.

    tell     what rank 0 alone does, and all hear of: it charges, reads and writes; where it fails, all stop
    first    the same without an answer for the others
    total    the sum of everybody's tensors, on rank 0
    copy     the tensors of rank 0, on all
    any      whether anybody says yes
    most     the greatest number that anybody says

Every rank makes the same calls in the same order. What is told is JSON or bytes, never pickled. Communication is by
gloo, between host memories. A rank that dies makes the next call of every other one fail: the run is then resumed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, distributed

from reticent.core.errors import UsageError

_PATIENCE: Final = timedelta(minutes=30)  # the slowest that rank 0 may be alone, such as planning
_FAILED: Final = -1
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's number among `size`. Alone (size 1) nothing is ever sent."""

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise UsageError("a rank is one of the processes", found=self.rank, expected=f"0 to {self.size - 1}")

    @property
    def is_first(self) -> bool:
        """Whether this process leads: it alone draws, charges, adds noise and writes."""
        return self.rank == 0

    def tell(self, act: Callable[[], Any]) -> Any:
        """What `act` gives on rank 0, as JSON values; nobody else calls it."""
        if self.size == 1:
            return act()
        return json.loads(self.tell_bytes(lambda: json.dumps(act()).encode()))

    def first(self, act: Callable[[], Result]) -> Result | None:
        """What `act` gives on rank 0, there alone; the others wait until it is done and get None."""
        made: list[Result] = []
        self.tell(lambda: made.append(act()))
        return made[0] if made else None

    def tell_bytes(self, act: Callable[[], bytes]) -> bytes:
        """The bytes that `act` gives on rank 0. Where it raises there, the others raise a UsageError."""
        if self.size == 1:
            return act()
        content = b""
        if self.is_first:
            try:
                content = act()
            except BaseException:
                self._announce(_FAILED)
                raise
        length = self._announce(len(content))
        if length == _FAILED:
            raise UsageError("rank 0 stopped", hint="its own message says why")
        buffer = torch.frombuffer(bytearray(content or bytes(max(1, length))), dtype=torch.uint8)
        with _together():
            distributed.broadcast(buffer, src=0)
        return buffer[:length].numpy().tobytes()

    def total(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The sum over all ranks, on rank 0; what the others get means nothing."""
        if self.size == 1:
            return dict(tensors)
        summed = {}
        for name, tensor in tensors.items():
            mine = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            with _together():
                distributed.reduce(mine, dst=0)
            summed[name] = mine.to(tensor.device)
        return summed

    def copy(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of rank 0; those of the others say shape and type."""
        if self.size == 1:
            return dict(tensors)
        copied = {}
        for name, tensor in tensors.items():
            theirs = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            with _together():
                distributed.broadcast(theirs, src=0)
            copied[name] = theirs.to(tensor.device)
        return copied

    def any(self, said: bool) -> bool:
        """Whether any rank says yes: all get the same answer."""
        if self.size == 1:
            return said
        votes = torch.tensor([int(said)])
        with _together():
            distributed.all_reduce(votes, op=distributed.ReduceOp.MAX)
        return bool(votes.item())

    def most(self, count: int) -> int:
        """The greatest number that any rank says."""
        if self.size == 1:
            return count
        said = torch.tensor([count])
        with _together():
            distributed.all_reduce(said, op=distributed.ReduceOp.MAX)
        return int(said.item())

    def require_same(self, value: str, *, what: str) -> None:
        """Refuse, on every rank, to go on where one of them has something else than rank 0."""
        first = self.tell(lambda: value)
        if self.any(value != first):
            raise UsageError(
                f"the processes do not agree on {what}",
                found="another one on some rank",
                hint="give every process the same command, files and versions",
            )

    def _announce(self, length: int) -> int:
        told = torch.tensor([length], dtype=torch.int64)
        with _together():
            distributed.broadcast(told, src=0)
        return int(told.item())


@contextmanager
def joined(rank: int, size: int, *, address: str) -> Iterator[Ranks]:
    """The process group at `address` (tcp://host:port), for as long as the context lasts."""
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=size, timeout=_PATIENCE)
    try:
        yield Ranks(rank, size)
    finally:
        distributed.destroy_process_group()


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise UsageError(
            "another process of this run is gone",
            hint="nothing that was released is uncharged; go on with --resume RUN",
        ) from error
