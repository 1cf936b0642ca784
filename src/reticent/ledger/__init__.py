"""What was spent, durably: budgets, a chain of charges, its witness, SQLite and PostgreSQL."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.ledger.durable import SqliteLedger as SqliteLedger

_PLACES = names_by_module(
    __name__,
    {
        "durable": "SqliteLedger",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
