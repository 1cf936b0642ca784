"""Rows of a ledger in PostgreSQL, for servers on several machines that share one budget.

    reticent.ledgers    name, header, sequence and digest of the last row     one line a ledger; its lock
    reticent.charges    ledger, sequence, time, kind, costs, event, digest

Whoever appends holds the row lock of its ledger's line (SELECT … FOR UPDATE) from before the budget is looked at
until the commit, which returns once the write-ahead log is synced (`postgres.session`). The server drops the lock
when its holder's connection ends, and ends the connection of a holder that stops. A trigger moves the line on with
every row, so that rows cut off the end are missed by every machine, also by one whose witness never saw them.

Triggers refuse UPDATE, DELETE, TRUNCATE and rows out of order: against accidents, since a table's owner can drop
them; the chain is what finds an edit. A connection that broke is made again before the next operation, never in the
middle of one: after a lost answer to a commit, nothing is acknowledged and the row, if it is there, is read later.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from reticent.core.errors import LedgerError, LedgerExists
from reticent.core.ledger import Receipt
from reticent.ledger.chain import EDITED, Row
from reticent.ledger.postgres.address import PostgresAddress
from reticent.ledger.postgres.session import (
    SETTINGS,
    Deadline,
    begin,
    commit,
    connect,
    driver,
    ledger_errors,
    require_synced,
)

if TYPE_CHECKING:
    import psycopg

_PAGE: Final = 1000  # rows read at once
_COLUMNS: Final = "sequence, time, kind, costs, event, digest"
_SCHEMA_LOCK: Final = 0x72746C67  # "rtlg"; taken while tables are made
_REFUSE: Final = "BEGIN RAISE EXCEPTION 'a ledger is append-only'; END"
_FOLLOW: Final = """BEGIN
    UPDATE reticent.ledgers SET sequence = NEW.sequence, digest = NEW.digest
        WHERE name = NEW.ledger AND sequence = NEW.sequence - 1;
    IF NOT FOUND THEN RAISE EXCEPTION 'a ledger is append-only'; END IF;
    RETURN NEW;
