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

from reticent.core.errors import ConfigError, LedgerError, LedgerExists
from reticent.core.evidence.certificate import GUARANTEE
from reticent.core.ledger import Budget, Receipt
from reticent.ledger.durable import TIMEOUT, DurableLedger, SqliteLedger, reanchor, witness_path
from reticent.ledger.postgres.address import PostgresAddress
from reticent.ledger.postgres.ledger import PostgresLedger, reanchor_postgres
from reticent.runs.directory import LEDGER, PREDICTION, RunDirectory

# Files of which a run that has charged anything keeps one at least, even where its ledger was lost.
_TRACES: Final = (witness_path(Path(LEDGER)).name, GUARANTEE, PREDICTION)


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
        file = RunDirectory.open(run).ledger
        if self.address is None:
            SqliteLedger.create(file, budget, accounts=accounts, identity=identity).close()
            return
        address, witness = PostgresAddress.parse(self.address), witness_path(file)
        try:
            PostgresLedger.create(address, budget, accounts=accounts, witness=witness, identity=identity).close()
        except LedgerExists as error:
            raise LedgerExists(error.what, hint="--join it, if another machine shares this budget") from None

    def join(self, run: Path, *, identity: str) -> None:
        """Begin to use a ledger that another machine made; refused where this run has used one."""
        assert self.address is not None  # without one there is nothing to join
        witness = witness_path(RunDirectory.open(run).ledger)
        PostgresLedger.join(PostgresAddress.parse(self.address), witness=witness, identity=identity).close()

    def open(self, run: Path, *, identity: str | None = None) -> DurableLedger:
        """The ledger, every row of it checked; LedgerError if it is not what it was."""
        file = RunDirectory.open(run).ledger
        if self.address is not None:
            address, witness = PostgresAddress.parse(self.address), witness_path(file)
            return PostgresLedger.open(address, witness=witness, identity=identity, timeout=self.timeout)
        if not file.exists():
            if not any((run / name).exists() for name in _TRACES):
                raise LedgerError(
                    f"{run}: this run has no ledger",
                    hint="a private training run has one, and an ensemble has one from its first answer on",
                )
            if witness_path(file).exists():
                raise LedgerError(
                    f"{file}: the ledger is missing",
                    hint="restore it; where the budget is in PostgreSQL, give --ledger; never create it anew",
                )
        return SqliteLedger.open(file, identity=identity, timeout=self.timeout)

    def reanchor(self, run: Path) -> Receipt:
        """Accept the rows that are there in place of what the witness saw; see `ledger.reanchor`."""
        file = RunDirectory.open(run).ledger
        if self.address is None:
            return reanchor(file)
        return reanchor_postgres(PostgresAddress.parse(self.address), witness=witness_path(file))
