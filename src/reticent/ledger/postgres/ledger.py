"""The ledger of several machines, in PostgreSQL: servers that share one ensemble's budget.

The same order of things, chain and refusals as `durable.SqliteLedger`; rows are in a database
(`postgres.store`), and each machine keeps a witness file of its own, on its own disk. A database that is restored
from an older copy, or that failed over to a standby which was behind, is refused by every machine that had seen
more. Rows cut off the end are refused by all.

A machine that never used the ledger has no witness: it `join`s once, and trusts what it finds. Whoever lost a
witness looks just like that, so joining is a call of its own and opening without a witness is refused.

Does not see, beyond what `ledger` lists: a roll-back of the database by a machine that joins after it.
"""

from collections.abc import Iterable
from pathlib import Path

from reticent.core.errors import LedgerError
from reticent.core.ledger import Budget, Receipt
from reticent.ledger.chain import Header
from reticent.ledger.durable import TIMEOUT, DurableLedger, witness_anew, witness_of
from reticent.ledger.postgres.address import PostgresAddress
from reticent.ledger.postgres.store import PostgresStore
from reticent.ledger.witness import Witness


class PostgresLedger(DurableLedger):
    """A ledger in PostgreSQL with a witness on this machine; what it promises is what `DurableLedger` does."""

    @classmethod
    def create(
        cls, address: PostgresAddress, budget: Budget, *, accounts: Iterable[str], witness: Path, identity: str = ""
    ) -> "PostgresLedger":
        """A new ledger; refused where one is, or where this machine's witness says that one was."""
        header = Header.new(budget, accounts, identity=identity)
        with Witness.made(witness, header.root):
            PostgresStore.create(address, header.text, header.root.digest)
        return cls.open(address, witness=witness, identity=identity)

    @classmethod
    def open(
        cls, address: PostgresAddress, *, witness: Path, identity: str | None = None, timeout: float = TIMEOUT
    ) -> "PostgresLedger":
        """A ledger that this machine has used before, every row of it checked."""
        store = PostgresStore.open(address, timeout=timeout)
        return cls(store, witness_of(store, witness), identity=identity, timeout=timeout)

    @classmethod
    def join(
        cls, address: PostgresAddress, *, witness: Path, identity: str | None = None, timeout: float = TIMEOUT
    ) -> "PostgresLedger":
        """A ledger that this machine never used: its witness begins with what is there."""
        if witness.exists():
            raise LedgerError(f"{witness}: this machine has used the ledger before", hint="open it")
        witness_anew(PostgresStore.open(address, timeout=timeout), witness, identity=identity)
        return cls.open(address, witness=witness, identity=identity, timeout=timeout)


def reanchor_postgres(address: PostgresAddress, *, witness: Path, identity: str | None = None) -> Receipt:
    """Accept what the database holds, as `ledger.reanchor` does, on this machine; others decide for themselves."""
    witness_anew(PostgresStore.open(address, timeout=TIMEOUT), witness, identity=identity)
    with PostgresLedger.open(address, witness=witness, identity=identity) as ledger:
        return ledger.record_reanchoring()
