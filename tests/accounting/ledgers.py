"""Small ledgers and child processes for the tests of the ledger."""

import multiprocessing
from pathlib import Path

from reticent.accounting.ledger import SqliteLedger
from reticent.core.event import FilteredCharge
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget

EVENT = FilteredCharge(2.0, 0.5)
# Children are forked from a fresh server: the parent's threads (torch) stay behind, and imports are done once.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "hypothesis", "reticent.accounting.ledger", "tests.accounting.ledgers"])


def budget_of(limit: float) -> Budget:
    promise = Guarantee(
        mechanism="SubMix-F",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.PART,
        neighbours=Neighbours.REPLACE,
        epsilon=limit,
        order=2.0,
        covers="all tokens of one ensemble",
    )
    return Budget("Rényi nats at order 2", limit, promise)


def new_ledger(folder: Path, *, limit: float = 4.0, accounts: tuple[str, ...] = ("a", "b")) -> SqliteLedger:
    return SqliteLedger.create(folder / "ledger.db", budget_of(limit), accounts=accounts, identity="ensemble 1")


def used_ledger(folder: Path) -> Path:
    """A closed ledger with five charges of 0.5 and 0.25."""
    with new_ledger(folder) as ledger:
        for _ in range(5):
            ledger.charge({"a": 0.5, "b": 0.25}, EVENT)
    return ledger.path


def in_child(function, *arguments):
    """What `function` puts into the queue that it gets as its last argument, run in a process of its own."""
    answers = PROCESSES.Queue()
    child = PROCESSES.Process(target=function, args=(*arguments, answers))
    child.start()
    answer = answers.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    return answer
