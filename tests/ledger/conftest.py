"""The stores that the ledger's tests run over."""

import shutil
from collections.abc import Iterator

import pytest

from tests.ledger.ledgers import Ledgers, PostgresLedgers, SqliteLedgers
from tests.ledger.postgres.server import PostgresServer, find_program


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL; whoever kills it starts it again."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'reticent[postgres]'")
    if find_program("postgres") is None or find_program("initdb") is None:
        pytest.skip("no PostgreSQL server is installed: apt install postgresql")
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def ledgers(request) -> Ledgers:
    """Ledgers in one store and in the other."""
    if request.param == "sqlite":
        return SqliteLedgers()
    return PostgresLedgers(request.getfixturevalue("postgres").url)
