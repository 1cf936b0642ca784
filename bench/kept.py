"""Measurements that take long: each is kept as a line of a file, so that a benchmark can go on after a stop."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

Cell = TypeVar("Cell")
Seen = TypeVar("Seen")


class Kept(Generic[Cell, Seen]):
    """What was measured, by its cell (a frozen dataclass or a string). Without a file nothing is kept."""

    def __init__(self, file: Path | None, minutes: float, read: Callable[..., Cell]) -> None:
        self._file = file
        self._end = time.monotonic() + 60.0 * minutes
        self._seen: dict[Cell, Seen] = {}
        if file is not None and file.is_file():
            for line in file.read_text(encoding="utf8").splitlines():
                row = json.loads(line)
                cell = row["cell"]
                self._seen[read(**cell) if isinstance(cell, dict) else read(cell)] = row["seen"]

    def get(self, cell: Cell) -> Seen | None:
        """What was measured."""
        return self._seen.get(cell)

    def ensure(self, cell: Cell, measure: Callable[[], Seen]) -> None:
        """Measure a cell that is not there, while there is time."""
        if cell in self._seen or time.monotonic() > self._end:
            return
        start = time.process_time()
        self._seen[cell] = measure()
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        key: Any = asdict(cell) if is_dataclass(cell) and not isinstance(cell, type) else cell
        row = {"cell": key, "seen": self._seen[cell], "seconds": round(time.process_time() - start, 1)}
        with self._file.open("a", encoding="utf8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def of(self, cells: Iterable[Cell]) -> dict[Cell, Seen]:
        """What there is of these cells, in their order; says how many are missing."""
        wanted = list(dict.fromkeys(cells))
        there = {cell: self._seen[cell] for cell in wanted if cell in self._seen}
        missing = len(wanted) - len(there)
        print(f"{missing} of {len(wanted)} measurements are missing." if missing else "Nothing is missing.")
        return there
