"""What a durable charge costs: the ledger against the least that could be called durable.

Rivals, none of which has a budget, a chain or a witness: one line of JSON appended and synced; one row inserted
into plain SQLite (write-ahead log, synchronous FULL). All write the same costs of eight accounts. Contenders take
turns in short rounds, so that a busy disk is busy for all; ratios are taken within a round, medians over rounds.
"""

import json
import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reticent.core.event import FilteredCharge
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.ledger.durable import SqliteLedger

ACCOUNTS = tuple(f"part {index}" for index in range(8))
COSTS = {account: 1e-6 * (index + 1) for index, account in enumerate(ACCOUNTS)}
EVENT = FilteredCharge(2.0, 1e-6)
ROUNDS = 15
CHARGES = 60  # a round
PROCESSES = 4
CONTEXT = multiprocessing.get_context("forkserver")
Charge = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds a charge, and their ratio to plain SQLite with as many processes: medians over rounds."""

    contender: str
    seconds: float
    ratio: float


def new_ledger(path: Path) -> SqliteLedger:
    """A ledger whose budget outlasts the measurement."""
    promise = Guarantee(
        mechanism="SubMix-F",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.PART,
        neighbours=Neighbours.REPLACE,
        epsilon=1000.0,
        order=2.0,
        covers="nothing: a measurement",
    )
    return SqliteLedger.create(path, Budget("Rényi nats at order 2", 1000.0, promise), accounts=ACCOUNTS)


def json_lines(path: Path) -> Charge:
    """Append a line and sync it."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def charge() -> None:
        os.write(file, json.dumps(COSTS).encode() + b"\n")
        os.fsync(file)

    return charge


def plain_sqlite(path: Path) -> Charge:
    """Insert a row in a transaction of its own."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS charges (sequence INTEGER PRIMARY KEY, costs TEXT)")
    return lambda: connection.execute("INSERT INTO charges (costs) VALUES (?)", (json.dumps(COSTS),))


def ledger(path: Path) -> Charge:
    """Charge the ledger."""
    opened = SqliteLedger.open(path)
    return lambda: opened.charge(COSTS, EVENT)


def timed(charge: Charge, count: int) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(count):
        charge()
    return (time.perf_counter() - start) / count


def repeat_in_child(make: Callable[[Path], Charge], path: str, barrier: object, answers: object) -> None:
    """Charge `CHARGES` times in every round, all children at once, and say when it began and ended."""
    charge = make(Path(path))
    charge()
    for _ in range(ROUNDS):
        barrier.wait()  # type: ignore[attr-defined]
        start = time.monotonic()
        timed(charge, CHARGES)
        answers.put((start, time.monotonic()))  # type: ignore[attr-defined]
        barrier.wait()  # type: ignore[attr-defined]


class Team:
    """Several processes that charge one file, a round at a time."""

    def __init__(self, make: Callable[[Path], Charge], path: Path) -> None:
        self._barrier, self._answers = CONTEXT.Barrier(PROCESSES + 1), CONTEXT.Queue()
        arguments = (make, str(path), self._barrier, self._answers)
        self._children = [CONTEXT.Process(target=repeat_in_child, args=arguments) for _ in range(PROCESSES)]
        for child in self._children:
            child.start()

    def round(self) -> float:
        """Seconds a charge, of all processes together."""
        self._barrier.wait()
        times = [self._answers.get() for _ in self._children]
        self._barrier.wait()
        return (max(end for _, end in times) - min(start for start, _ in times)) / (PROCESSES * CHARGES)


def run() -> list[Result]:
    """Measure every contender in turns."""
    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as name:
        folder = Path(name)
        new_ledger(folder / "one.db").close()
        new_ledger(folder / "team.db").close()
        plain_sqlite(folder / "plain-team.db")
        lines, plain = json_lines(folder / "lines"), plain_sqlite(folder / "plain.db")
        own = ledger(folder / "one.db")
        plain_team, own_team = Team(plain_sqlite, folder / "plain-team.db"), Team(ledger, folder / "team.db")
        together = f"{PROCESSES} processes"
        contenders: dict[tuple[str, str], Callable[[], float]] = {
            ("JSON lines, synced", "plain SQLite"): lambda: timed(lines, CHARGES),
            ("plain SQLite", "plain SQLite"): lambda: timed(plain, CHARGES),
            ("ledger", "plain SQLite"): lambda: timed(own, CHARGES),
            (f"plain SQLite, {together}", f"plain SQLite, {together}"): plain_team.round,
            (f"ledger, {together}", f"plain SQLite, {together}"): own_team.round,
        }
        seconds: dict[tuple[str, str], list[float]] = {contender: [] for contender in contenders}
        for _ in range(ROUNDS):
            for contender, measure in contenders.items():
                seconds[contender].append(measure())
    by_name = {name: times for (name, _), times in seconds.items()}
    return [
        Result(
            name,
            statistics.median(times),
            statistics.median(own / other for own, other in zip(times, by_name[rival], strict=True)),
        )
        for (name, rival), times in seconds.items()
    ]


def main() -> None:
    """Print the table."""
    table = Table(title=f"durable charges of {len(ACCOUNTS)} accounts, medians of {ROUNDS} rounds")
    for column in ("contender", "µs a charge", "charges a second", "time against plain SQLite"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for result in run():
        micros, rate = f"{1e6 * result.seconds:,.1f}", f"{1 / result.seconds:,.0f}"
        table.add_row(result.contender, micros, rate, f"{result.ratio:.3g} ×")
    Console().print(table)
