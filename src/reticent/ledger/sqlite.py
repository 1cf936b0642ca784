"""Rows of a ledger in one SQLite file: write-ahead log, synchronous FULL, a transaction a row, never an update.

A commit returns once the log is synced. Triggers refuse UPDATE, DELETE and rows out of order: against accidents,
since whoever can write the file can drop them; the chain is what finds an edit. Everything that goes wrong in
SQLite (disk full, read-only, busy, not a database) is a LedgerError, and what was not committed did not happen.

Knows nothing of budgets. Callers serialise appends by the witness's lock, so a commit and a checkpoint of two
processes never overlap: before SQLite 3.51.3 that race could corrupt a database (sqlite.org/wal.html#walresetbug).
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reticent.core.document import sync
from reticent.core.errors import LedgerError, LedgerExists
from reticent.core.ledger import Receipt
from reticent.ledger.chain import EDITED, SCHEMA_VERSION, Row

_APPLICATION_ID = 0x72746C67  # "rtlg"
_PAGE = 1000  # rows read at once
_COLUMNS = "sequence, time, kind, costs, event, digest"
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
_CHARGES = """CREATE TABLE charges (
        sequence INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, costs TEXT NOT NULL,
        event TEXT NOT NULL, digest TEXT NOT NULL)"""
# The table of older versions has one column more, which was never written.
_OLD_CHARGES = _CHARGES.replace("digest TEXT", "lease INTEGER, digest TEXT")
_SCHEMA = (
    "CREATE TABLE header (document TEXT NOT NULL)",
    _CHARGES,
    f"CREATE TRIGGER one_header BEFORE INSERT ON header WHEN EXISTS (SELECT * FROM header) {_REFUSE}",  # noqa: S608
    f"CREATE TRIGGER header_is_fixed BEFORE UPDATE ON header {_REFUSE}",
    f"CREATE TRIGGER header_stays BEFORE DELETE ON header {_REFUSE}",
    f"""CREATE TRIGGER charges_in_order BEFORE INSERT ON charges
        WHEN NEW.sequence <> 1 + (SELECT coalesce(max(sequence), 0) FROM charges) {_REFUSE}""",  # noqa: S608
    f"CREATE TRIGGER charges_are_fixed BEFORE UPDATE ON charges {_REFUSE}",
    f"CREATE TRIGGER charges_stay BEFORE DELETE ON charges {_REFUSE}",
)
_HINTS = {
    "SQLITE_FULL": "free disk space; nothing was charged",
    "SQLITE_READONLY": "make the file and its folder writable; nothing was charged",
    "SQLITE_BUSY": "another program holds the database; close it; nothing was charged",
    "SQLITE_IOERR": "look at the disk and its limits; what was being charged may count as spent",
    "SQLITE_CANTOPEN": "make the file and its folder readable and writable",
}


class SqliteStore:
    """The open database of one ledger."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.name = str(path)  # as messages call it
        self._connection = connection
        self._watched = _files_of(path)[:2]  # database and write-ahead log
        self._seen: dict[Path, tuple[int, int]] = {}  # inode, size
        if not self.is_in_place():
            raise LedgerError(f"{path}: the ledger was replaced or removed while it was opened", hint=EDITED)

    @classmethod
    def create(cls, path: Path, header: str) -> None:
        """Write a database with a header and no rows. It appears under its name complete, or not at all."""
        for leftover in _files_of(path):
            if leftover.exists():
                raise LedgerExists(
                    f"{leftover}: a ledger already exists here", hint="open it, or choose another path"
                )
        draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
        try:
            os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # the spend is the operator's
            with _ledger_errors(path):
                _write_draft(draft, header)
            os.link(draft, path)  # unlike a rename, never replaces a file
            sync(path.parent)
        except OSError as error:
            raise LedgerError(f"{path}: the ledger cannot be created", found=error.strerror) from error
        finally:
            for leftover in _files_of(draft):
                leftover.unlink(missing_ok=True)

    @classmethod
    def open(cls, path: Path, *, timeout: float) -> "SqliteStore":
        """An existing database; LedgerError if it is missing or not a ledger of this version."""
        if not path.is_file():
            raise LedgerError(f"{path}: the ledger is missing", hint="restore it; never recreate it for a used run")
        with _ledger_errors(path):
            address = path.resolve().as_uri() + "?mode=rw"
            connection = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False
            )
            try:
                _check_format(path, connection)
                connection.execute("PRAGMA synchronous=FULL")
                return cls(path, connection)
            except BaseException:
                connection.close()
                raise

    def header(self) -> str:
        """The text of the header."""
        with _ledger_errors(self.path):
            found = self._connection.execute("SELECT document FROM header").fetchall()
        if len(found) != 1:
            raise LedgerError(f"{self.path}: a ledger needs one header", found=len(found), hint=EDITED)
        return str(found[0][0])

    def page(self, first: int) -> list[Row]:
        """Rows from place `first` on, in order, a page of them; empty at the end."""
        query = f"SELECT {_COLUMNS} FROM charges WHERE sequence >= ? ORDER BY sequence LIMIT {_PAGE}"  # noqa: S608
        with _ledger_errors(self.path):
            return [Row(*columns) for columns in self._connection.execute(query, (first,))]

    def digest(self, sequence: int) -> str | None:
        """The digest that stands at a place, or None."""
        with _ledger_errors(self.path):
            query = "SELECT digest FROM charges WHERE sequence = ?"
            found = self._connection.execute(query, (sequence,)).fetchone()
        return None if found is None else str(found[0])

    def remembered(self) -> Receipt | None:
        """Nothing beside the rows: the witness is a file of its own."""
        return None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Exclude other writers; commit durably at the end, or leave the database as it was."""
        with _ledger_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
                if not self.is_in_place():  # also takes down how long the files are now
                    raise LedgerError(
                        f"{self.path}: the ledger was replaced or truncated during a charge", hint=EDITED
                    )
            except BaseException:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                raise

    def insert(self, row: Row) -> None:
        """Append a row. Only inside `transaction`."""
        values = (row.sequence, row.time, row.kind, row.costs, row.event, row.digest)
        self._connection.execute(f"INSERT INTO charges ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", values)  # noqa: S608

    def touch(self) -> None:
        """Write what changes nothing, so that the commit needs the disk. Only inside `transaction`."""
        self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def check_pages(self) -> None:
        """Let SQLite check every page of the file."""
        with _ledger_errors(self.path):
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise LedgerError(f"{self.path}: the database is damaged", found=found, hint=EDITED)

    def is_in_place(self) -> bool:
        """Whether database and write-ahead log are the files that are open, and none of them became shorter.

        SQLite holds them open and reads what it has cached: a file that was deleted, replaced or cut off under it
        would be noticed at the next start, when charges are gone. Neither shrinks while anybody has it open.
        """
        for path in self._watched:
            try:
                status = path.stat()
            except OSError:
                return False
            inode, size = self._seen.get(path, (status.st_ino, 0))
            if status.st_ino != inode or status.st_size < size:
                return False
            self._seen[path] = (inode, status.st_size)
        return True

    def close(self) -> None:
        """Close the connection; twice is harmless."""
        with _ledger_errors(self.path):
            self._connection.close()


def _files_of(path: Path) -> list[Path]:
    """The database, its write-ahead log, and what else SQLite may put beside it."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]


