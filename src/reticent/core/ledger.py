"""What may be spent, and the protocol of what keeps count of it.

A ledger meters one additive quantity (steps of a plan, Rényi nats at one order) on named accounts, the parts of an
ensemble or the single account of a training run. Additivity is the proof's business: `Budget.guarantee`
says what is proved if spending stays within the limit.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reticent.core.document import JsonObject, called, fields_from_json
from reticent.core.event import Event
from reticent.core.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Budget(JsonObject):
    """The most that each account may spend, in `measure` ("steps", "Rényi nats at order 2")."""

    measure: str
    limit: float
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not 0.0 < self.limit < math.inf:
            raise ValueError(f"a budget needs a positive, finite limit, found {self.limit}")

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Budget":
        """The budget that `to_json` wrote."""
        return fields_from_json(cls, document, ignores_others=True)


@dataclass(frozen=True, slots=True)
class Receipt(JsonObject):
    """A durable charge: its place in the chain. It exists only once the charge is on disk."""

    sequence: int = field(metadata=called("rows"))
    digest: str


Decision = Callable[[Mapping[str, float]], tuple[Mapping[str, float], Event]]


class Ledger(Protocol):
    """Durable, append-only charges that can never pass the budget."""

    @property
    def budget(self) -> Budget:
        """What was fixed when the ledger was created."""
        ...

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts, fixed when the ledger was created."""
        ...

    def charge(self, costs: Mapping[str, float], event: Event) -> Receipt:
        """Charge all accounts or none. Raises BudgetExhausted, with nothing spent, if any would pass its limit.

        On return the charge is durable: only then may anything be released.
        """
        ...

    def spent(self) -> dict[str, float]:
        """What each account has spent, rounded up."""
        ...

    def remaining(self) -> dict[str, float]:
        """What each account may still spend, rounded down: a charge of exactly that is accepted."""
        ...

    def head(self) -> Receipt:
        """The last place of the chain; place 0 where nothing was charged."""
        ...

    def holds(self, receipt: Receipt) -> bool:
        """Whether this very charge stands in the chain: what a checkpoint checks before it goes on."""
        ...


class DecidingLedger(Ledger, Protocol):
    """A ledger that can hold everybody else off while a cost is decided by what is left."""

    def charge_decided(self, decide: Decision) -> Receipt:
        """Charge what `decide` makes of the remaining amounts; nobody charges between its look and its charge.

        A cost that depends on what is left must be decided so. To decide first and try again when another process
        was faster would let one account's spending, which is private, change what is released from the others.
        """
        ...

    def require_writable(self) -> None:
        """LedgerError where a charge could not be written now."""
        ...