END"""
_TABLES: Final = (
    "CREATE SCHEMA IF NOT EXISTS reticent",
    """CREATE TABLE reticent.ledgers (
        name text PRIMARY KEY, document text NOT NULL, sequence bigint NOT NULL, digest text NOT NULL)""",
    """CREATE TABLE reticent.charges (
        ledger text NOT NULL REFERENCES reticent.ledgers (name), sequence bigint NOT NULL, time text NOT NULL,
        kind text NOT NULL, costs text NOT NULL, event text NOT NULL, digest text NOT NULL,
        PRIMARY KEY (ledger, sequence))""",
    f"CREATE FUNCTION reticent.refuse() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSE}$$",
    f"CREATE FUNCTION reticent.follow() RETURNS trigger LANGUAGE plpgsql AS $${_FOLLOW}$$",
    """CREATE TRIGGER charges_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON reticent.charges
        FOR EACH STATEMENT EXECUTE FUNCTION reticent.refuse()""",
    """CREATE TRIGGER charges_in_order BEFORE INSERT ON reticent.charges
        FOR EACH ROW EXECUTE FUNCTION reticent.follow()""",
    """CREATE TRIGGER ledgers_stay BEFORE DELETE OR TRUNCATE ON reticent.ledgers
        FOR EACH STATEMENT EXECUTE FUNCTION reticent.refuse()""",
    """CREATE TRIGGER headers_are_fixed BEFORE UPDATE OF name, document ON reticent.ledgers
        FOR EACH STATEMENT EXECUTE FUNCTION reticent.refuse()""",
    # Also in sessions that apply a replication stream.
    "ALTER TABLE reticent.charges ENABLE ALWAYS TRIGGER charges_stay, ENABLE ALWAYS TRIGGER charges_in_order",
    "ALTER TABLE reticent.ledgers ENABLE ALWAYS TRIGGER ledgers_stay, ENABLE ALWAYS TRIGGER headers_are_fixed",
)
_SHAPE: Final = """
    SELECT 'table', relname::text, relpersistence::text, relkind::text, '' FROM pg_class
        WHERE oid IN ('reticent.ledgers'::regclass, 'reticent.charges'::regclass)
    UNION ALL SELECT 'column', attrelid::regclass::text, attname::text,
        format_type(atttypid, atttypmod), attnotnull::text FROM pg_attribute
        WHERE attrelid IN ('reticent.ledgers'::regclass, 'reticent.charges'::regclass)
            AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT 'trigger', tgname::text, tgenabled::text, tgtype::text || ' ' || tgattr::text, prosrc
        FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal
            AND tgrelid IN ('reticent.ledgers'::regclass, 'reticent.charges'::regclass)"""
# pg_trigger.tgtype: 1 row, 2 before, 4 insert, 8 delete, 16 update, 32 truncate; then the columns of UPDATE OF.
_EXPECTED: Final = frozenset(
    [("table", "ledgers", "p", "r", ""), ("table", "charges", "p", "r", "")]
    + [("column", "reticent.ledgers", name, "text", "true") for name in ("name", "document", "digest")]
    + [("column", "reticent.ledgers", "sequence", "bigint", "true")]
    + [
        ("column", "reticent.charges", name, "text", "true")
        for name in ("ledger", "time", "kind", "costs", "event", "digest")
    ]
    + [("column", "reticent.charges", "sequence", "bigint", "true")]
    + [("trigger", "charges_stay", "A", "58 ", _REFUSE), ("trigger", "charges_in_order", "A", "7 ", _FOLLOW)]
    + [("trigger", "ledgers_stay", "A", "42 ", _REFUSE), ("trigger", "headers_are_fixed", "A", "18 1 2", _REFUSE)]
)
# Tables of older versions have this column as well; it was never written.
_OLD_COLUMN: Final = ("column", "reticent.charges", "lease", "bigint", "false")


class PostgresStore:
    """The rows of one ledger in a database, over one connection that is made again when it breaks."""

    def __init__(self, address: PostgresAddress, connection: "psycopg.Connection[Any]", *, timeout: float) -> None:
        """Use `open`."""
        self.address = address
        self._connection = connection
        self._timeout = timeout
        self._deadline = Deadline(connection, timeout)
        self._is_inside = False
        self._document: str | None = None

    @classmethod
    def create(cls, address: PostgresAddress, header: str, root: str) -> None:
        """Write a ledger with a header and no rows, and the tables where there are none: whole or not at all."""
        connection = connect(address)
        with ledger_errors(address.shown), connection:  # commits, or rolls back and closes
            begin(connection, timeout=30.0)
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            if connection.execute("SELECT to_regclass('reticent.charges')").fetchone() == (None,):
                for statement in _TABLES:
                    connection.execute(statement)
            _check_shape(connection, address.shown)
            made = connection.execute(
                "INSERT INTO reticent.ledgers VALUES (%s, %s, 0, %s) ON CONFLICT DO NOTHING",
                (address.ledger, header, root),
            )
            if made.rowcount != 1:
                what = f"{address}: a ledger already exists here"
                raise LedgerExists(what, hint="open it, or choose another name after #")
            commit(connection, address.shown)

    @classmethod
    def open(cls, address: PostgresAddress, *, timeout: float) -> "PostgresStore":
        """An existing ledger; LedgerError if it is missing or its tables are not of this version."""
        store = cls(address, connect(address, timeout=timeout), timeout=timeout)
        try:
            store.check_pages()
            store._document = store.header()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def name(self) -> str:
        """Host, database and ledger: never user or password."""
        return self.address.shown

    def header(self) -> str:
        """The text of the header."""
        found = self._read("SELECT document FROM reticent.ledgers WHERE name = %s", self.address.ledger)
        if not found:
            raise _missing(self.name)
        return str(found[0][0])

    def page(self, first: int) -> list[Row]:
        """Rows from place `first` on, in order, a page of them; empty at the end."""
        query = f"""SELECT {_COLUMNS} FROM reticent.charges WHERE ledger = %s AND sequence >= %s
            ORDER BY sequence LIMIT {_PAGE}"""  # noqa: S608
        return [Row(*columns) for columns in self._read(query, self.address.ledger, first)]

    def digest(self, sequence: int) -> str | None:
        """The digest that stands at a place, or None."""
        query = "SELECT digest FROM reticent.charges WHERE ledger = %s AND sequence = %s"
        found = self._read(query, self.address.ledger, sequence)
        return str(found[0][0]) if found else None

    def remembered(self) -> Receipt | None:
        """The last row, as the ledger's own line has it."""
        found = self._read("SELECT sequence, digest FROM reticent.ledgers WHERE name = %s", self.address.ledger)
        if not found:
            raise _missing(self.name)
        return Receipt(int(found[0][0]), str(found[0][1]))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the ledger's row lock; commit durably at the end, or leave the database as it was."""
        with ledger_errors(self.name):
            try:
                self._lock()
                self._is_inside = True
                with self._deadline():
                    yield
                    commit(self._connection, self.name)
            except BaseException:
                self._abandon()
                raise
            finally:
                self._is_inside = False

    def insert(self, row: Row) -> None:
        """Append a row. Only inside `transaction`."""
        values = (row.sequence, row.time, row.kind, row.costs, row.event, row.digest)
        self._connection.execute(
            f"INSERT INTO reticent.charges (ledger, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)",  # noqa: S608
            (self.address.ledger, *values),
        )

    def touch(self) -> None:
        """Write what changes nothing, so that the commit needs the disk. Only inside `transaction`."""
        self._connection.execute("SELECT txid_current()")  # a transaction with a number is written down

    def check_pages(self) -> None:
        """Whether tables, triggers and the server's settings are what the ledger needs."""
        with ledger_errors(self.name):
            live = self._live()
            with self._deadline():
                _check_shape(live, self.name)
            fsync, pages = self._read("SELECT current_setting('fsync'), current_setting('full_page_writes')")[0]
        require_synced(("on", fsync, pages), self.name)  # commits are made synchronous one by one

    def is_in_place(self) -> bool:
        """Whether the ledger's header is the one that was opened."""
        return self._document is not None and self.header() == self._document

    def close(self) -> None:
        """Close the connection; twice is harmless."""
        self._connection.close()
        self._deadline.close()

    def _lock(self) -> None:
        """Begin, and wait for the ledger's line. Nothing is written yet, so a broken connection is made again."""
        query = f"SELECT document, {SETTINGS} FROM reticent.ledgers WHERE name = %s FOR UPDATE"  # noqa: S608
        for is_last in (False, True):
            try:
                live = self._live()
                with self._deadline():
                    begin(live, timeout=self._timeout)
                    found = live.execute(query, (self.address.ledger,)).fetchone()
                break
            except driver().OperationalError:
                if is_last or not self._connection.closed:
                    raise
        if found is None:
            raise _missing(self.name)
        if found[0] != self._document:
            raise LedgerError(f"{self.name}: the ledger was replaced or removed while it was open", hint=EDITED)
        require_synced((found[1], found[2], found[3]), self.name)

    def _abandon(self) -> None:
        with suppress(driver().Error), self._deadline():
            self._connection.execute("ROLLBACK")
            return
        self._connection.close()  # then the server rolls back

    def _live(self) -> "psycopg.Connection[Any]":
        if self._connection.closed:
            self._connection = connect(self.address, timeout=self._timeout)
            self._deadline.close()
            self._deadline = Deadline(self._connection, self._timeout)
        return self._connection

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query gives. Over a new connection where the old one broke, except in the middle of a charge."""
        with ledger_errors(self.name):
            if self._is_inside:  # the deadline of the charge holds
                return list(self._connection.execute(query, values))
            for is_last in (False, True):
                live = self._live()
                try:
                    with self._deadline():
                        return list(live.execute(query, values))
                except driver().OperationalError:
                    if is_last or not self._connection.closed:
                        raise
            raise AssertionError("unreachable")


def _check_shape(connection: "psycopg.Connection[Any]", name: str) -> None:
    """Refuse tables or triggers that are not what `create` makes, such as unlogged ones, which a crash empties."""
    if connection.execute("SELECT to_regclass('reticent.charges')").fetchone() == (None,):
        raise _missing(name)
    with connection.transaction():  # the names below are shown as they are written here
        connection.execute("SET LOCAL search_path = pg_catalog")
        found = {tuple(row) for row in connection.execute(_SHAPE)}
    if found - {_OLD_COLUMN} != _EXPECTED:
        raise LedgerError(f"{name}: the ledger's tables or triggers were changed", hint=EDITED)


def _missing(name: str) -> LedgerError:
    return LedgerError(f"{name}: the ledger is missing", hint="restore it; never recreate it for a used run")
