"""A connection to PostgreSQL on which a commit means "on disk", and its errors in our words.

A server may be told to forget: `synchronous_commit` off acknowledges before the log is written, `fsync` off never
asks the disk, `full_page_writes` off can tear a page in a crash. The first is set for every transaction and read
back; the others are read in every transaction, since a reload can change them, and refused. With standbys,
`synchronous_commit` on waits for those that the server calls synchronous; a fail-over to one that is not is a
roll-back, which the witness sees.

A database may hang: stopped, out of memory, behind a dead network. Statements have a time-out on the server, and a
deadline on this side (`Deadline`) which closes the connection under a call that waits for too long: the server
rolls back when it comes to, and nothing is acknowledged.

Messages of the driver are not passed on: they can hold the connection string, or the row that was refused. What is
told is the name of the condition and its SQLSTATE. Needs psycopg 3, imported when a connection is made.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from reticent.core.errors import LedgerError
from reticent.core.extras import optional_imports
from reticent.ledger.chain import EDITED
from reticent.ledger.postgres.address import PostgresAddress

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS: Final = 10
SETTINGS: Final = (
    "current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')"
)
_LATER: Final = 0.5  # seconds after the wait for a lock that a statement is ended, and again that a connection is
_SYNCED: Final = ("on", "remote_apply")
# For this transaction alone, so that a pooler between us and the server cannot lose it.
_PREPARE: Final = """SELECT
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
    set_config('lock_timeout', %s, true),
    set_config('statement_timeout', %s, true),
    set_config('idle_in_transaction_session_timeout', %s, true)"""
_SERVER: Final = "nothing may be released until PostgreSQL is back; what was being charged may count as spent"
_HINTS: Final = {
    "53100": "free disk space on the server; nothing was charged",
    "53300": "the server has no connection left; raise max_connections or close others",
    "25006": "connect to the primary server, not to a standby",
    "28": "check user, password and pg_hba.conf",
    "3D": "create the database first",
    "3F": "restore the ledger's tables; never recreate them for a used run",
    "42P01": "restore the ledger's tables; never recreate them for a used run",
    "42501": "grant SELECT and INSERT on reticent.charges and SELECT and UPDATE on reticent.ledgers",
    "55P03": "another session held the ledger's row; look for it in pg_locks; nothing was charged",
    "25P03": "this process was stopped for too long in the middle of a charge; nothing was charged",
    "57": _SERVER,
    "08": _SERVER,
    "58": "look at the server's disk; what was being charged may count as spent",
}
_REASONS: Final = (
    "Connection refused",
    "No such file or directory",
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "could not translate host name",
    "timeout expired",
    "starting up",
    "shutting down",
    "does not exist",
    "too many clients",
    "SSL",
)


def driver() -> Any:
    """psycopg, or MissingExtra with the command that installs it."""
    with optional_imports("a ledger in PostgreSQL"):
        import psycopg
    return psycopg


def connect(address: PostgresAddress, *, timeout: float = CONNECT_SECONDS) -> "psycopg.Connection[Any]":
    """A new connection, each statement a transaction of its own unless one is begun."""
    psycopg = driver()
    try:
        connection = psycopg.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=None,  # a pooler may give each transaction another session
            connect_timeout=max(2, round(min(timeout, CONNECT_SECONDS))),  # libpq takes whole seconds, from 2 on
            application_name="reticent ledger",
            keepalives_idle=10,
            tcp_user_timeout=round(1000 * min(timeout, CONNECT_SECONDS)),
        )
    except psycopg.Error as error:
        raise _no_connection(address, error) from None  # the driver's message may hold the connection string
    return connection


class Deadline:
    """Closes a connection under whoever waits for its answer for longer than `seconds`."""

    def __init__(self, connection: "psycopg.Connection[Any]", seconds: float) -> None:
        # A descriptor of its own: the connection's number may belong to another file by the time it is needed.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._seconds = seconds + 2 * _LATER

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The time that a call may take."""
        timer = threading.Timer(self._seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the descriptor."""
        self._socket.close()


def begin(connection: "psycopg.Connection[Any]", *, timeout: float) -> None:
    """Begin a transaction whose commit is synced and which gives up its locks when it hangs."""
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    lock, statement = (str(max(1, round(1000 * seconds))) for seconds in (timeout, timeout + _LATER))
    connection.execute(_PREPARE, (lock, statement, lock))


def commit(connection: "psycopg.Connection[Any]", name: str) -> None:
    """Commit; LedgerError unless the server says without any warning that it did."""
    warnings: list[str] = []

    def listen(notice: Any) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(str(notice.sqlstate))

    connection.add_notice_handler(listen)
    try:
        told = connection.execute("COMMIT").statusmessage
    finally:
        connection.remove_notice_handler(listen)
    if told != "COMMIT" or warnings:  # such as a wait for a standby that was given up
        found = f"{told} with warning {', '.join(warnings)}" if warnings else told
        raise LedgerError(f"{name}: the charge was not committed as asked", found=found, hint=_SERVER)


def require_synced(settings: tuple[str, str, str], name: str) -> None:
    """Refuse a server that acknowledges before the disk has it; `settings` are what SETTINGS gave."""
    synchronous, fsync, pages = settings
    wrong = [
        f"{setting} = {value}"
        for setting, value, good in (
            ("synchronous_commit", synchronous, _SYNCED),
            ("fsync", fsync, ("on",)),
            ("full_page_writes", pages, ("on",)),
        )
        if value not in good
    ]
    if wrong:
        raise LedgerError(
            f"{name}: this server may lose charges that it has acknowledged",
            found=", ".join(wrong),
            expected="on",
            hint="set it to on in postgresql.conf and reload the server",
        )


@contextmanager
def ledger_errors(name: str) -> Iterator[None]:
    """Turn whatever the driver raises into a LedgerError that says what to do and shows no values."""
    psycopg = driver()
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        hint = next((hint for prefix, hint in _HINTS.items() if state.startswith(prefix)), EDITED)
        found = f"{type(error).__name__} ({state})" if state else f"{type(error).__name__} (no answer)"
        if not state and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            hint = _SERVER
        raise LedgerError(f"{name}: the ledger cannot be used", found=found, hint=hint) from None


def _no_connection(address: PostgresAddress, error: Exception) -> LedgerError:
    reason = next((reason for reason in _REASONS if reason in str(error)), type(error).__name__)
    return LedgerError(
        f"{address}: the ledger cannot be used: no connection",
        found=reason,
        hint="start PostgreSQL, or check host, port, database, user and password; nothing was charged",
    )
