"""Gradient canaries: made-up units whose gradients are known, to measure what a private step leaks.

A canary is a unit like any other. It has a direction of unit length in the space of trainable weights; if it is a
member, and the plan's sampler draws it, its gradient enters the step through the engine that records pass through:
norm, clip factor, sum, noise. Its gradient is longer than the clip norm, so it adds exactly the clip norm times its
direction, and a step that does not clip is found out. A canary that is not a member adds nothing.

A direction is a piece of one row of one weight matrix, of equal entries with random signs. No two canaries share an
entry: their directions are orthogonal. Places and signs are made from the secret seed, once. Half of the
canaries lie in tied weights, if there are any, as both of their uses: a norm that forgets the term between
the two uses is found out as well.

    of a released sum S:   projection_j = ⟨v_j, S⟩ / C                                  `core.evidence.canary_trace`

Units of an audited plan are records and canaries, members or not: the rate and the guarantee are those of any unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reticent.core.errors import ConfigError
from reticent.core.evidence.canary_trace import CanaryKey, Observer, Places
from reticent.core.randomness import Randomness
from reticent.training.gradients.contribution import Contribution, Outer, Rows
from reticent.training.gradients.engine import PerRecordGradients

_WIDEST: Final = 64  # entries of a direction, where the weights have room for that
_LENGTH: Final = 8.0  # of a canary's gradient before it is clipped, in clip norms


@dataclass(frozen=True, slots=True)
class _Room:
    """A weight matrix with pieces of rows for canaries. A tied one is an embedding and an output layer."""

    name: str
    rows: int
    columns: int
    is_tied: bool

    def pieces(self, width: int) -> int:
        """How many pieces of this width there are."""
        return self.rows * (self.columns // width)


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """The canaries of one matrix: their numbers and rows [n], and the columns [n, width] of their entries."""

    room: _Room
    numbers: NDArray[np.int64]
    rows: Tensor
    columns: Tensor


class GradientCanaries:
    """The canaries of one run: adds drawn members to a step, and reads every released sum along all of them."""

    def __init__(self, module: nn.Module, key: CanaryKey, *, clip_norm: float, observer: Observer) -> None:
        """`observer` is given the projections [N] of each released sum."""
        self.key = key
        self._clip_norm = clip_norm
        self._observer = observer
        source = Randomness.seeded(key.seed)
        self._width, self._placed = _places(_rooms(module), len(key), source.child("places"))
        bits = source.child("signs").generator().integers(0, 2, (len(key), self._width))
        self._signs = torch.from_numpy(2.0 * bits - 1.0)  # ±1 [N, width]

    def __len__(self) -> int:
        return len(self.key)

    def add(self, engine: PerRecordGradients, drawn: NDArray[np.int64]) -> None:
        """Add the members among the drawn canaries to the engine's running sum.

        Guarantee: each moves the sum by at most the clip norm, by the code that bounds every record.
        """
        takes_part = np.zeros(len(self), dtype=np.bool_)
        takes_part[drawn] = self.key.is_member[drawn]
        for placed in self._placed:
            chosen = np.flatnonzero(takes_part[placed.numbers])
            if len(chosen):
                rows, uses = self._gradients(placed, chosen)
                engine.accumulate_given(placed.room.name, rows, uses)

    def read(self, released: Mapping[str, Tensor]) -> None:
        """Hand on what a noisy sum, by parameter, shows along every canary."""
        found = np.zeros(len(self))
        for placed in self._placed:
            matrix = released[placed.room.name].detach()  # [rows, columns]
            rows, columns = placed.rows.to(matrix.device), placed.columns.to(matrix.device)
            entries = matrix[rows[:, None], columns].cpu().double()  # [n, width]
            found[placed.numbers] = (entries * self._signs[placed.numbers]).sum(1).numpy()
        self._observer.append(found / (self._clip_norm * np.sqrt(self._width)))

    def place(self, places: Places) -> None:
        """Hand on the canaries' own steps [N] of every cycle."""
        self._observer.place(places)

    def _gradients(self, placed: _Placed, chosen: NDArray[np.int64]) -> tuple[Tensor, list[Contribution]]:
        """The rows [R] that the chosen canaries [B] lie in, and their gradients as uses of those rows alone."""
        room = placed.room
        length = _LENGTH * self._clip_norm / np.sqrt(self._width) / (2.0 if room.is_tied else 1.0)
        values = torch.zeros(len(chosen), room.columns)
        signs = self._signs[placed.numbers[chosen]] * length
        values.scatter_(1, placed.columns[chosen], signs.to(values.dtype))
        rows, ids = torch.unique(placed.rows[chosen], return_inverse=True)  # [R], [B]
        ids, values = ids[:, None], values[:, None, :]  # [B, 1], [B, 1, columns]
        if not room.is_tied:
            return rows, [Rows(ids, values)]
        left = torch.nn.functional.one_hot(ids, len(rows)).to(values.dtype)  # [B, 1, R]
        return rows, [Rows(ids, values), Outer(left, values)]


