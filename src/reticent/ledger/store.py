"""What a ledger asks of the database that keeps its rows: one protocol for `ledger.sqlite` and `postgres.store`.

A store keeps texts and knows nothing of budgets, digests or witnesses: those are `ledger.chain`, `ledger.witness`
and `ledger.durable`, the same code over every store. What it promises is storage: a transaction excludes every
other writer of this ledger, and its commit is durable when it returns. Whatever goes wrong in the database is a
LedgerError; what was not committed did not happen, and a commit whose answer was lost may have happened.
"""

from contextlib import AbstractContextManager
from typing import Protocol

from reticent.core.ledger import Receipt
from reticent.ledger.chain import Row


class Store(Protocol):
    """The open database of one ledger."""

    @property
    def name(self) -> str:
        """What messages call it: never with credentials."""
        ...

    def header(self) -> str:
        """The text of the header."""
        ...

    def page(self, first: int) -> list[Row]:
        """Rows from place `first` on, in order, a page of them; empty at the end."""
        ...

    def digest(self, sequence: int) -> str | None:
        """The digest that stands at a place, or None."""
        ...

    def remembered(self) -> Receipt | None:
        """The furthest place that the database remembers apart from its rows; None where it remembers none."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Exclude other writers; commit durably at the end, or leave the database as it was."""
        ...

    def insert(self, row: Row) -> None:
        """Append a row. Only inside `transaction`."""
        ...

    def touch(self) -> None:
        """Write what changes nothing, so that the commit needs the disk. Only inside `transaction`."""
        ...

    def check_pages(self) -> None:
        """Let the database check itself as far as it can."""
        ...

    def is_in_place(self) -> bool:
        """Whether this is still the database that was opened."""
        ...

    def close(self) -> None:
        """Let go of the database; twice is harmless."""
        ...