def _write_draft(draft: Path, header: str) -> None:
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("BEGIN")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO header VALUES (?)", (header,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")  # stays with the file
    finally:
        connection.close()


def _check_format(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse what is not a ledger of this version: other program, other version, tables or triggers changed."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise LedgerError(f"{path}: this is not a ledger, or it lost its beginning", hint=EDITED)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        hint = "use the version of reticent that created it"
        raise LedgerError(f"{path}: unknown schema version", found=version, expected=str(SCHEMA_VERSION), hint=hint)
    statements = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if {_CHARGES if sql == _OLD_CHARGES else sql for sql in statements} != set(_SCHEMA):
        raise LedgerError(f"{path}: the ledger's tables or triggers were changed", hint=EDITED)
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    if mode != "wal":
        raise LedgerError(f"{path}: the ledger left its write-ahead log", found=mode, expected="wal", hint=EDITED)


@contextmanager
def _ledger_errors(path: Path) -> Iterator[None]:
    """Turn whatever SQLite raises into a LedgerError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        hint = next((hint for prefix, hint in _HINTS.items() if name.startswith(prefix)), EDITED)
        raise LedgerError(f"{path}: the ledger cannot be used", found=f"{name} ({error})", hint=hint) from error
    except UnicodeDecodeError:
        raise LedgerError(
            f"{path}: the ledger cannot be used", found="text that is not UTF-8", hint=EDITED
        ) from None
