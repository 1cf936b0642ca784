"""The norm that each record's gradient is held to, by how long its gradients have been: for individual accounting.

    every record's gradient is measured before the first step, and again after each expected epoch
    → its level: the least of C, 2^(−1/4) C, 2^(−1/2) C … C/64 that is not below its norm
    → **written down, durably** → it is clipped to its level until it is measured again

A level follows from the record and from weights that charged steps released, and from no other record: records are
measured one by one, since in a batch each would round the others. Clipping to it makes it true: a record whose
gradient grows after it was measured contributes no more than was written down (Yu et al. 2022 do the same).
`accounting.individual` says what a record's levels prove.

    levels.u8    for each measurement: the next step (uint64), then one byte for each record

The file belongs to the operator (mode 0600): levels are as private as records. After a crash it says what the lost
steps were clipped to, as for all others.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.document import append_row
from reticent.core.errors import ConfigError

LEVELS: Final = tuple(2.0 ** (-level / 4.0) for level in range(25))  # shares of the clip norm
FILE: Final = "levels.u8"
_HEAD: Final = 8  # bytes
Levels = NDArray[np.uint8]


class LevelLog(Protocol):
    """Keeps the levels that records are clipped to."""

    def append(self, step: int, levels: Levels) -> None:
        """From this step on these are the levels [n]; kept when this returns."""
        ...


class LevelMemory:
    """Keeps levels in memory, and counts steps by level."""

    def __init__(self, units: int) -> None:
        self._units = units
        self._rows: list[tuple[int, Levels]] = []

    def append(self, step: int, levels: Levels) -> None:
        """From this step on these are the levels [n]."""
        self._rows.append((step, levels))

    def counts(self, steps: int, together: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Of so many steps, how many each unit was clipped to each level in [n, L]; to C before it was measured.

        Units with the same number in `together` [n] are one, at the greatest of their levels in each step.
        """
        groups = np.arange(self._units) if together is None else np.asarray(together, dtype=np.int64)
        count = int(groups.max(initial=-1)) + 1
        counts, level, since = np.zeros((count, len(LEVELS)), dtype=np.int64), np.zeros(count, dtype=np.uint8), 0
        for step, levels in [*self._rows, (steps, np.zeros(self._units, dtype=np.uint8))]:
            if not since <= step <= steps:
                raise ConfigError("the levels of records are not in the order of the run's steps")
            counts[np.arange(count), level] += step - since
            level, since = np.full(count, len(LEVELS) - 1, dtype=np.uint8), step
            np.minimum.at(level, groups, levels)
        return counts


class LevelFile:
    """Appends levels to a file of a run; only its owner may read it."""

    def __init__(self, folder: Path, units: int) -> None:
        self._path, self._row = folder / FILE, _HEAD + units

    def append(self, step: int, levels: Levels) -> None:
        """From this step on these are the levels [n]; on disk when this returns."""
        append_row(self._path, np.array([step], dtype="<u8").tobytes() + levels.tobytes())

    def read(self) -> LevelMemory:
        """All that was written; a row that a crash cut short was never used, and is left out."""
        content = self._path.read_bytes() if self._path.is_file() else b""
        kept = LevelMemory(self._row - _HEAD)
        for place in range(0, len(content) - self._row + 1, self._row):
            (step,) = np.frombuffer(content, dtype="<u8", count=1, offset=place).tolist()
            levels = np.frombuffer(content, dtype=np.uint8, count=self._row - _HEAD, offset=place + _HEAD)
            if (levels >= len(LEVELS)).any():
                raise ConfigError(f"{self._path}: not the levels of this run", hint="restore the file of the run")
            kept.append(step, levels)
        return kept


class OwnLevels:
    """The level of each record now."""

    def __init__(self, records: int, clip_norm: float, *, epoch: int, log: LevelLog) -> None:
        """`epoch` is the number of steps after which all records are measured again."""
        self._levels = np.zeros(records, dtype=np.uint8)
        self._clip_norm = clip_norm
        self._epoch = epoch
        self._log = log
        self._measured_at: int | None = None

    def measure(self, step: int, norm_of: Callable[[int], float]) -> None:
        """Measure all records where that is due before this step, by the norm of one record's gradient now.

        Guarantee: a level is on record before any step is clipped to it.
        """
        if self._measured_at is not None and step < self._measured_at + self._epoch:
            return
        norms = np.array([norm_of(record) for record in range(len(self._levels))])
        found = levels_of(norms, self._clip_norm)
        self._log.append(step, found)
        self._levels, self._measured_at = found, step

    def limits(self, drawn: NDArray[np.int64]) -> Floats:
        """The norm that each of these units is clipped to."""
        return self._clip_norm * np.asarray(LEVELS)[self._levels[drawn]]


def levels_of(norms: Floats, clip_norm: float) -> Levels:
    """The greatest level [n] that is not below each norm; 0 where it is above C or no number."""
    finite = np.where(np.isfinite(norms), norms, math.inf) / clip_norm
    # Counted from above: levels fall, so as many of them are at least the norm as come before the last one that is.
    covering = (np.asarray(LEVELS)[None, :] >= finite[:, None]).sum(1)  # [n]
    return np.asarray(np.maximum(covering - 1, 0), dtype=np.uint8)
