"""What was proved: an upper bound on leakage with its notion, unit, neighbours and assumptions.

Three distinctions live in the types, since prose loses them: the notion (different promises that never share
a column), the unit with its neighbours (what one may change), and the direction (a guarantee is an upper
bound; a finding, in `reticent.core.finding`, is a lower one).
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from reticent.core.choice import settle_choices
from reticent.core.document import (
    ADDED_LATER,
    UNLESS_DEFAULT,
    JsonObject,
    check_schema,
    fields_from_json,
    fields_to_json,
)
from reticent.core.event import Event, event_from_json, event_to_json

SCHEMA_VERSION = 1
# How every mechanism says that its public model has not seen the text; a chain of trainings says it of its first.
UNSEEN = "made without the private text"
PRACTICALLY_NOTHING = 20  # ε: whoever tosses a coin about a unit may be sure of it but for 2e-9


class Notion(StrEnum):
    """The kind of promise that a guarantee makes.

    Bayesian confidentiality speaks of an attacker who knows only the distribution of secrets, on average over it.
    """

    DIFFERENTIAL_PRIVACY = "differential privacy"
    CONFIDENTIALITY = "confidentiality"
    BAYESIAN_CONFIDENTIALITY = "Bayesian confidentiality"
    OPERATIONAL_PRIVACY = "operational privacy"


class Unit(StrEnum):
    """What a guarantee protects."""

    RECORD = "record"
    OWNER = "owner"
    SECRET = "secret"
    PART = "part"


class Neighbours(StrEnum):
    """How two neighbouring data sets differ in one unit."""

    ADD_REMOVE = "add or remove one"
    REPLACE = "replace one"
    MASK = "mask one"

    @property
    def word(self) -> str:
        """As flags and TOML files spell it: add-remove, replace, mask."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis(JsonObject):
    """What the numbers of a guarantee follow from, so that whoever reads them can derive them again.

    `event` was priced at `delta`. `units` and `clip_norm` are the public facts that its sampling rate and its noise
    refer to; with a `clip_quantile` that norm is the first, and later ones followed from counts with noise of the
    deviation `count_noise`. Statements about secrets also need how many are masked together (`group`), how often
    the policies miss one, and whether training kept one copy of each (`keeps_one_copy`). `earlier` are guarantees
    of releases of the same text that came before: their ε and δ are added.
    """

    event: Event
    delta: float
    units: int | None = None
    clip_norm: float | None = None
    clip_quantile: float | None = field(default=None, metadata=UNLESS_DEFAULT)  # as where the clip norm is fixed
    count_noise: float | None = field(default=None, metadata=UNLESS_DEFAULT)
    group: int = 1
    miss_rate: float | None = None
    conservative_miss_rate: float = 0.0
    keeps_one_copy: bool = False
    earlier: "tuple[Guarantee, ...]" = ()

    def __post_init__(self) -> None:
        # Written so that NaN fails every check, and a word raises TypeError here and not in an accountant.
        if not 0.0 <= self.delta <= 1.0:
            raise ValueError(f"the delta of a basis must be in [0, 1], found {self.delta}")
        if not isinstance(self.group, int) or self.group < 1:
            raise ValueError(f"a group needs at least one secret, found {self.group}")
        if not all(0.0 <= rate <= 1.0 for rate in (self.miss_rate or 0.0, self.conservative_miss_rate)):
            raise ValueError("miss rates must be in [0, 1]")
        if not isinstance(self.keeps_one_copy, bool):
            raise ValueError("keeps_one_copy is true or false")
        if self.units is not None and (not isinstance(self.units, int) or self.units < 0):
            raise ValueError(f"units must be a whole number, found {self.units}")
        if self.clip_norm is not None and not 0.0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm must be positive and finite, found {self.clip_norm}")
        if self.clip_quantile is not None and not 0.0 < self.clip_quantile < 1.0:
            raise ValueError(f"clip_quantile must be in (0, 1), found {self.clip_quantile}")
        if self.count_noise is not None and not 0.0 < self.count_noise < math.inf:
            raise ValueError(f"count_noise must be positive and finite, found {self.count_noise}")

    def to_json(self) -> dict[str, Any]:
        """JSON values; the guarantee that holds them carries the schema version."""
        return fields_to_json(self, event=event_to_json(self.event))

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Basis":
        """The basis that `to_json` wrote."""
        event = event_from_json(document["event"])
        earlier = tuple(Guarantee.from_json(each) for each in document["earlier"])
        return cls(**document | {"event": event, "earlier": earlier})


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee(JsonObject):
    """A proved upper bound: (epsilon, delta), or at a Rényi order when `order` is set.

    `profile` holds further proved points (epsilon, delta) and `renyi` proved points (order, epsilon): the
    evidence from which ceilings and leakage bounds take whichever is tightest. `data_dependent` promises
    hold for the realised data only, so the numbers themselves are private. `basis` is what the numbers follow
    from (`accounting.derivation` derives them again); a guarantee without one is a statement, not a proof.

    >>> plan = reticent.DpSgd.for_target(epsilon=2, delta=1e-6, units=10_000, batch=256, epochs=3)
    >>> promise = plan.guarantee()
    >>> promise.unit.value, promise.delta, promise.epsilon <= 2
    ('record', 1e-06, True)
    """

    schema_version: ClassVar = SCHEMA_VERSION
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
    profile: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    renyi: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    basis: Basis | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        settle_choices(self, notion=Notion, unit=Unit, neighbours=Neighbours)
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

    def units_of_secret(self, copies: int) -> int:
        """How many units a secret with this many copies counts as: one, if training kept a single copy.

        Guarantee: masking the secret everywhere is at most so many steps between the guarantee's neighbours.
        """
        if self.unit is not Unit.SECRET or self.basis is None:
            return copies
        return min(copies, 1) if self.basis.keeps_one_copy else -(-copies // self.basis.group)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Guarantee":
        """The guarantee that `to_json` wrote; an unknown schema version is refused."""
        check_schema(document, SCHEMA_VERSION, kind="guarantee")
        return fields_from_json(cls, document, ignores_others=True)  # the certificate's, where it stands in one
