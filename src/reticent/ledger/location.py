"""Ledgers by where they are: a path is an SQLite file, `postgresql://…` a ledger that several machines share.

    create_ledger(location, budget, accounts=…)    open_ledger(location)
    join_ledger(location)                           reanchor_ledger(location)

A ledger in PostgreSQL needs `witness`, a file on this machine's own disk; an SQLite file has its witness beside it.
Credentials in a location are never shown (`postgres.address`): print `ledger.name`, never the location.
"""

from collections.abc import Iterable
from pathlib import Path

from reticent.core.errors import ConfigError
from reticent.core.ledger import Budget, Receipt
from reticent.ledger.durable import TIMEOUT, DurableLedger, SqliteLedger, reanchor
from reticent.ledger.postgres.address import PostgresAddress, is_postgres
from reticent.ledger.postgres.ledger import PostgresLedger, reanchor_postgres

Location = Path | str


def create_ledger(
    location: Location,
    budget: Budget,
    *,
    accounts: Iterable[str],
    identity: str = "",
    witness: Path | None = None,
) -> DurableLedger:
    """A new ledger; refused where one is, or was."""
    if not is_postgres(location):
        _refuse_witness(witness)
        return SqliteLedger.create(location, budget, accounts=accounts, identity=identity)
    address, file = _address(location, witness)
    return PostgresLedger.create(address, budget, accounts=accounts, witness=file, identity=identity)


def open_ledger(
    location: Location, *, identity: str | None = None, witness: Path | None = None, timeout: float = TIMEOUT
) -> DurableLedger:
    """An existing ledger, every row of it checked; `identity`, where given, must be that of its creation."""
    if not is_postgres(location):
        _refuse_witness(witness)
        return SqliteLedger.open(location, identity=identity, timeout=timeout)
    address, file = _address(location, witness)
    return PostgresLedger.open(address, witness=file, identity=identity, timeout=timeout)


def join_ledger(
    location: Location, *, identity: str | None = None, witness: Path | None = None, timeout: float = TIMEOUT
) -> DurableLedger:
    """A ledger in PostgreSQL that this machine never used before; from then on it is opened."""
    if not is_postgres(location):
        raise ConfigError(
            "a ledger in a file belongs to one machine", found="a path", expected="postgresql://…", hint="open it"
        )
    address, file = _address(location, witness)
    return PostgresLedger.join(address, witness=file, identity=identity, timeout=timeout)


def reanchor_ledger(location: Location, *, witness: Path | None = None) -> Receipt:
    """Accept the rows that are there, with a new witness: an operator's decision, recorded as the last row."""
    if not is_postgres(location):
        _refuse_witness(witness)
        return reanchor(location)
    address, file = _address(location, witness)
    return reanchor_postgres(address, witness=file)


def _address(location: Location, witness: Path | None) -> tuple[PostgresAddress, Path]:
    address = PostgresAddress.parse(str(location))
    if witness is None:
        raise ConfigError(
            f"{address}: a ledger in PostgreSQL needs a witness on this machine",
            hint="name a file on a local disk that is not restored together with the database",
        )
    return address, witness


def _refuse_witness(witness: Path | None) -> None:
    if witness is not None:
        raise ConfigError("the witness of a ledger file stands beside it", found=str(witness), expected="none")
