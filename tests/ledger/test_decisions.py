"""A charge that is decided by what is left: nobody charges between the look and the charge, in either store."""

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from reticent.core.errors import BudgetExhausted, LedgerError
from reticent.ledger.durable import DurableLedger
from reticent.ledger.fixed_point import amount_down, units_down, units_up
from reticent.ledger.postgres.ledger import PostgresLedger
from tests.ledger.ledgers import EVENT, Ledgers, PostgresLedgers
from tests.processes import PROCESSES

LIMIT = 4.0
PROCESSES_AT_ONCE = 3
CHARGES = 12  # a process
SHARE = 16  # so small that a charge decided long ago still fits


def share(left):
    """Part of what is left, after a while in which others could charge."""
    time.sleep(0.002)
    return {account: amount / SHARE for account, amount in left.items()}, EVENT


def decided(ledger: DurableLedger) -> None:
    ledger.charge_decided(share)


def decided_before(ledger: DurableLedger) -> None:
    """Broken twin: looks, decides, and charges afterwards what it decided."""
    ledger.charge(*share(ledger.remaining()))


@dataclass(frozen=True)
class Machines:
    """Every process is a machine of its own: no lock but the database's."""

    ledgers: PostgresLedgers

    def open(self, path: str) -> PostgresLedger:
        witness = Path(path).with_name(f"{time.monotonic_ns()}-{threading.get_native_id()}.head")
        return PostgresLedger.join(self.ledgers.address(path), witness=witness)


def work(kind, path: str, charge, barrier) -> None:
    with kind.open(path) as ledger:
        barrier.wait(60)
        for _ in range(CHARGES):
            charge(ledger)


def charged_at_once(kind, path: Path, charge) -> None:
    barrier = PROCESSES.Barrier(PROCESSES_AT_ONCE)
    children = [
        PROCESSES.Process(target=work, args=(kind, str(path), charge, barrier)) for _ in range(PROCESSES_AT_ONCE)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0


def stale_rows(ledger: DurableLedger) -> int:
    """Rows that were not decided by exactly what the rows before them left."""
    limit, totals, stale = units_down(LIMIT), dict.fromkeys(ledger.accounts, 0), 0
    for row in ledger.rows():
        left = {account: amount_down(limit - units) for account, units in totals.items()}
        stale += row.units != {account: units_up(amount / SHARE) for account, amount in left.items()}
        for account, units in row.units.items():
            totals[account] += units
    return stale


def kinds(ledgers: Ledgers) -> list:
    return [ledgers, Machines(ledgers)] if isinstance(ledgers, PostgresLedgers) else [ledgers]


@pytest.mark.parametrize(("charge", "is_right"), [(decided, True), (decided_before, False)], ids=["right", "twin"])
def test_processes_that_decide_at_once_each_see_what_the_charge_before_left(tmp_path, ledgers, charge, is_right):
    for number, kind in enumerate(kinds(ledgers)):
        folder = tmp_path / str(number)
        folder.mkdir()
        ledgers.new(folder, limit=LIMIT).close()
        charged_at_once(kind, folder / "ledger.db", charge)
        with ledgers.open(folder / "ledger.db") as ledger:
            ledger.verify()
            assert ledger.head().sequence == PROCESSES_AT_ONCE * CHARGES
            assert (stale_rows(ledger) == 0) is is_right


@pytest.mark.parametrize("error", [BudgetExhausted("too much"), LedgerError("no"), RuntimeError("a bug")])
def test_a_decision_that_fails_charges_nothing_and_lets_others_go_on(tmp_path, ledgers, error):
    with ledgers.new(tmp_path) as ledger:

        def fails(left):
            raise error

        with pytest.raises(type(error)):
            ledger.charge_decided(fails)
        with pytest.raises(BudgetExhausted):
            ledger.charge_decided(lambda left: ({"a": 2 * left["a"]}, EVENT))
        assert ledger.head().sequence == 0
        ledger.charge_decided(lambda left: (left, EVENT))
        assert max(ledger.remaining().values()) == 0.0
