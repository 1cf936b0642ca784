"""What an ensemble or a training has spent, for its operator: totals, the course over time, the check of all rows.

What an ensemble spent is private: charges depend on the parts' texts. It is shown on the operator's page and by
`reticent ledger`, never by the public port. A training is charged by steps, which its plan fixes.
"""

import datetime
import math
from dataclasses import dataclass, field
from typing import Any, Final

from reticent.ledger.chain import RowKind
from reticent.ledger.durable import DurableLedger
from reticent.ledger.fixed_point import amount_up
from reticent.runs.ensemble.prediction import answers_in

_POINTS = 240  # of a curve on the page
STEPS = "steps"  # the measure of a training's ledger (`training.plans.plan.MEASURE`, not imported: it brings torch)


DAY: Final = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What was spent since `since`: tokens, charges, and what each part was charged."""

    since: datetime.datetime
    tokens: int
    charges: int
    spent: dict[str, float] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger's state. `course` has one point a row or group of rows: time, and what each part had spent.

    `answers` counts the tokens that were charged; None in a training's ledger, whose measure is its steps.
    `queries` is the query budget, the tokens that (ε, δ) is spread over; None where it is not known.
    """

    measure: str
    limit: float
    epsilon: float
    delta: float
    spent: dict[str, float] = field(repr=False)
    rows: int
    answers: int | None
    queries: int | None
    reanchored: int  # how often an operator accepted a ledger whose witness was gone
    course: tuple[tuple[str, dict[str, float]], ...] = field(repr=False)
    last: datetime.datetime | None  # time of the last row
    today: Pace

    @property
    def share(self) -> float:
        """What the part that spent most has spent of its budget."""
        return min(1.0, max(self.spent.values(), default=0.0) / self.limit)

    @property
    def tokens_left(self) -> int | None:
        """How many tokens the first part to run out can still pay for, at today's price; None without a price."""
        left = self._left_of_today
        return None if left is None or not self.today.tokens else math.floor(left * self.today.tokens)

    def lasts_until(self, now: datetime.datetime) -> datetime.datetime | None:
        """When the first part runs out at today's rate; None without a rate, or beyond the calendar."""
        left = self._left_of_today
        if left is None or now <= self.today.since:
            return None
        try:
            return now + left * (now - self.today.since)
        except OverflowError:
            return None

    @property
    def _left_of_today(self) -> float | None:
        """The rest of the first part to run out, in multiples of what it spent today."""
        rests = [
            max(0.0, self.limit - self.spent[part]) / spent for part, spent in self.today.spent.items() if spent > 0
        ]
        return min(rests, default=None)

    def to_json(self) -> dict[str, Any]:
        """For the operator's programs."""
        return {
            "schema_version": 1,
            "measure": self.measure,
            "limit": self.limit,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rows": self.rows,
            **({"steps": max(self.spent.values())} if self.answers is None else {"answers": self.answers}),
            **({} if self.queries is None else {"queries": self.queries}),
            "reanchored": self.reanchored,
            "parts": {
                part: {"spent": spent, "share": min(1.0, spent / self.limit)} for part, spent in self.spent.items()
            },
            "course": [{"time": time, "spent": spent} for time, spent in self.course],
        }


def spending(
    ledger: DurableLedger, *, queries: int | None = None, now: datetime.datetime | None = None
) -> Spending:
    """Read the whole ledger once; today is the last 24 hours, or the time since the first row.

    A ledger does not know the query budget of its ensemble: whoever does gives it.
    """
    begin = (now or datetime.datetime.now(datetime.UTC)) - DAY
    totals, recent = (dict.fromkeys(ledger.accounts, 0) for _ in range(2))
    course: list[tuple[str, dict[str, float]]] = []
    rows = answers = reanchored = tokens = charges = 0
    first = last = None
    stride = max(1, ledger.head().sequence // _POINTS)
    for row in ledger.rows():
        rows += 1
        drawn = answers_in(row)
        answers += drawn
        reanchored += row.kind == RowKind.REANCHOR
        last = datetime.datetime.fromisoformat(row.time)
        first = first or last
        is_recent = last >= begin
        charges += is_recent
        tokens += drawn * is_recent
        for part, units in row.units.items():
            totals[part] += units
            recent[part] += units * is_recent
        if row.sequence % stride == 0:
            course.append((row.time, {part: amount_up(units) for part, units in totals.items()}))
    promise = ledger.budget.guarantee
    return Spending(
        measure=ledger.budget.measure,
        limit=ledger.budget.limit,
        epsilon=promise.epsilon,
        delta=promise.delta,
        spent={part: amount_up(units) for part, units in totals.items()},
        rows=rows,
        answers=None if ledger.budget.measure == STEPS else answers,
        queries=None if ledger.budget.measure == STEPS else queries,
        reanchored=reanchored,
        course=tuple(course),
        last=last,
        today=Pace(
            since=begin if first is None else max(begin, first),
            tokens=tokens,
            charges=charges,
            spent={part: amount_up(units) for part, units in recent.items()},
        ),
    )
