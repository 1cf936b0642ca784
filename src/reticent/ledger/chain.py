"""The ledger's rules without its storage: rows linked by digests, and the totals that follow from them.

    digest_0 = H(header),   digest_n = H(digest_{n−1}, sequence, time, kind, costs, event, ""),   H = BLAKE2b-256

A `Chain` is the state after some rows. Whoever stores rows, in whichever database, feeds every one of them to
`follow`, which checks it; budget decisions (`require_room`) rest on totals of checked rows alone, never on a sum
that someone stored. The header holds budget, accounts, identity and a random id, so rows of one ledger never fit
another, and an edited limit breaks the chain at its root.

Does not protect against someone who can rewrite all rows *and* the witness: the chain has no key, since whoever may
write the ledger could as a rule read the key as well.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from reticent.core.document import MALFORMED
from reticent.core.errors import BudgetExhausted, ConfigError, LedgerError
from reticent.core.ledger import Budget, Receipt
from reticent.ledger.fixed_point import units_down, units_up

SCHEMA_VERSION = 1
EDITED = "stop releasing; restore the true ledger, or retire what it meters"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


class RowKind(StrEnum):
    """What a row does to the totals."""

    CHARGE = "charge"  # adds
    REANCHOR = "reanchor"  # nothing; records that an operator accepted this history


@dataclass(frozen=True, slots=True)
class Header:
    """What was fixed at creation. `text` is the very JSON document whose digest is the root of the chain."""

    budget: Budget
    accounts: tuple[str, ...]
    identity: str
    text: str

    @classmethod
    def new(cls, budget: Budget, accounts: Iterable[str], *, identity: str) -> "Header":
        """A header with a fresh random id; refuses accounts that are none or not distinct, limits below a unit."""
        names = tuple(accounts)
        if not names or len(set(names)) != len(names) or not all(names):
            raise ValueError("a ledger needs accounts with distinct, non-empty names")
        if units_down(budget.limit) < 1:
            raise ValueError(f"a ledger's limit must be at least 2^-40, found {budget.limit}")
        document = {
            "schema_version": SCHEMA_VERSION,
            "ledger_id": secrets.token_hex(16),
            "identity": identity,
            "created": utc_now(),
            "budget": budget.to_json(),
            "accounts": names,
        }
        return cls(budget, names, identity, canonical(document))

    @classmethod
    def from_text(cls, text: str, *, name: str) -> "Header":
        """The header that this text holds; `name` is the ledger in error messages."""
        try:
            document = json.loads(text)
            version = document["schema_version"]
            if version == SCHEMA_VERSION:
                budget = Budget.from_json(document["budget"])
                return cls(budget, tuple(document["accounts"]), document["identity"], text)
        except (ConfigError, *MALFORMED) as error:
            raise LedgerError(f"{name}: the ledger's header cannot be read", hint=EDITED) from error
        raise LedgerError(
            f"{name}: this ledger has an unknown schema version",
            found=repr(version),
            expected=str(SCHEMA_VERSION),
            hint="use the version of reticent that created it",
        )

    @property
    def root(self) -> Receipt:
        """Place 0 of the chain."""
        return Receipt(0, _digest(self.text))


@dataclass(frozen=True, slots=True)
class Row:
    """One stored row: `costs` and `event` are the very texts that were hashed."""

    sequence: int
    time: str
    kind: str
    costs: str
    event: str
    digest: str

    @property
    def receipt(self) -> Receipt:
        """This row's place in the chain."""
        return Receipt(self.sequence, self.digest)

    @property
    def units(self) -> dict[str, int]:
        """Units of 2^-40 that the row adds to each account."""
        units = json.loads(self.costs)
        if type(units) is not dict or not all(type(value) is int for value in units.values()):
            raise ValueError("costs must map accounts to whole units")
        return units

    @property
    def event_document(self) -> Any:
        """The row's event as JSON values; LedgerError where the text is none."""
        try:
            return json.loads(self.event)
        except MALFORMED:
            raise LedgerError(f"row {self.sequence} of the ledger holds no event", hint=EDITED) from None

    def to_json(self) -> dict[str, Any]:
        """The row for people and programs; `units` are multiples of 2^-40."""
        return {
            "sequence": self.sequence,
            "time": self.time,
            "kind": self.kind,
            "units": self.units,
            "event": self.event_document,
            "digest": self.digest,
        }


