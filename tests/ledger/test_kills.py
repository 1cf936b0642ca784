"""Processes charge one ledger at random while they are killed: nothing acknowledged may be missing, ever.

Workers acknowledge in files of their own, each line after the charge returned, as a server would release a token.
The judge compares these with the chain afterwards.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from reticent.core.errors import BudgetExhausted, LedgerError
from reticent.core.ledger import Receipt
from reticent.ledger.fixed_point import units_down, units_up
from tests.ledger.ledgers import EVENT, SqliteLedgers
from tests.patience import PATIENCE
from tests.processes import PROCESSES

ACCOUNTS = tuple(f"part {index}" for index in range(8))


class Forgetful:
    """Broken twin: acknowledges at once and writes every tenth time."""

    def __init__(self, path: str) -> None:
        self._ledger = SqliteLedgers().open(path)
        self._waiting: list[dict[str, float]] = []

    @classmethod
    def open(cls, path: str) -> "Forgetful":
        return cls(path)

    def charge(self, costs, event) -> Receipt:
        self._waiting.append(costs)
        if len(self._waiting) == 10:
            for waiting in self._waiting:
                self._ledger.charge(waiting, event)
            self._waiting = []
        return Receipt(-1, "")

    def remaining(self) -> dict[str, float]:
        return self._ledger.remaining()


def random_costs(generator: random.Random, remaining: dict[str, float], *, halvings: int) -> dict[str, float]:
    """One to three accounts, each for a small part of what it has left, so that charging goes on near the limit.

    One in 500 wants about all of it: too much, or enough for one of several workers.
    """
    chosen = generator.sample(ACCOUNTS, generator.randint(1, 3))
    if generator.random() < 0.002:
        return {account: remaining[account] * generator.uniform(0.5, 1.5) for account in chosen}
    return {account: remaining[account] * 2.0 ** -generator.uniform(halvings, halvings + 13) for account in chosen}


def work(kind, path: str, acknowledgements: str, halvings: int) -> None:
    """Charge at random until told to stop, or until killed."""
    generator = random.Random(Path(acknowledgements).name)
    stop = Path(path).with_name("stop")
    file = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def acknowledge(receipt: Receipt, costs: dict[str, float]) -> None:
        units = {account: units_up(cost) for account, cost in costs.items()}
        line = {"what": "charge", "sequence": receipt.sequence, "digest": receipt.digest, "units": units}
        os.write(file, json.dumps(line).encode() + b"\n")

    try:
        ledger = kind.open(path)
        while not stop.exists():
            costs = random_costs(generator, ledger.remaining(), halvings=halvings)
            with suppress(BudgetExhausted):
                acknowledge(ledger.charge(costs, EVENT), costs)
    except LedgerError as error:
        os.write(file, json.dumps({"what": "error", "error": str(error)}).encode() + b"\n")


def wait_until(condition: Callable[[], bool], *, what: str) -> None:
    """Be patient with a busy machine, not for ever."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited too long until {what}"
        time.sleep(0.05)


def charge_under_fire(kind, folder: Path, *, seconds: float, kills: int, workers: int, until) -> int:
    """Keep `workers` processes charging, kill one at each of `kills` random moments, start it again."""
    generator = random.Random(kills)
    halvings = 3 if seconds < 10.0 else 7  # how slowly the budget is eaten
    files: list[Path] = []

    def begin():
        files.append(folder / f"{len(files)}.acknowledged")
        child = PROCESSES.Process(target=work, args=(kind, str(folder / "ledger.db"), str(files[-1]), halvings))
        child.start()
        return child

    children = [begin() for _ in range(workers)]
    wait_until(lambda: all(file.exists() for file in files), what="all workers run")
    start, killed = time.monotonic(), 0
    for moment in sorted(generator.uniform(0.0, seconds) for _ in range(kills)):
        time.sleep(max(0.0, start + moment - time.monotonic()))
        index = generator.randrange(workers)
        killed += children[index].is_alive()
        children[index].kill()
        children[index].join(PATIENCE)
        children[index] = begin()
    wait_until(until, what="enough was charged")
    (folder / "stop").touch()
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    return killed


def violations(ledgers, folder: Path) -> list[str]:
    """Everything that is wrong between the chain and what the workers acknowledged."""
    with ledgers.open(folder / "ledger.db") as ledger:
        ledger.verify()
        rows = {row.sequence: row for row in ledger.rows()}
        limit = units_down(ledger.budget.limit)
        spent = {account: units_up(amount) for account, amount in ledger.spent().items()}
    found = [f"{account} passed the budget" for account in ACCOUNTS if spent[account] > limit]
    seen, acknowledged = set(), Counter()
    for path in folder.glob("*.acknowledged"):
        for text in path.read_bytes().split(b"\n")[:-1]:  # a line without its end was not acknowledged
            line = json.loads(text)
            if line["what"] == "error":
                found.append(line["error"])
                continue
            acknowledged.update(line["units"])
            row = rows.get(line["sequence"])
            if row is None or row.digest != line["digest"]:
                found.append(f"row {line['sequence']} was acknowledged and is not there")
            elif row.units != line["units"] or row.sequence in seen:
                found.append(f"row {row.sequence} is not what was acknowledged")
            else:
                seen.add(row.sequence)
    found += [f"{account} is under-counted" for account in ACCOUNTS if acknowledged[account] > spent[account]]
    return found


@pytest.mark.parametrize(
    ("seconds", "kills"), [(5.0, 17), pytest.param(60.0, 200, marks=pytest.mark.slow)], ids=["short", "minute"]
)
def test_no_acknowledged_charge_is_missing_and_the_budget_holds_when_processes_are_killed(
    tmp_path, ledgers, seconds, kills
):
    with ledgers.new(tmp_path, limit=30.0, accounts=ACCOUNTS) as ledger:
        killed = charge_under_fire(
            ledgers,
            tmp_path,
            seconds=seconds,
            kills=kills,
            workers=8,
            # On a busy machine kills are over before much was charged: workers go on until it was enough.
            until=lambda: (
                max(ledger.spent().values()) > 0.9 * ledger.budget.limit and ledger.head().sequence > 10 * kills
            ),
        )
        assert ledger.head().sequence > 10 * kills
    assert killed == kills
    assert violations(ledgers, tmp_path) == []


def test_the_judge_catches_a_ledger_that_acknowledges_before_it_writes(tmp_path):
    SqliteLedgers().new(tmp_path, limit=1000.0, accounts=ACCOUNTS).close()

    def enough() -> bool:
        return sum(path.read_bytes().count(b"\n") for path in tmp_path.glob("*.acknowledged")) > 60

    charge_under_fire(Forgetful, tmp_path, seconds=1.0, kills=4, workers=3, until=enough)
    found = violations(SqliteLedgers(), tmp_path)
    assert any("not there" in line for line in found)
    assert any("under-counted" in line for line in found)
