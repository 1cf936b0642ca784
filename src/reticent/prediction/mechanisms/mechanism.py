"""The one interface of all prediction mechanisms: a look-up and a moment in, one accounted distribution out.

A mechanism is a pure function of the rows of a look-up (`reticent.core.ensemble`), of what remains on each account
and of the text so far. It returns the very float64 array that the token is drawn from, what drawing it costs each
account in the mechanism's measure, and the event. It never draws the token and keeps no count: that is the
predictor's business (`reticent.prediction.predictor`), in the order mix → charge → draw.

Costs, `stops` and everything else in a `Release` but the drawn token depend on private data and stay inside.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from reticent.accounting.mixing.loops import PartRows
from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError
from reticent.core.event import Event
from reticent.core.model import Tokens
from reticent.core.randomness import Randomness
from reticent.ledger.fixed_point import UNIT
from reticent.prediction.mechanisms.shaping import Rows, Shaping

ANSWERS = "answers"  # measure of mechanisms whose price is the same for every answer, whatever the data


def renyi_measure(order: float) -> str:
    """Name of the additive quantity that a filter at `order` meters."""
    return f"Rényi nats at order {order:g}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Moment:
    """What a mechanism may know beside the rows.

    `remaining` [k] is what each account may still spend; `left` how many queries of the budget remain, this one
    included, at least 1; `stopped` whether an earlier release of this predictor said `stops`.
    """

    remaining: Floats = field(repr=False)
    left: int = 1
    context: Tokens = field(default=(), repr=False)
    stopped: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One accounted answer: the pmf [V] that the token is drawn from, the costs [k] and the event. All private."""

    pmf: Floats = field(repr=False)
    costs: Floats = field(repr=False)
    event: Event = field(repr=False)
    stops: bool = field(default=False, repr=False)

    @property
    def log_pmf(self) -> Floats:
        """Logarithm of the pmf, −inf off the support."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.pmf))


class Mechanism(Protocol):
    """What every way to answer looks like to the predictor and to the evaluation."""

    @property
    def name(self) -> str:
        """Short name for tables."""
        ...

    @property
    def measure(self) -> str | None:
        """What its costs count; None where an answer costs nothing, so that no ledger is needed."""
        ...

    @property
    def price(self) -> float | None:
        """The public cost of every answer on every account, or None where costs depend on the data."""
        ...

    def release(self, rows: Floats, moment: Moment, *, randomness: Randomness) -> Release:
        """The accounted distribution of the next token, from log-pmfs [1 + rows, V], row 0 the public model."""
        ...


@runtime_checkable
class TogetherMechanism(Mechanism, Protocol):
    """One that mixes the texts of a turn together, each shaped in its own way, from log-pmfs or masses."""

    @property
    def shaping(self) -> Shaping:
        """How it shapes a text."""
        ...

    def is_like(self, other: Mechanism) -> bool:
        """Whether the other differs in its shaping at most."""
        ...

    def release_together(self, rows: Rows, shapings: Sequence[Shaping], moment: Moment) -> list[Release]:
        """Releases of n texts from look-ups [n, 1 + rows, V]; `moment` is that of the first.

        Each is what `release` gives, shaped so, against what those before it leave, or a little less of the private
        parts.
        """
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """Which private row belongs to which part: (0, 1, 2) one row a part, (0, 0, 1, 1) two halves a part."""

    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.rows or sorted(set(self.rows)) != list(range(max(self.rows) + 1)):
            raise ConfigError("rows must name the parts 0..k-1, each at least once", found=self.rows)

    @classmethod
    def single(cls, parts: int) -> "Layout":
        """One row a part."""
        return cls(tuple(range(parts)))

    @classmethod
    def halves(cls, parts: int) -> "Layout":
        """Two rows a part, side by side."""
        return cls(tuple(part for part in range(parts) for _ in range(2)))

    @property
    def parts(self) -> int:
        """k."""
        return max(self.rows) + 1

    @property
    def has_halves(self) -> bool:
        """Whether every part has exactly two rows."""
        return all(self.rows.count(part) == 2 for part in range(self.parts))

    @property
    def _is_single(self) -> bool:
        """Whether every part has one row, so that rows and parts are the same."""
        return self.rows == tuple(range(self.parts))

    @property
    def _is_paired(self) -> bool:
        """Whether the halves of each part stand side by side, so that they are views."""
        return self.rows == tuple(part for part in range(self.parts) for _ in range(2))

    def members(self, part: int) -> list[int]:
        """Indices of a part's private rows."""
        return [index for index, owner in enumerate(self.rows) if owner == part]

    def part_rows(self, rows: PartRows) -> PartRows:
        """One row a part."""
        if self._is_single:
            return rows
        return PartRows.of(self.part_pmfs(rows.pmfs()))

    def part_pmfs(self, private: Floats) -> Floats:
        """Mean pmf of each part [..., k, S], from its rows [..., rows, S]."""
        if self._is_single:
            return private
        if self._is_paired:
            means = private[..., 0::2, :] + private[..., 1::2, :]
            means *= 0.5
            return means
        parts = [private[..., self.members(part), :].mean(axis=-2) for part in range(self.parts)]
        return np.stack(parts, axis=-2)

    def half_pmfs(self, private: Floats) -> tuple[Floats, Floats]:
        """First and second half of each part, [k, S] each."""
        if not self.has_halves:
            raise ConfigError(
                "this mechanism compares the two halves of each part",
                found=f"{len(self.rows)} rows for {self.parts} parts",
                expected=f"{2 * self.parts} rows",
                hint="train the ensemble with halves, or use submix-f, which needs one model a part",
            )
        if self._is_paired:
            return private[0::2], private[1::2]
        pairs = [self.members(part) for part in range(self.parts)]
        return private[[first for first, _ in pairs]], private[[second for _, second in pairs]]

    def require(self, rows: Rows, *, axes: int = 2) -> None:
        """Refuse a look-up [1 + rows, V], or with three axes several, of another shape."""
        if rows.ndim != axes or rows.shape[-2] != 1 + len(self.rows):
            raise ValueError(f"a look-up needs {1 + len(self.rows)} rows, found shape {rows.shape}")


def uniform_costs(parts: int, price: float) -> Floats:
    """The same cost on every account [k]."""
    return np.full(parts, price)


def can_pay(moment: Moment, price: float) -> bool:
    """Whether every account can pay a price that is public, hence so is the answer."""
    return bool((moment.remaining >= price).all())


def in_units(costs: Floats) -> Floats:
    """Costs as the ledger counts them, rounded up to whole units one by one: their sums are exact."""
    return np.asarray(np.ceil(costs * UNIT) / UNIT)  # by a power of two: no other rounding


def largest_cost(costs: Sequence[float] | Floats) -> float:
    """What the event of a token with different costs a part states: the greatest."""
    return float(np.max(costs, initial=0.0))
