"""Which ledger a run's answers are charged to: `ledger.db` in the run, or one in PostgreSQL that servers share.

    LedgerPlace()                                      ledger.db, for the processes of one machine
    LedgerPlace("postgresql://…#name")                 a database; every server has its own copy of the run
    LedgerPlace("postgresql://…#name", joins=True)     the same, on a machine that uses it for the first time

Whichever it is, its witness is `ledger.db.head` in the run: one run, one witness, one ledger. So a run that was
answered from one ledger is refused with another, and a budget cannot be had twice by naming a second place. What
binds a ledger to its ensemble and settings is its identity (`ensemble.prediction.ledger_identity`).

Does not see that a run was copied before its first use and both copies were given ledgers of their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reticent.core.certificate import GUARANTEE
from reticent.core.errors import ConfigError, LedgerError
from reticent.core.ledger import Budget, Receipt
from reticent.ledger.durable import TIMEOUT, DurableLedger, witness_path
from reticent.ledger.location import create_ledger, join_ledger, open_ledger, reanchor_ledger
from reticent.ledger.postgres.address import PostgresAddress
from reticent.runs.directory import RunDirectory

# Files of which a run that has charged anything keeps one at least, even where its ledger was lost.
_TRACES: Final = (witness_path(Path("ledger.db")).name, GUARANTEE, "prediction.json")


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where a run's ledger is. `address` may hold a password and is never shown.

    `timeout` is how many seconds a call waits for the database and for other processes.
    """

    address: str | None = field(default=None, repr=False)
    joins: bool = False
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        if self.address is not None:
            PostgresAddress.parse(self.address)
        elif self.joins:
            raise ConfigError("there is nothing to join", hint="--join is for --ledger postgresql://…")

    def create(self, run: Path, budget: Budget, *, accounts: Iterable[str], identity: str) -> None:
        """A new ledger; refused where one is, or was. Somebody else's may be joined."""
        try:
            create_ledger(
                self._location(run), budget, accounts=accounts, identity=identity, witness=self._witness(run)
            ).close()
        except LedgerError as error:
            if self.address is None or "a ledger already exists here" not in error.what:
                raise
            raise LedgerError(error.what, hint="--join it, if another machine shares this budget") from None

    def join(self, run: Path, *, identity: str) -> None:
        """Begin to use a ledger that another machine made; refused where this run has used one."""
        join_ledger(self._location(run), identity=identity, witness=self._witness(run)).close()

    def open(self, run: Path, *, identity: str | None = None) -> DurableLedger:
        """The ledger, every row of it checked; LedgerError if it is not what it was."""
        location = self._location(run)
        if self.address is None and not Path(location).exists():
            if not any((run / name).exists() for name in _TRACES):
                raise LedgerError(
                    f"{run}: this run has no ledger",
                    hint="a private training run has one, and an ensemble has one from its first answer on",
                )
            if witness_path(Path(location)).exists():
                raise LedgerError(
                    f"{location}: the ledger is missing",
                    hint="restore it; where the budget is in PostgreSQL, give --ledger; never create it anew",
                )
        return open_ledger(location, identity=identity, witness=self._witness(run), timeout=self.timeout)

    def reanchor(self, run: Path) -> Receipt:
        """Accept the rows that are there in place of what the witness saw; see `ledger.reanchor`."""
        return reanchor_ledger(self._location(run), witness=self._witness(run))

    def _location(self, run: Path) -> Path | str:
        return RunDirectory.open(run).ledger if self.address is None else self.address

    def _witness(self, run: Path) -> Path | None:
        return None if self.address is None else witness_path(RunDirectory.open(run).ledger)
