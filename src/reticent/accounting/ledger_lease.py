"""A block of budget taken ahead, durably, and handed out in pieces without touching the disk.

The whole block is charged before the first piece is handed out, so a crash loses what was left of it: over-counted,
never under-counted. A clean close writes what was not used back as a `return` row. That is safe because

- only the holder can hand out pieces: a fork is refused, threads share one lock;
- the lease is closed before the return is written, so nothing more can be drawn from it;
- the row names its lease, and the chain accepts one return a lease, of at most what was leased;
- totals follow from stored rows alone, so the returned part can be spent again only once the row is durable.

A return that fails is not tried again: the rest stays spent. Pieces are not recorded one by one; the ledger shows
the lease and its return. Does not survive being copied: a virtual machine that is restored to an earlier moment of
the same lease hands its pieces out twice.
"""

import os
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from reticent.accounting.fixed_point import amount_down
from reticent.accounting.ledger_chain import cost_units
from reticent.core.errors import BudgetExhausted, LedgerError
from reticent.core.event import Event
from reticent.core.ledger import Receipt

GiveBack = Callable[[int, Mapping[str, int]], object]


class Lease:
    """A durable block of charges, held by one process. Use as a context manager."""

    def __init__(self, receipt: Receipt, units: Mapping[str, int], *, give_back: GiveBack) -> None:
        self.receipt = receipt
        self._rest = dict(units)
        self._give_back = give_back
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_open = True

    def charge(self, costs: Mapping[str, float], event: Event) -> Receipt:  # noqa: ARG002
        """Take a piece for all accounts or none; the receipt is that of the lease, already on disk.

        Raises BudgetExhausted, with nothing taken, where the lease holds too little: close it and charge the
        ledger, or lease again. `event` is there so that a lease can stand where a ledger does; it is not stored.

        Guarantee: the pieces of a lease never sum to more than was charged for it.
        """
        units = cost_units(costs)
        with self._lock:
            self._require_open()
            rest = self._after(units)
            if rest is None:
                raise BudgetExhausted("the charge would pass what is left of the lease")
            self._rest = rest
        return self.receipt

    def covers(self, costs: Mapping[str, float]) -> bool:
        """Whether a charge of these costs would fit into what is left."""
        with self._lock:
            return self._is_open and self._after(cost_units(costs)) is not None

    def remaining(self) -> dict[str, float]:
        """What is left on each leased account, rounded down."""
        with self._lock:
            return {account: amount_down(units) for account, units in self._rest.items()}

    def close(self) -> None:
        """Give back what was not used; twice is harmless. LedgerError if that fails: then it stays spent."""
        with self._lock:
            if not self._is_open:
                return
            self._require_open()
            self._is_open = False
            rest = {account: -units for account, units in self._rest.items() if units}
            self._rest = dict.fromkeys(self._rest, 0)
        if rest:
            self._give_back(self.receipt.sequence, rest)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _after(self, units: Mapping[str, int]) -> dict[str, int] | None:
        """What would be left, or None where that is below zero on any account."""
        rest = dict(self._rest)
        for account, cost in units.items():
            if account not in rest:
                raise LedgerError("the lease has no such account", found=account)
            rest[account] -= cost
        return None if min(rest.values()) < 0 else rest

    def _require_open(self) -> None:
        if os.getpid() != self._process:
            raise LedgerError("a lease belongs to the process that took it", hint="lease anew in each process")
        if not self._is_open:
            raise LedgerError("the lease is closed", hint="lease anew")
