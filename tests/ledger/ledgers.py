"""Small ledgers and child processes for the tests of the ledger."""

import hashlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reticent.core.event import FilteredCharge
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.ledger.durable import DurableLedger, SqliteLedger, reanchor, witness_path
from reticent.ledger.postgres.address import PostgresAddress
from reticent.ledger.postgres.ledger import PostgresLedger, reanchor_postgres
from tests.patience import PATIENCE
from tests.processes import PROCESSES

EVENT = FilteredCharge(2.0, 0.5)


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


class Ledgers(Protocol):
    """Ledgers of one kind, each by a path: the file itself, or what names one in the database."""

    def create(self, path: Path, limit: float, *, accounts: tuple[str, ...]) -> DurableLedger: ...

    def open(self, path: Path | str, *, identity: str | None = None, timeout: float = 30.0) -> DurableLedger: ...

    def reanchor(self, path: Path, *, identity: str | None = None): ...

    def edit(self, path: Path, *statements: str) -> None: ...

    def new(self, folder: Path, *, limit: float = 4.0, accounts: tuple[str, ...] = ("a", "b")) -> DurableLedger:
        return self.create(folder / "ledger.db", limit, accounts=accounts)

    def used(self, folder: Path) -> Path:
        """A closed ledger with five charges of 0.5 and 0.25."""
        with self.new(folder) as ledger:
            for _ in range(5):
                ledger.charge({"a": 0.5, "b": 0.25}, EVENT)
        return folder / "ledger.db"


@dataclass(frozen=True)
class SqliteLedgers(Ledgers):
    """In files."""

    def create(self, path, limit, *, accounts):
        return SqliteLedger.create(path, budget_of(limit), accounts=accounts, identity="ensemble 1")

    def open(self, path, *, identity=None, timeout=30.0):
        return SqliteLedger.open(path, identity=identity, timeout=timeout)

    def reanchor(self, path, *, identity=None):
        return reanchor(path, identity=identity)

    def edit(self, path, *statements):
        """Change a ledger the way someone with a database tool would: triggers put aside, then put back."""
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                connection.execute(statement)
            for _, sql in triggers:
                connection.execute(sql)


@dataclass(frozen=True)
class PostgresLedgers(Ledgers):
    """In one database; the path gives the name and the witness."""

    url: str

    def address(self, path: Path | str) -> PostgresAddress:
        name = hashlib.blake2b(str(path).encode(), digest_size=8).hexdigest()
        return PostgresAddress.parse(f"{self.url}#{name}")

    def create(self, path, limit, *, accounts):
        address, witness = self.address(path), witness_path(path)
        return PostgresLedger.create(
            address, budget_of(limit), accounts=accounts, witness=witness, identity="ensemble 1"
        )

    def open(self, path, *, identity=None, timeout=30.0):
        witness = witness_path(Path(path))
        return PostgresLedger.open(self.address(path), witness=witness, identity=identity, timeout=timeout)

    def reanchor(self, path, *, identity=None):
        return reanchor_postgres(self.address(path), witness=witness_path(path), identity=identity)

    def edit(self, path, *statements):
        """As the owner would: triggers off, views that show this ledger under the names of the SQLite tables."""
        import psycopg

        name, columns = self.address(path).ledger, "sequence, time, kind, costs, event, digest"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for table in ("charges", "ledgers"):
                connection.execute(f"ALTER TABLE reticent.{table} DISABLE TRIGGER USER")
            source = f"reticent.charges WHERE ledger = '{name}'"
            connection.execute(f"CREATE TEMP VIEW charges AS SELECT {columns} FROM {source}")
            source = f"reticent.ledgers WHERE name = '{name}'"
            connection.execute(f"CREATE TEMP VIEW header AS SELECT document, sequence, digest FROM {source}")
            try:
                for statement in statements:
                    connection.execute(statement)
            finally:
                for trigger in ("charges_stay", "charges_in_order"):
                    connection.execute(f"ALTER TABLE reticent.charges ENABLE ALWAYS TRIGGER {trigger}")
                for trigger in ("ledgers_stay", "headers_are_fixed"):
                    connection.execute(f"ALTER TABLE reticent.ledgers ENABLE ALWAYS TRIGGER {trigger}")


def in_child(function, *arguments):
    """What `function` puts into the queue that it gets as its last argument, run in a process of its own."""
    answers = PROCESSES.Queue()
    child = PROCESSES.Process(target=function, args=(*arguments, answers))
    child.start()
    answer = answers.get(timeout=PATIENCE)
    child.join(60)
    assert child.exitcode == 0
    return answer