def _rooms(module: nn.Module) -> list[_Room]:
    """The trainable matrices; one that an embedding and another layer share is tied."""
    owners: dict[int, set[type[nn.Module]]] = {}
    for layer in module.modules():
        for parameter in layer._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), set()).add(type(layer))
    return [
        _Room(name, p.shape[0], p.shape[1], nn.Embedding in owners[id(p)] and len(owners[id(p)]) > 1)
        for name, p in module.named_parameters()
        if p.requires_grad and p.dim() == 2
    ]


def require_room(module: nn.Module, canaries: int) -> None:
    """Refuse more canaries than the trainable weights have room for."""
    _width(_shares(_rooms(module), canaries))


def _shares(rooms: list[_Room], canaries: int) -> list[tuple[list[_Room], int]]:
    """Matrices, and how many canaries they get together: half of them in tied weights."""
    tied = [room for room in rooms if room.is_tied]
    others = [room for room in rooms if not room.is_tied]
    return [(tied, canaries - canaries // 2), (others, canaries // 2)] if tied and others else [(rooms, canaries)]


def _width(shares: list[tuple[list[_Room], int]]) -> int:
    """The width of a direction, the greatest that leaves each canary a place of its own."""
    width = _WIDEST
    while any(sum(room.pieces(width) for room in group) < count for group, count in shares):
        width //= 2
        if not width:
            raise ConfigError(
                "the trainable weights have no room for so many canaries",
                found=f"{sum(count for _, count in shares)} canaries",
                expected=f"at most {sum(room.pieces(1) for group, _ in shares for room in group)}",
                hint="ask for fewer with --audit",
            )
    return width


def _places(rooms: list[_Room], canaries: int, source: Randomness) -> tuple[int, list[_Placed]]:
    """The width of a direction, and a place of its own for each canary."""
    shares = _shares(rooms, canaries)
    width = _width(shares)
    order, start, placed = source.permutation(canaries), 0, []
    for group, count in shares:
        numbers, start = order[start : start + count], start + count
        placed += _place(group, numbers, width, source)
    return width, placed


def _place(rooms: list[_Room], numbers: NDArray[np.int64], width: int, source: Randomness) -> list[_Placed]:
    """Pieces of these matrices, all equally likely and no two alike, for the canaries of these numbers."""
    ends = np.cumsum([room.pieces(width) for room in rooms])
    pieces = _distinct(int(ends[-1]), len(numbers), source)
    owner = np.searchsorted(ends, pieces, side="right")  # [n]
    placed = []
    for index, room in enumerate(rooms):
        mine = owner == index
        if mine.any():
            within = pieces[mine] - (ends[index] - room.pieces(width))
            row, block = np.divmod(within, room.columns // width)
            columns = torch.from_numpy(block * width)[:, None] + torch.arange(width)
            placed.append(_Placed(room, numbers[mine], torch.from_numpy(row), columns))
    return placed


def _distinct(high: int, count: int, source: Randomness) -> NDArray[np.int64]:
    """`count` different numbers below `high`, in random order."""
    if high <= 4 * count:
        return source.permutation(high)[:count]
    drawn = np.zeros(0, dtype=np.int64)
    while len(drawn) < count:
        more = np.concatenate([drawn, source.integers(high, count - len(drawn))])
        drawn = more[np.sort(np.unique(more, return_index=True)[1])]
    return drawn
