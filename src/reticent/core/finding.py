"""What was measured: a lower bound on leakage with its interval, n and adversary; and how it compares.

A finding can refute a guarantee; it can never confirm one. Nothing here says "safe".
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.core.document import check_schema, number_from_json, number_to_json
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.model import Access

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A measured value of `metric` with a two-sided interval at `confidence` from `n` observations.

    `null` is the value the metric takes when nothing leaks. `void` gives the reason why the number must not
    be used (members and non-members differ without the model, say); the number stays visible.

    >>> audit = reticent.audit("private", train="mails.jsonl", holdout="others.jsonl", out="audit", records=20)
    >>> finding = next(each for each in audit.findings if each.metric == "auc" and not each.void)
    >>> finding.low <= finding.value <= finding.high
    True
    """

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

    def __post_init__(self) -> None:
        if math.isnan(self.value) or not self.low <= self.value <= self.high:
            raise ValueError(f"{self.metric}: need low <= value <= high")
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"{self.metric}: confidence must be in (0, 1)")
        if self.n < 1:
            raise ValueError(f"{self.metric}: no data is not a finding")

    @property
    def beats_null(self) -> bool:
        """Whether the interval lies above what would be seen without leakage."""
        return not self.void and self.null is not None and self.low > self.null

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "attack": self.attack,
            "metric": self.metric,
            "value": number_to_json(self.value),
            "low": number_to_json(self.low),
            "high": number_to_json(self.high),
            "confidence": self.confidence,
            "n": self.n,
            "measure": self.measure,
            "unit": self.unit.value,
            "access": self.access.name.lower(),
            "null": number_to_json(self.null),
            "void": self.void,
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Finding":
        """The finding that `to_json` wrote; an unknown schema version is refused."""
        check_schema(document, SCHEMA_VERSION, kind="finding")
        null = document["null"]
        return cls(
            attack=document["attack"],
            metric=document["metric"],
            value=number_from_json(document["value"]),
            low=number_from_json(document["low"]),
            high=number_from_json(document["high"]),
            confidence=document["confidence"],
            n=document["n"],
            measure=document["measure"],
            unit=Unit(document["unit"]),
            access=Access[document["access"].upper()],
            null=None if null is None else number_from_json(null),
            void=document["void"],
            notes=tuple(document["notes"]),
        )


class Verdict(StrEnum):
    """What a finding says of a guarantee."""

    CONSISTENT = "consistent"
    REFUTED = "refuted"
    VACUOUS = "vacuous ceiling"
    NOT_COMPARABLE = "not comparable"


# A ceiling this near to the greatest value of its metric, as a share of it, is printed as that value.
_ALMOST_ALL = 1e-3


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
        return math.isinf(self.ceiling) or self.ceiling >= self.greatest * (1.0 - _ALMOST_ALL)

    @property
    def why_not(self) -> str:
        """Why the two are not comparable; empty where they are."""
        if self.verdict is not Verdict.NOT_COMPARABLE:
            return ""
        return "the finding is void" if self.finding.void else self.reason or "no ceiling is known"

    @property
    def verdict(self) -> Verdict:
        """Refuted only when the whole interval lies above; never consistent with a vacuous ceiling."""
        if self.ceiling is None or self.finding.void:
            return Verdict.NOT_COMPARABLE
        if self.finding.low > self.ceiling:
            return Verdict.REFUTED
        return Verdict.VACUOUS if self.is_vacuous else Verdict.CONSISTENT
