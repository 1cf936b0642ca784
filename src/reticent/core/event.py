"""What a release did, in the terms its proof needs: frozen values without arithmetic.

Accounting prices events (`reticent.accounting`); an event never changes its meaning. Repetition and
composition are events of their own, so that no pricing formula has to remember a count. An accountant that
does not know an event raises `UnsupportedEvent`: nothing is ever priced by guess.

Noise is stated relative to the sensitivity of **adding or removing** one unit; replacing one moves a sum twice as
far, and accountants of the replace-one relation take that into account.

An event of training is a **round**, what is drawn and charged at once: one Poisson step, an epoch of allocation, a
cycle. It says how many `steps` that is, what its draw `assumes`, and can describe itself (`in_words`).

As JSON an event is its class name under "type" beside its fields; events inside events nest. An unknown name is
refused: a reader never guesses what was released.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast, get_args

from reticent.core.document import number_from_json, number_to_json
from reticent.core.errors import ConfigError, UnsupportedEvent
from reticent.core.printing.numbers import counted

_POISSON = (
    "every unit takes part in each step with the stated chance, independently (Poisson sampling, no shuffling)",
)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A vector of L2 sensitivity 1 released with Gaussian noise of standard deviation `noise_multiplier`."""

    steps: ClassVar[int] = 1
    assumes: ClassVar[tuple[str, ...]] = ()  # everybody takes part

    noise_multiplier: float

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)

    def in_words(self, count: int) -> str:
        """What `count` of them are, for people to read."""
        return f"{counted(count, 'Gaussian release')} with noise multiplier {self.noise_multiplier:.4g}"


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """A Gaussian release on a Poisson sample: each unit takes part with chance `sampling_rate`.

    One step of DP-SGD.
    """

    steps: ClassVar[int] = 1
    assumes: ClassVar[tuple[str, ...]] = _POISSON

    noise_multiplier: float
    sampling_rate: float

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)
        _require_chance("sampling_rate", self.sampling_rate)

    def in_words(self, count: int) -> str:
        """What `count` of them are, for people to read."""
        return (
            f"{counted(count, 'step')} with noise multiplier {self.noise_multiplier:.4g} and sampling rate "
            f"{self.sampling_rate:.4g}"
        )


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """A Gaussian release on a Poisson sample, for `group` units that come and go together, each of sensitivity 1.

    A secret in several records, or an owner of several, where records are sampled one by one.
    """

    assumes: ClassVar[tuple[str, ...]] = _POISSON

    noise_multiplier: float
    sampling_rate: float
    group: int

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)
        _require_chance("sampling_rate", self.sampling_rate)
        _require_count("group", self.group)


@dataclass(frozen=True, slots=True)
class RandomAllocation:
    """An epoch of `batches` Gaussian releases: each unit takes part in one, drawn uniformly and kept secret."""

    assumes: ClassVar[tuple[str, ...]] = (
        "in each epoch every unit takes part in exactly one step, drawn uniformly, independently of the others and "
        "kept secret (random allocation, no shuffling)",
    )

    noise_multiplier: float
    batches: int

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)
        _require_count("batches", self.batches)

    @property
    def steps(self) -> int:
        """Its batches."""
        return self.batches

    def in_words(self, count: int) -> str:
        """What `count` of them are, for people to read."""
        return (
            f"{counted(count, 'epoch')} of {self.batches:,} randomly allocated batches with noise multiplier "
            f"{self.noise_multiplier:.4g}"
        )