def row_digest(previous: str, row: Row) -> str:
    """The digest of a row that follows `previous`; the row's own `digest` is not looked at."""
    # The empty text at the end keeps ledgers readable that were written when rows had one column more.
    return _digest(previous, str(row.sequence), row.time, row.kind, row.costs, row.event, "")


def cost_units(costs: Mapping[str, float]) -> dict[str, int]:
    """Costs in units, each rounded up. An infinite price exceeds every budget."""
    units = {}
    for account, cost in costs.items():
        if cost == math.inf:
            raise BudgetExhausted(f"an infinite cost on account '{account}' exceeds every budget")
        if not cost >= 0.0:
            raise ValueError(f"the cost on account '{account}' must be at least 0, found {cost}")
        units[account] = units_up(cost)
    if not units:
        raise ValueError("a charge needs at least one account")
    return units


class Chain:
    """The state after some rows: the head and each account's total."""

    def __init__(self, header: Header, *, name: str) -> None:
        self.header = header
        self.limit = units_down(header.budget.limit)
        self.totals = dict.fromkeys(header.accounts, 0)
        self.head = header.root
        self._name = name

    def require_room(self, units: Mapping[str, int]) -> None:
        """Refuse a charge that would pass any account's limit.

        Guarantee: while this is asked and the row appended under one lock, no total ever passes the limit. The
        message names accounts, never amounts: what was spent is private.
        """
        unknown = sorted(set(units) - set(self.totals))
        if unknown:
            raise LedgerError(f"{self._name}: no such account", found=", ".join(unknown))
        full = [account for account, cost in units.items() if self.totals[account] + cost > self.limit]
        if full:
            raise BudgetExhausted(f"the charge would exceed the budget of account {', '.join(map(repr, full))}")

    def next_row(self, kind: RowKind, units: Mapping[str, int], *, event: str) -> Row:
        """The row that would come next. Nothing changes until it is stored and `follow`ed."""
        contents = self.head.sequence + 1, utc_now(), kind.value, canonical(units), event
        return Row(*contents, row_digest(self.head.digest, Row(*contents, "")))

    def follow(self, row: Row) -> None:
        """Check the next row and take it into account; LedgerError if it is not the true successor."""
        if row.sequence != self.head.sequence + 1:
            raise self._broken(f"row {self.head.sequence + 1} is missing", found=f"row {row.sequence}")
        try:
            digest = row_digest(self.head.digest, row)
        except AttributeError as error:  # SQLite stores whatever it is given
            raise self._broken(f"row {row.sequence} holds something else than text") from error
        if digest != row.digest:
            raise self._broken(f"row {row.sequence} or the one before it was edited")
        try:
            units = row.units
            totals = {account: self.totals[account] + cost for account, cost in units.items()}
            _check_kind(row, units)
        except MALFORMED as error:
            raise self._broken(f"row {row.sequence} does not follow the rules of a ledger") from error
        if any(not 0 <= total <= self.limit for total in totals.values()):
            raise self._broken(f"row {row.sequence} exceeds the budget")
        self.totals.update(totals)
        self.head = row.receipt

    def _broken(self, what: str, *, found: object = None) -> LedgerError:
        return LedgerError(f"{self._name}: {what}", found=found, hint=EDITED)


def _check_kind(row: Row, units: Mapping[str, int]) -> None:
    """ValueError for a kind that no ledger has, or units that do not go with it."""
    is_charge = RowKind(row.kind) is RowKind.CHARGE
    if any(cost < 0 for cost in units.values()) or bool(units) != is_charge:
        raise ValueError("a charge adds to at least one account, and nothing else does")


def canonical(value: object) -> str:
    """Compact JSON with sorted keys: one text for one value."""
    return _CANONICAL.encode(value)


def utc_now() -> str:
    """Now, in UTC, as ISO 8601 to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _digest(*texts: str) -> str:
    """BLAKE2b-256 of texts, each after its length, so that no two sequences of texts run together."""
    message = b""
    for text in texts:
        encoded = text.encode("utf8")
        message += len(encoded).to_bytes(8, "big") + encoded
    return hashlib.blake2b(message, digest_size=32, person=b"reticent ledger").hexdigest()
