"""A ledger in memory, for experiments: the same refusals, nothing durable, so nothing may be released by it."""

from collections.abc import Iterable, Mapping

from reticent.core.errors import BudgetExhausted, LedgerError
from reticent.core.event import Event
from reticent.core.ledger import Budget, Decision, Receipt
from reticent.ledger.fixed_point import amount_down, amount_up, units_down, units_up


class MemoryLedger:
    """Counts like a `Ledger` and forgets with the process. Evaluations and tests charge it."""

    def __init__(self, budget: Budget, accounts: Iterable[str]) -> None:
        self._budget = budget
        self._limit = units_down(budget.limit)
        self._spent = dict.fromkeys(accounts, 0)
        self._charges = 0

    @property
    def budget(self) -> Budget:
        """What was fixed at the start."""
        return self._budget

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts."""
        return tuple(self._spent)

    def charge(self, costs: Mapping[str, float], event: Event) -> Receipt:  # noqa: ARG002
        """Charge all accounts or none; BudgetExhausted, with nothing spent, where one would pass its limit."""
        if not set(costs) <= set(self._spent):
            raise LedgerError("no such account in the ledger")
        try:
            after = {account: self._spent[account] + units_up(cost) for account, cost in costs.items()}
        except OverflowError:
            raise BudgetExhausted("an infinite cost exceeds every budget") from None
        if any(units > self._limit for units in after.values()):
            raise BudgetExhausted("the charge would exceed the budget")
        self._spent |= after
        self._charges += 1
        return Receipt(self._charges, "")

    def charge_decided(self, decide: Decision) -> Receipt:
        """Charge what `decide` makes of what is left."""
        return self.charge(*decide(self.remaining()))

    def spent(self) -> dict[str, float]:
        """What each account has spent, rounded up."""
        return {account: amount_up(units) for account, units in self._spent.items()}

    def remaining(self) -> dict[str, float]:
        """What each account may still spend, rounded down."""
        return {account: amount_down(self._limit - units) for account, units in self._spent.items()}

    def require_writable(self) -> None:
        """It can always be: nothing is on a disk."""

    def head(self) -> Receipt:
        """The last charge that was counted."""
        return Receipt(self._charges, "")

    def holds(self, receipt: Receipt) -> bool:
        """Whether that many charges were counted."""
        return receipt.sequence <= self._charges