@dataclass(frozen=True, slots=True)
class BandedCycle:
    """A cycle of `bands` Gaussian releases whose noise is correlated over windows of `bands` releases.

    Each unit belongs to one release of every cycle, always the same one, and takes part with chance
    `sampling_rate`: its contributions are at least `bands` releases apart. The noise is C⁻¹z for a lower triangular
    matrix C of `bands` bands with columns of norm at most 1, and z of standard deviation `noise_multiplier`.
    """

    assumes: ClassVar[tuple[str, ...]] = (
        "every unit belongs to one step of each cycle, drawn once for the run, uniformly, independently of the "
        "others and kept secret; in that step it takes part with the stated chance, independently (cyclic Poisson "
        "sampling)",
    )

    noise_multiplier: float
    sampling_rate: float
    bands: int

    def __post_init__(self) -> None:
        _require_positive("noise_multiplier", self.noise_multiplier)
        _require_chance("sampling_rate", self.sampling_rate)
        _require_count("bands", self.bands)

    @property
    def steps(self) -> int:
        """Its releases."""
        return self.bands

    def in_words(self, count: int) -> str:
        """What `count` of them are, for people to read."""
        return (
            f"{counted(count, 'cycle')} of {self.bands:,} steps with noise multiplier {self.noise_multiplier:.4g}, "
            f"correlated over {self.bands:,} steps, and sampling rate {self.sampling_rate:.4g} in the one step of "
            "a cycle that a unit belongs to"
        )


@dataclass(frozen=True, slots=True)
class Laplace:
    """A vector of L1 sensitivity 1 released with Laplace noise of scale `scale`."""

    scale: float

    def __post_init__(self) -> None:
        _require_positive("scale", self.scale)


@dataclass(frozen=True, slots=True)
class ExponentialSampling:
    """One draw from a distribution whose log-probabilities move by bounded-range `epsilon` at most.

    Bounded range (Durfee and Rogers 2019): for neighbours P, Q the log-ratios log P/Q all lie in one interval
    of length `epsilon`. The exponential mechanism, and sampling from softmax of clipped logits, are of this kind.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class ConcentratedRelease:
    """A release proved `rho`-zCDP: D_a ≤ rho·a at every order. Clipped logit differences are of this kind."""

    rho: float

    def __post_init__(self) -> None:
        _require_positive("rho", self.rho)


@dataclass(frozen=True, slots=True)
class RealisedCharge:
    """A token released by SubMix (Algorithm 2): the leave-one-out divergence that this very release had.

    Holds at one order, for the actual data alone: the number is private and the promise is instance-level.
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        _require_order(self.order)
        _require_charge(self.epsilon)


@dataclass(frozen=True, slots=True)
class FilteredCharge:
    """A token released by SubMix-F: the charge of one part under its own Rényi filter, at one order.

    Worst case over all other parts; a sum kept below a fixed limit by a filter is an ordinary Rényi guarantee.
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        _require_order(self.order)
        _require_charge(self.epsilon)


@dataclass(frozen=True, slots=True)
class NoisyVote:
    """GNMax: the winner among vote counts with Gaussian noise of standard deviation `noise` added to each.

    `counts` are the actual votes where the price shall depend on them (data-dependent, hence private), or
    None for the worst case.
    """

    noise: float
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _require_positive("noise", self.noise)
        if self.counts is not None and (len(self.counts) < 2 or min(self.counts) < 0):
            raise ValueError("counts must be at least two non-negative numbers")


@dataclass(frozen=True, slots=True)
class NoisyCheck:
    """Whether a number passes a public threshold under Gaussian noise of standard deviation `noise`.

    One unit that is added, removed or replaced moves the number by at most 1, as it moves the votes of a leader.
    """

    noise: float

    def __post_init__(self) -> None:
        _require_positive("noise", self.noise)


@dataclass(frozen=True, slots=True)
class SubsampledMixture:
    """PMixED: each of `models` drawn with chance `sampling_rate`, mixed within radius `beta` of the public
    model at order `order`, the drawn mixtures averaged, one token sampled.

    `sampling_rate` 1 means all models answer every query.
    """

    models: int
    sampling_rate: float
    order: float
    beta: float

    def __post_init__(self) -> None:
        if self.models < 1:
            raise ValueError(f"models must be at least 1, found {self.models}")
        _require_chance("sampling_rate", self.sampling_rate)
        _require_order(self.order)
        _require_positive("beta", self.beta)


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same event `count` times, each run free to depend on what came before."""

    event: "Event"
    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be at least 0, found {self.count}")


