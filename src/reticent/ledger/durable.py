"""The durable ledger: what was spent, on disk before anything is released, shared by all who charge it.

    lock → read what others appended → check the witness → refuse, or append and commit (synced) → witness → unlock

`DurableLedger` is that order, over any store (`ledger.store`). Rows are linked by digests (`ledger.chain`); a file
beside them is witness and lock of a machine in one (`ledger.witness`). Amounts are whole multiples of 2^-40, costs
rounded up (`fixed_point`). Every process decides by the totals of rows that it has checked itself.
`SqliteLedger` is a file, `ledger.db` with `ledger.db.head`, for the processes of one machine; `postgres.ledger` is
for several machines.

Refused with a LedgerError: a ledger that is missing, truncated, edited, of another version or identity, behind its
witness, replaced while open, or without a witness; one that cannot be written. When an error leaves it open whether
a charge reached the disk, nothing is acknowledged and the charge may count as spent.

Does not see: ledger *and* witness rolled back together, or rewritten together; a copy of both used elsewhere. Does
not know what an event costs: callers pass costs in the budget's measure. Needs POSIX; witness and SQLite file lie
on a local file system.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from reticent.core.errors import LedgerError, LedgerExists
from reticent.core.event import Event, event_to_json
from reticent.core.ledger import Budget, Decision, Receipt
from reticent.ledger.chain import EDITED, Chain, Header, Row, RowKind, canonical, cost_units
from reticent.ledger.fixed_point import amount_down, amount_up
from reticent.ledger.sqlite import SqliteStore
from reticent.ledger.store import Store
from reticent.ledger.witness import Witness

TIMEOUT = 30.0  # seconds to wait for other processes


class DurableLedger:
    """A `Ledger` over a store and a witness. Safe for threads; every process opens its own.

    Guarantee: `charge` returns only after the charge is on disk, and no sequence of charges, by any number of
    processes, crashes included, takes an account past the budget's limit. Rounding goes against the spender.
    """

    def __init__(self, store: Store, witness: Witness, *, identity: str | None, timeout: float) -> None:
        """Over an open store and its open witness, every row checked; closes both where that fails."""
        self._store = store
        self._witness = witness
        self._timeout = timeout
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._busy_since: float | None = None
        with ExitStack() as undo:
            undo.callback(store.close)
            undo.callback(witness.close)
            self._chain = Chain(header_of(store, identity=identity), name=store.name)
            # Witnesses first: they are written with the commit or after it, so rows read later are never behind.
            seen, remembered = witness.read(), store.remembered()
            catch_up(store, self._chain)
            self._check_witness(seen, remembered)
            undo.pop_all()

    @property
    def name(self) -> str:
        """The ledger, as messages call it."""
        return self._store.name

    @property
    def budget(self) -> Budget:
        """What was fixed when the ledger was created."""
        return self._chain.header.budget

    @property
    def busy_seconds(self) -> float:
        """How long the call that is under way has waited for the database or its lock; 0 where there is none.

        For whoever must answer while the thread that charges hangs: reads no lock.
        """
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """The time that `busy_seconds` counts; only under the lock."""
        was, self._busy_since = self._busy_since, time.monotonic()
        try:
            yield
        finally:
            self._busy_since = was

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts, fixed when the ledger was created."""
        return self._chain.header.accounts

    @property
    def identity(self) -> str:
        """What this ledger meters."""
        return self._chain.header.identity

    def charge(self, costs: Mapping[str, float], event: Event) -> Receipt:
        """Charge all accounts or none; on return it is durable. BudgetExhausted: nothing was spent."""
        return self._append(RowKind.CHARGE, lambda: (cost_units(costs), canonical(event_to_json(event))))

    def charge_decided(self, decide: Decision) -> Receipt:
        """Charge what `decide` makes of what is left, with all others held off meanwhile; on return it is durable.

        Guarantee: as for `charge`; and `decide` saw exactly what its own charge was taken from.
        """

        def made() -> tuple[Mapping[str, int], str]:
            costs, event = decide(self._left())
            return cost_units(costs), canonical(event_to_json(event))

        return self._append(RowKind.CHARGE, made)

    def spent(self) -> dict[str, float]:
        """What each account has spent, rounded up."""
        with self._current():
            return {account: amount_up(units) for account, units in self._chain.totals.items()}

    def remaining(self) -> dict[str, float]:
        """What each account may still spend, rounded down; other processes may be faster."""
        with self._current():
            return self._left()

    def _left(self) -> dict[str, float]:
        limit = self._chain.limit
        return {account: amount_down(limit - units) for account, units in self._chain.totals.items()}

    def head(self) -> Receipt:
        """The last place of the chain; place 0 where nothing was charged."""
        with self._current():
            return self._chain.head

    def holds(self, receipt: Receipt) -> bool:
        """Whether this very charge stands in the chain."""
        with self._current():
            root = self._chain.header.root
            return receipt == root or self._store.digest(receipt.sequence) == receipt.digest

    def rows(self) -> Iterator[Row]:
        """All rows, in order. For the operator: what was spent is private."""
        first = 1
        while True:
            with self._current():  # not inside another thread's transaction
                page = self._store.page(first)
            if not page:
                return
            yield from page
            first = page[-1].sequence + 1

    def export(self) -> Iterator[str]:
        """JSON lines for the operator: the header, then every row; `units` are multiples of 2^-40."""
        yield self._chain.header.text
        for row in self.rows():
            yield json.dumps(row.to_json())

    def verify(self) -> Receipt:
        """Check the whole file and every row from the first on, and the witness; the head if all holds."""
        with self._current():
            self._store.check_pages()
            seen, remembered = self._witness.read(), self._store.remembered()
            chain = Chain(header_of(self._store, identity=self.identity), name=self.name)
            catch_up(self._store, chain)
            self._chain = chain
            self._check_witness(seen, remembered)
            return chain.head

    def close(self) -> None:
        """Close the files; twice is harmless."""
        with self._lock:
            if os.getpid() == self._process:  # a forked child must leave its parent's connection alone
                self._store.close()
                self._witness.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, kind: RowKind, make: Callable[[], tuple[Mapping[str, int], str]]) -> Receipt:
        """The one way a row gets into the ledger. The order of these lines is the guarantee."""
        with self._held():
            with self._store.transaction():
                self._look()
                units, event = make()  # after the look at what others appended, before anybody else's
                self._chain.require_room(units)
                row = self._chain.next_row(kind, units, event=event)
                self._store.insert(row)
            self._chain.follow(row)
            self._witness.write(row.receipt)
            return row.receipt

    def require_writable(self) -> None:
        """LedgerError where a charge could not be written now. Goes the way of a charge and appends nothing."""
        with self._held():
            with self._store.transaction():
                self._look()
                self._store.touch()
            self._witness.write(self._chain.head)

    def record_reanchoring(self) -> Receipt:
        """Write into the chain that an operator accepted this history; see `reanchor`."""
        return self._append(RowKind.REANCHOR, lambda: ({}, "null"))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold off every thread and process of this machine that appends."""
        with self._lock, self._busy():
            self._require_own()
            with self._witness.locked(self._timeout):
                self._require_in_place()
                yield

    def _look(self) -> None:
        """Read what others appended and compare it with the witnesses. Only inside a transaction."""
        catch_up(self._store, self._chain)
        self._check_witness(self._witness.read(), self._store.remembered())

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Read what others appended, then hold still for this process's threads."""
        with self._lock:
            with self._busy():
                self._require_own()
                self._require_in_place()
                catch_up(self._store, self._chain)
            yield

    def _require_own(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError(
                f"{self.name}: this ledger was opened by another process", hint="open it after a fork"
            )

    def _require_in_place(self) -> None:
        if not (self._store.is_in_place() and self._witness.is_in_place()):
            raise LedgerError(f"{self.name}: the ledger was replaced or removed while it was open", hint=EDITED)

    def _check_witness(self, *seen: Receipt | None) -> None:
        """Refuse a chain that is behind what a witness saw, or that has another history."""
        head = self._chain.head
        for receipt in seen:
            if receipt is None:
                continue
            if receipt.sequence > head.sequence:
                raise LedgerError(
                    f"{self.name}: the ledger was rolled back",
                    found=f"{head.sequence} rows",
                    expected=f"at least {receipt.sequence}, as its witness saw",
                    hint=EDITED,
                )
            found = self._chain.header.root.digest if receipt.sequence == 0 else head.digest
            if 0 < receipt.sequence < head.sequence:  # a crash between a commit and its witness, or others charged
                found = self._store.digest(receipt.sequence) or ""
            if found != receipt.digest:
                what = f"{self.name}: the ledger is not the one its witness saw"
                raise LedgerError(what, found=f"another row {receipt.sequence}", hint=EDITED)


class SqliteLedger(DurableLedger):
    """The ledger of one machine, in an SQLite file."""

    @classmethod
    def create(
        cls, path: Path | str, budget: Budget, *, accounts: Iterable[str], identity: str = ""
    ) -> "SqliteLedger":
        """A new ledger; refused where one is, or was. `identity` names what it meters, such as an ensemble."""
        path = Path(path)
        header = Header.new(budget, accounts, identity=identity)
        if path.exists():
            raise LedgerExists(f"{path}: a ledger already exists here", hint="open it, or choose another path")
        with Witness.made(witness_path(path), header.root):
            SqliteStore.create(path, header.text)
        return cls.open(path, identity=identity)

    @classmethod
    def open(cls, path: Path | str, *, identity: str | None = None, timeout: float = TIMEOUT) -> "SqliteLedger":
        """An existing ledger, every row of it checked. `identity`, where given, must be that of its creation."""
        store = SqliteStore.open(Path(path), timeout=timeout)
        witness = witness_of(store, witness_path(Path(path)))
        return cls(store, witness, identity=identity, timeout=timeout)

    @property
    def path(self) -> Path:
        """The database file."""
        assert isinstance(self._store, SqliteStore)
        return self._store.path


def witness_path(path: Path) -> Path:
    """Where the witness of a ledger file stands."""
    return path.with_name(path.name + ".head")


def witness_of(store: Store, path: Path) -> Witness:
    """The witness of an open store; closes the store where it cannot be used."""
    try:
        return Witness.open(path)
    except BaseException:
        store.close()
        raise


def reanchor(path: Path | str, *, identity: str | None = None) -> Receipt:
    """Accept a ledger whose witness is missing, damaged or ahead: an operator's decision, recorded in the chain.

    Whatever was charged after the last row that is there is forgotten, so this is right only for someone who
    knows that nothing was released since. The rows themselves must be whole. Processes that have the ledger open
    are stopped by it.
    """
    path = Path(path)
    store = SqliteStore.open(path, timeout=TIMEOUT)
    witness_anew(store, witness_path(path), identity=identity)
    with SqliteLedger.open(path, identity=identity) as ledger:
        return ledger.record_reanchoring()


def witness_anew(store: Store, path: Path, *, identity: str | None) -> None:
    """Put a witness of the rows that are there in place of whatever was at `path`; closes the store."""
    try:
        chain = Chain(header_of(store, identity=identity), name=store.name)
        catch_up(store, chain)
    finally:
        store.close()
    path.unlink(missing_ok=True)
    Witness.create(path, chain.head)


def header_of(store: Store, *, identity: str | None) -> Header:
    """The header of a store; LedgerError if it is that of something else than `identity`, where given."""
    header = Header.from_text(store.header(), name=store.name)
    if identity is not None and header.identity != identity:
        what = f"{store.name}: this ledger belongs to something else"
        raise LedgerError(what, found=header.identity, expected=identity, hint="open the ledger of this run")
    return header


def catch_up(store: Store, chain: Chain) -> None:
    """Feed the chain what was stored since; its own head must still be there."""
    known = chain.head
    page = store.page(max(known.sequence, 1))
    if known.sequence > 0:
        if not page or page[0].receipt != known:
            raise LedgerError(f"{store.name}: the ledger was rolled back or edited while it was open", hint=EDITED)
        page = page[1:]
    while page:
        for row in page:
            chain.follow(row)
        page = store.page(chain.head.sequence + 1)
