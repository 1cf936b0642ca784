"""Gradient canaries of a private run: which are members, and what every released sum shows along each of them.

    canaries.json    a secret seed that directions are made from, and one fair coin for each canary
    canaries.f32     projections [T, N]: ⟨direction, released noisy sum⟩ / clip norm, one row per released step
    canaries.u32     places [N] in a cycle of steps, where units have one (noise that is correlated over steps)

A member that takes part in a step adds 1 to its projection; the noise on it has the plan's noise multiplier as
standard deviation. The holder of the key sees as much of a step as the strongest adversary of differential privacy.
All files belong to the operator (mode 0600): coins are as private as records.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Flags, Floats
from reticent.core.document import (
    MALFORMED,
    append_row,
    check_schema,
    read_document,
    write_atomically,
    write_document,
)
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness

SCHEMA_VERSION: Final = 1
KEY: Final = "canaries.json"
TRACE: Final = "canaries.f32"
PLACES: Final = "canaries.u32"
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CanaryKey:
    """The seed of the directions, and the coins [N]. `repr` shows neither."""

    seed: int
    is_member: Flags

    def __repr__(self) -> str:
        return f"CanaryKey({len(self)} canaries)"

    def __len__(self) -> int:
        return len(self.is_member)

    @classmethod
    def toss(cls, canaries: int, randomness: Randomness) -> "CanaryKey":
        """A fair coin for each of so many canaries."""
        if canaries < 1:
            raise ConfigError("an audit needs canaries", found=canaries, expected="1 or more")
        return cls(randomness.fresh_seed(), randomness.uniform(canaries) < 0.5)

    def write(self, folder: Path) -> None:
        """The key file, readable by its owner alone."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "measures": "gradient canaries: membership of one unit, seen at every released step",
            "seed": self.seed,
            "is_member": [int(coin) for coin in self.is_member],
        }
        write_document(folder / KEY, document, mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> "CanaryKey":
        """The key that `write` wrote."""
        document: dict[str, Any] = read_document(folder / KEY)
        check_schema(document, SCHEMA_VERSION, kind="canary key")
        try:
            coins = [bool(coin) for coin in document["is_member"]]
            if not coins:
                raise ValueError("no canaries")
            return cls(int(document["seed"]), np.array(coins))
        except MALFORMED:
            raise ConfigError(f"{folder / KEY}: not the key of gradient canaries") from None


@dataclass(frozen=True, slots=True, eq=False)
class CanaryTrace:
    """Projections [T, N] of T released steps on N canaries, their coins [N], and their places [N] in a cycle."""

    projections: Floats
    is_member: Flags
    places: Places | None = None

    def __post_init__(self) -> None:
        if self.projections.ndim != 2 or self.projections.shape[1] != len(self.is_member):
            raise ValueError("a trace has a row for each step and a column for each canary")
        if not np.isfinite(self.projections).all():
            raise ValueError("a trace holds finite numbers")
        if self.places is not None and self.places.shape != self.is_member.shape:
            raise ValueError("a place belongs to each canary")

    def __repr__(self) -> str:
        return f"CanaryTrace({self.projections.shape[0]} steps, {len(self.is_member)} canaries)"

    @classmethod
    def read(cls, folder: Path) -> "CanaryTrace":
        """The trace of a run, from its key and what its steps left."""
        key = CanaryKey.read(folder)
        path = folder / TRACE
        content = path.read_bytes() if path.is_file() else b""
        rows = len(content) // (4 * len(key))  # a row that a crash cut short is left out
        values = np.frombuffer(content[: 4 * rows * len(key)], dtype="<f4").reshape(rows, len(key))
        kept = folder / PLACES
        try:
            places = np.frombuffer(kept.read_bytes(), dtype="<u4").astype(np.int64) if kept.is_file() else None
            return cls(values.astype(np.float64), key.is_member, places)
        except ValueError as error:
            raise ConfigError(f"{path}: not the trace of this run's canaries", found=str(error)) from None


class Observer(Protocol):
    """Is told what the strongest adversary of a run learns of its canaries."""

    def append(self, projections: Floats) -> None:
        """The projections [N] of one more released step."""
        ...

    def place(self, places: Places) -> None:
        """The places [N] of the canaries in a cycle of steps."""
        ...


class TraceMemory:
    """Keeps what is observed in memory."""

    def __init__(self) -> None:
        self._rows: list[Floats] = []
        self._places: Places | None = None

    def append(self, projections: Floats) -> None:
        """One more row [N]."""
        self._rows.append(projections)

    def place(self, places: Places) -> None:
        """The places from now on."""
        self._places = places

    def trace(self, key: CanaryKey) -> CanaryTrace:
        """All that was observed of the canaries of this key."""
        rows = np.array(self._rows).reshape(len(self._rows), len(key))
        return CanaryTrace(rows, key.is_member, self._places)


class TraceFile:
    """Appends the projections of each released step; only its owner may read it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._places = folder / TRACE, folder / PLACES

    def place(self, places: Places) -> None:
        """The places [N], on disk when this returns."""
        write_atomically(self._places, places.astype("<u4").tobytes(), mode=0o600)

    def append(self, projections: Floats) -> None:
        """One more row [N], on disk when this returns."""
        append_row(self._path, np.asarray(projections, dtype="<f4").tobytes())
