"""How many answers are still to come, by how much an ensemble was used so far.

A budget is spread over so many queries, the most answers that it is meant for. Where fewer come, some of it is left
over on the day that the ensemble is retired. With a lifetime, the answers that are still to come are estimated anew
for every answer, from the share f of the lifetime that is over and the number n of answers so far:

    left = min(queries − n, (n + w·queries) / (f + w) · (1 − f))       w = 0.1: the plan counts as a tenth of use

An ensemble that is used as planned has left = queries − n, as without a lifetime; one that is used half as much
soon spends nearly twice as much on each answer. More answers than the query budget are never planned for.

Guarantee: what is left is a function of public counts and of the clock, by whole hours, and of nothing private. So
it only paces: a part's filter holds its budget whatever the pace. To plan by what parts have spent would let one
part's text decide how the others are mixed, and void the guarantee.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from reticent.core.errors import ConfigError

_PRIOR: Final = 0.1  # of the lifetime: how much the plan weighs against the use so far


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The days from the first use, `since`, to the last day, `until`, both included."""

    since: date
    until: date

    def __post_init__(self) -> None:
        if self.until < self.since:
            raise ConfigError(
                "the budget is to be spent by a day that is over",
                found=f"--until {self.until}",
                expected="a later day",
            )

    def left(self, queries: int, answered: int, now: datetime) -> int:
        """How many answers of the query budget are still to come, this one included; at least 1."""
        begin = datetime.combine(self.since, time(), UTC)
        whole = datetime.combine(self.until, time(), UTC) + timedelta(days=1) - begin
        gone = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - begin
        over = min(max(gone / whole, 0.0), 1.0)
        expected = (answered + _PRIOR * queries) / (over + _PRIOR) * (1.0 - over)
        return max(1, min(queries - answered, round(expected)))
