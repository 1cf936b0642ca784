"""What was proved: an upper bound on leakage with its notion, unit, neighbours and assumptions.

Three distinctions live in the types, since prose loses them: the notion (different promises that never share
a column), the unit with its neighbours (what one may change), and the direction (a guarantee is an upper
bound; a finding, in `reticent.core.finding`, is a lower one).
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.core.document import check_schema, number_from_json, number_to_json

SCHEMA_VERSION = 1


class Notion(StrEnum):
    """The kind of promise.

    Bayesian confidentiality speaks of an attacker who knows only the distribution of secrets, on average over it.
    """

    DIFFERENTIAL_PRIVACY = "differential privacy"
    CONFIDENTIALITY = "confidentiality"
    BAYESIAN_CONFIDENTIALITY = "Bayesian confidentiality"
    OPERATIONAL_PRIVACY = "operational privacy"


class Unit(StrEnum):
    """What one promise protects."""

    RECORD = "record"
    OWNER = "owner"
    SECRET = "secret"
    PART = "part"


class Neighbours(StrEnum):
    """How two worlds differ in one unit."""

    ADD_REMOVE = "add or remove one"
    REPLACE = "replace one"
    MASK = "mask one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """A proved upper bound: (epsilon, delta), or at a Rényi order when `order` is set.

    `profile` holds further proved points (epsilon, delta) and `renyi` proved points (order, epsilon): the
    evidence from which ceilings and leakage bounds take whichever is tightest. `data_dependent` promises
    hold for the realised data only, so the numbers themselves are private.
    """

    mechanism: str
    notion: Notion
    unit: Unit
    neighbours: Neighbours
    epsilon: float
    delta: float = 0.0
    order: float | None = None
    covers: str
    assumes: tuple[str, ...] = ()
    data_dependent: bool = False
    profile: tuple[tuple[float, float], ...] = ()
    renyi: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.epsilon >= 0.0:
            raise ValueError(f"epsilon must be at least 0, found {self.epsilon}")
        if not 0.0 <= self.delta <= 1.0:
            raise ValueError(f"delta must be in [0, 1], found {self.delta}")
        if self.order is not None and (not self.order > 1.0 or self.delta != 0.0):
            raise ValueError("a Rényi guarantee has an order above 1 and no delta")
        # Written so that NaN fails every check: a point that is not a number would make a ceiling of nothing.
        if not all(epsilon >= 0.0 and 0.0 <= delta <= 1.0 for epsilon, delta in self.profile):
            raise ValueError("every point of the profile needs an epsilon of at least 0 and a delta in [0, 1]")
        if not all(order > 1.0 and epsilon >= 0.0 for order, epsilon in self.renyi):
            raise ValueError("every Rényi point needs an order above 1 and an epsilon of at least 0")

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """All proved (epsilon, delta) points, the headline first where it is one."""
        headline = () if self.order is not None else ((self.epsilon, self.delta),)
        return headline + self.profile

    @property
    def renyi_points(self) -> tuple[tuple[float, float], ...]:
        """All proved (order, epsilon) points, the headline first where it is one; pure DP is order ∞."""
        if self.order is not None:
            return ((self.order, self.epsilon), *self.renyi)
        return ((math.inf, self.epsilon), *self.renyi) if self.delta == 0.0 else self.renyi

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": SCHEMA_VERSION,
            "mechanism": self.mechanism,
            "notion": self.notion.value,
            "unit": self.unit.value,
            "neighbours": self.neighbours.value,
            "epsilon": number_to_json(self.epsilon),
            "delta": self.delta,
            "order": number_to_json(self.order),
            "covers": self.covers,
            "assumes": list(self.assumes),
            "data_dependent": self.data_dependent,
            "profile": [[number_to_json(e), d] for e, d in self.profile],
            "renyi": [[number_to_json(a), number_to_json(e)] for a, e in self.renyi],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Guarantee":
        """The guarantee that `to_json` wrote; an unknown schema version is refused."""
        check_schema(document, SCHEMA_VERSION, kind="guarantee")
        order = document["order"]
        return cls(
            mechanism=document["mechanism"],
            notion=Notion(document["notion"]),
            unit=Unit(document["unit"]),
            neighbours=Neighbours(document["neighbours"]),
            epsilon=number_from_json(document["epsilon"]),
            delta=document["delta"],
            order=None if order is None else number_from_json(order),
            covers=document["covers"],
            assumes=tuple(document["assumes"]),
            data_dependent=document["data_dependent"],
            profile=tuple((number_from_json(e), float(d)) for e, d in document["profile"]),
            renyi=tuple((number_from_json(a), number_from_json(e)) for a, e in document["renyi"]),
        )
