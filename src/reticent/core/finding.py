"""What was measured: a lower bound on leakage with its interval, n and adversary; and how it compares.

A finding can refute a guarantee; it can never confirm one. Nothing here says "safe".
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from reticent.core.choice import settle_choices
from reticent.core.document import ADDED_LATER, JsonObject, check_schema, fields_from_json, object_to_json
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.model import Access

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(JsonObject):
    """A measured value of `metric` with a two-sided interval at `confidence` from `n` observations.

    `null` is the value of the metric that is expected when nothing leaks, or the most that is. `void` gives the
    reason why the number must not be used (members and non-members differ without the model, say); the number stays
    visible.

    `p_value` is the probability of such a value without leakage, where it is known exactly. It then decides,
    instead of the interval, whether the finding beats its null. `could_pass` is False if even a perfect score on so
    few targets could not beat the null.

    `proved_low` is a low end whose confidence is proved, where that of `low` is only conjectured: what refutes a
    guarantee rests on it (`refuting_low`).

    >>> import json
    >>> with open("audit/findings.json") as file:
    ...     first = reticent.Finding.from_json(json.load(file)["findings"][0])
    >>> first.low <= first.value <= first.high
    True
    """

    schema_version: ClassVar = SCHEMA_VERSION
    attack: str
    metric: str
    value: float
    low: float
    high: float
    confidence: float
    n: int
    measure: str
    unit: Unit
    access: Access
    null: float | None = None
    void: str = ""
    notes: tuple[str, ...] = ()
    p_value: float | None = field(default=None, metadata=ADDED_LATER)
    could_pass: bool = field(default=True, metadata=ADDED_LATER)
    proved_low: float | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        settle_choices(self, unit=Unit, access=Access)
        if math.isnan(self.value) or not self.low <= self.value <= self.high:
            raise ValueError(f"{self.metric}: need low <= value <= high")
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"{self.metric}: confidence must be in (0, 1)")
        if self.n < 1:
            raise ValueError(f"{self.metric}: no data is not a finding")
        if self.p_value is not None and not 0.0 <= self.p_value <= 1.0:
            raise ValueError(f"{self.metric}: a p-value is in [0, 1]")
        if self.proved_low is not None and not self.proved_low <= self.value:
            raise ValueError(f"{self.metric}: need proved_low <= value")

    @property
    def refuting_low(self) -> float:
        """The lower end that is compared with a ceiling: the proved one, where there is one."""
        return self.low if self.proved_low is None else self.proved_low

    @property
    def beats_null(self) -> bool:
        """Whether more leaks than its null explains: by the exact p-value if there is one, else by the interval."""
        if self.void or self.null is None:
            return False
        return self.low > self.null if self.p_value is None else self.p_value <= 1.0 - self.confidence

    @property
    def standing(self) -> "Standing | None":
        """How the finding compares with its null; None if there is no null or the finding is void."""
        if self.void or self.null is None:
            return None
        if self.beats_null:
            return Standing.ABOVE
        return Standing.NOT_ABOVE if self.could_pass else Standing.TOO_FEW

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Finding":
        """The finding that `to_json` wrote; an unknown schema version is refused."""
        check_schema(document, SCHEMA_VERSION, kind="finding")
        return fields_from_json(cls, document, ignores_others=True)


class Standing(StrEnum):
    """How a finding compares with its null. No standing means that nothing leaks."""

    ABOVE = "above null"
    NOT_ABOVE = "not above null"
    TOO_FEW = "too few to tell"


class Verdict(StrEnum):
    """What a finding says about a guarantee."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    VACUOUS = "vacuous ceiling"
    NOT_COMPARABLE = "not comparable"


# A ceiling this near to the greatest value of its metric, as a share of it, is printed as that value.
_ALMOST_ALL = 1e-3


def allows_everything(ceiling: float, greatest: float) -> bool:
    """Whether a bound is within a thousandth of the largest possible value, and so proves nothing."""
    return math.isinf(ceiling) or ceiling >= greatest * (1.0 - _ALMOST_ALL)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finding beside what a guarantee allows its metric to reach.

    `ceiling` is None where the two are not comparable, and `reason` says why. `greatest` is the largest value that
    the metric can take at all: a ceiling there allows everything, so no finding can refute it and one below it says
    nothing (a *vacuous* ceiling).
    """

    finding: Finding
    guarantee: Guarantee
    ceiling: float | None
    greatest: float = math.inf
    reason: str = ""

    @property
    def is_vacuous(self) -> bool:
        """Whether the ceiling allows everything, or all but a thousandth."""
        if self.ceiling is None:
            return False
        return allows_everything(self.ceiling, self.greatest)

    @property
    def why_not(self) -> str:
        """Why the two are not comparable; empty where they are."""
        if self.verdict is not Verdict.NOT_COMPARABLE:
            return ""
        return "the finding is void" if self.finding.void else self.reason or "no ceiling is known"

    def to_json(self) -> dict[str, Any]:
        """For findings.json, where the finding and the guarantee stand beside it."""
        found = {"ceiling": self.ceiling, "greatest": self.greatest, "verdict": self.verdict}
        return object_to_json(found | {"reason": self.why_not})

    @property
    def verdict(self) -> Verdict:
        """Refuted only when the whole proved interval lies above; never consistent with a vacuous ceiling."""
        if self.ceiling is None or self.finding.void:
            return Verdict.NOT_COMPARABLE
        if self.finding.refuting_low > self.ceiling:
            return Verdict.REFUTED
        return Verdict.VACUOUS if self.is_vacuous else Verdict.CONSISTENT