@dataclass(frozen=True, slots=True)
class Composed:
    """Several events on the same data, each free to depend on what came before."""

    events: "tuple[Event, ...]"


@dataclass(frozen=True, slots=True)
class BestOfRuns:
    """The best of a random number of runs of one event, drawn from the truncated negative binomial distribution.

    `shape` is above −1 and `rate` in (0, 1); the number of runs, and every run but the best, stay secret.
    """

    event: "Event"
    shape: float
    rate: float

    def __post_init__(self) -> None:
        if not -1.0 < self.shape < math.inf:
            raise ValueError(f"shape must be above -1 and finite, found {self.shape}")
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"rate must be in (0, 1), found {self.rate}")


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """A release without any protection: its price is infinite."""


Round = Gaussian | SampledGaussian | RandomAllocation | BandedCycle
"""A round of training. It can be priced for any neighbours, as noisy sums can, and with any noise."""

Event = (
    Round
    | SampledGroup
    | Laplace
    | ExponentialSampling
    | ConcentratedRelease
    | RealisedCharge
    | FilteredCharge
    | NoisyVote
    | NoisyCheck
    | SubsampledMixture
    | Repeated
    | Composed
    | BestOfRuns
    | NonPrivate
)
"""Anything that can be charged to a ledger and priced by an accountant."""


def _require_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, found {value}")


def _require_chance(name: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{name} must be in (0, 1], found {value}")


def _require_count(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, found {value}")


def _require_order(value: float) -> None:
    if not value > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {value}")


def _require_charge(value: float) -> None:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"a charge must be finite and at least 0, found {value}")


_KINDS: tuple[type, ...] = get_args(Event)
_TYPES = {kind.__name__: kind for kind in _KINDS}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS}  # a ledger asks for every token


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as JSON values, its class name under "type"."""
    kind = type(event)
    if kind not in _FIELDS:
        raise UnsupportedEvent(f"{kind.__name__} is not an event")
    return {"type": kind.__name__} | {name: _encode(getattr(event, name)) for name in _FIELDS[kind]}


def event_from_json(document: dict[str, Any]) -> Event:
    """The event that `event_to_json` wrote; an unknown type or a field too many or too few is refused.

    Both are faults of the document (ConfigError). UnsupportedEvent is about events that exist and have no price.
    """
    values = dict(document)
    name = values.pop("type", None)
    if name not in _TYPES:
        raise ConfigError("an event of unknown type", found=repr(name))
    names = _FIELDS[_TYPES[name]]
    if set(values) != set(names):
        raise ConfigError(
            f"the fields of a {name} event do not fit", found=sorted(values), expected=", ".join(sorted(names))
        )
    event: Event = _TYPES[name](**{key: _decode(value) for key, value in values.items()})
    _require_parts(event)
    return event


def _require_parts(event: Event) -> None:
    """Refuse counts that are no whole numbers and parts that are no events: nothing is priced by guess."""
    match event:
        case Composed(events):
            is_whole = isinstance(events, tuple) and all(isinstance(part, _KINDS) for part in events)
        case BestOfRuns(part) | Repeated(part):
            is_whole = isinstance(part, _KINDS)
        case _:
            is_whole = True
    counts = (getattr(event, each.name) for each in fields(event) if each.type is int)
    if not (is_whole and all(isinstance(count, int) for count in counts)):
        raise ValueError(f"a part or a count of a {type(event).__name__} event is of another type")


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, _KINDS):
        return event_to_json(cast(Event, value))
    return value if value is None or isinstance(value, int) else number_to_json(float(value))


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        return event_from_json(value)
    return number_from_json(value) if isinstance(value, str) else value
