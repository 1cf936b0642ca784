"""What an ensemble or a training has spent, for its operator: totals, the course over time, the check of all rows.

What an ensemble spent is private: charges depend on the parts' texts. It is shown on the operator's page and by
`reticent ledger`, never by the public port. A training is charged by steps, which its plan fixes.
"""

from dataclasses import dataclass, field
from typing import Any

from reticent.ledger.chain import RowKind
from reticent.ledger.durable import DurableLedger
from reticent.ledger.fixed_point import amount_up
from reticent.runs.ensemble.prediction import answers_in

_POINTS = 240  # of a curve on the page
STEPS = "steps"  # the measure of a training's ledger (`training.plans.plan.MEASURE`, not imported: it brings torch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """A ledger's state. `course` has one point a row or group of rows: time, and what each part had spent.

    `answers` counts the tokens that were charged; None in a training's ledger, whose measure is its steps.
    """

    measure: str
    limit: float
    epsilon: float
    delta: float
    spent: dict[str, float] = field(repr=False)
    rows: int
    answers: int | None
    reanchored: int  # how often an operator accepted a ledger whose witness was gone
    course: tuple[tuple[str, dict[str, float]], ...] = field(repr=False)

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
            "reanchored": self.reanchored,
            "parts": {
                part: {"spent": spent, "share": min(1.0, spent / self.limit)} for part, spent in self.spent.items()
            },
            "course": [{"time": time, "spent": spent} for time, spent in self.course],
        }


def spending(ledger: DurableLedger) -> Spending:
    """Read the whole ledger once."""
    totals = dict.fromkeys(ledger.accounts, 0)
    course: list[tuple[str, dict[str, float]]] = []
    rows = answers = reanchored = 0
    stride = max(1, ledger.head().sequence // _POINTS)
    for row in ledger.rows():
        rows += 1
        answers += answers_in(row)
        reanchored += row.kind == RowKind.REANCHOR
        for part, units in row.units.items():
            totals[part] += units
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
        reanchored=reanchored,
        course=tuple(course),
    )
