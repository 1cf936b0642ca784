"""From (ε, δ), a unit and a number of answers to a mechanism, its budget and what it proves.

Filters (SubMix-F) get a limit d in Rényi nats at one order a, the greatest whose conversion stays within (ε, δ):

    d = ε − log(1 − 1/a) + log(δ a)/(a − 1)          at part level
    the same at order a²/(2a−1) for (2a−1)/(a−1)·d   at owner level (`parts.owner_point`)

The order is the one with the greatest d/a². A small charge grows with a, a large one faster, and on customer
dialogues d/a² chose better orders than d/a (3 for 4 at ε = 8, 8 for 10 at ε = 2).

Mechanisms with one public price are calibrated so that the whole number of answers costs at most (ε, δ); their
ledger counts answers. Algorithm 2 gets the same order and limit as SubMix-F, but its guarantee is operational and
says nothing of (ε, δ). So does GNMax at the price of its actual votes; its noise is that of a tenth of the answers
at the worst-case price, and where votes agree less than that, it stops early.

Neighbours: part level is add or remove one part (it then answers as the public model); owner level is replace one,
since an owner's text stands in one part. GNMax is priced for replacing one part at either level: a part that says
what the public model says still votes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from reticent.accounting.bounds.parts import ONE_PART, owner_point
from reticent.accounting.conversion import rdp_epsilon
from reticent.accounting.curve import RenyiCurve
from reticent.accounting.guarantees import guarantee_of
from reticent.accounting.prices.subsampled_mixture import subsampled_mixture_epsilon
from reticent.core.choice import member_of, settle_choices
from reticent.core.errors import ConfigError
from reticent.core.event import (
    Composed,
    Event,
    ExponentialSampling,
    FilteredCharge,
    Laplace,
    NoisyVote,
    RealisedCharge,
    Repeated,
    SubsampledMixture,
)
from reticent.core.guarantee import UNSEEN, Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.core.ranges import EPSILON, ORDER, QUERIES
from reticent.prediction.mechanisms.aggregation import GNMax, SubsampleAndAggregate
from reticent.prediction.mechanisms.clipped_differences import ClippedDifferences
from reticent.prediction.mechanisms.confident import ConfidentGNMax
from reticent.prediction.mechanisms.mechanism import Layout, Mechanism
from reticent.prediction.mechanisms.pmixed import PMixED
from reticent.prediction.mechanisms.shaping import Shaping
from reticent.prediction.mechanisms.submix import SubMix, SubMixF
from reticent.prediction.mechanisms.unprotected import MemFree, NGramIndex, NonPrivateEnsemble, PublicModel

ORDERS = (*range(2, 17), 20, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
# What every mechanism's proof rests on.
ASSUMES = (
    f"the public model and its tokenizer were {UNSEEN}",
    "hyper-parameters of the parts and of the mechanism were not chosen by looking at the private text",
    "tokens alone are released: no probabilities, charges, mixing weights or timings that depend on the parts",
    "each charge is committed before its token is drawn",
    "tokens are drawn by a generator that the adversary cannot predict",
)
DEFAULT_WEIGHT_LIMIT = 0.3  # λmax of SubMix-F
# Of Confident-GNMax: the share of the price that checks take, the share of questions that the parts are to answer,
# and the share of the votes that the leader must have.
_CHECKING, _ANSWERED, _AGREEMENT = 0.5, 0.5, 0.8
_COUNTED_GAIN = 10  # how many times cheaper than in the worst case an answer is hoped to be at its actual votes
_ROUNDING = 1.0 - 1e-12


class MechanismName(StrEnum):
    """The private-prediction mechanisms by name."""

    SUBMIX_F = "submix-f"
    SUBMIX = "submix"
    SUBMIX_PER_PART = "submix-per-part"
    PMIXED = "pmixed"
    CLIPPED_DIFFERENCES = "clipped-differences"
    AGGREGATE = "subsample-and-aggregate"
    GNMAX = "gnmax"
    GNMAX_COUNTED = "gnmax-counted"
    CONFIDENT_GNMAX = "confident-gnmax"
    MEMFREE = "memfree"
    DP_SGD = "dp-sgd"
    NON_PRIVATE = "non-private"
    PUBLIC = "public"


# What may serve answers: the rest is for experiments, since it protects nothing, is no ensemble, holds for
# questions that no earlier answer had a part in (the price of actual votes), or is a rival that was never better.
SERVED: Final = tuple(
    kind
    for kind in MechanismName
    if kind
    not in (
        MechanismName.NON_PRIVATE,
        MechanismName.MEMFREE,
        MechanismName.DP_SGD,
        MechanismName.GNMAX_COUNTED,
        MechanismName.CONFIDENT_GNMAX,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionTarget:
    """What an ensemble may leak over so many queries. delta 0 asks for pure differential privacy."""

    epsilon: float
    delta: float
    queries: int
    unit: Unit = Unit.PART

    def __post_init__(self) -> None:
        settle_choices(self, unit=Unit)
        EPSILON.require("the target epsilon", self.epsilon)
        if not 0.0 <= self.delta < 1.0:
            raise ConfigError("the target delta must be in [0, 1)", found=self.delta)
        QUERIES.require("the query budget", self.queries)
        if self.unit not in (Unit.PART, Unit.OWNER):
            raise ConfigError(
                "prediction protects parts or owners", found=self.unit.value, expected="part or owner"
            )

    @property
    def neighbours(self) -> Neighbours:
        """Add or remove a part; replace an owner's text."""
        return Neighbours.ADD_REMOVE if self.unit is Unit.PART else Neighbours.REPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismOptions:
    """Public settings of mechanisms that a target leaves open; None lets the calibration choose."""

    shaping: Shaping = field(default_factory=Shaping)
    order: float | None = None
    weight_limit: float | None = None
    sampling_rate: float = 1.0
    index: NGramIndex | None = None

    def __post_init__(self) -> None:
        if self.order is not None and self.order != math.inf:
            ORDER.require("the Rényi order", self.order)
        if self.weight_limit is not None and not 0.0 < self.weight_limit < 1.0:
            raise ConfigError("the limit of the mixing weights must lie in (0, 1)", found=self.weight_limit)


@dataclass(frozen=True, slots=True)
class Setup:
    """A mechanism ready to run, and its budget; None where it needs none."""

    mechanism: Mechanism
    budget: Budget | None


def renyi_limit(target: PredictionTarget, order: float) -> float:
    """The most Rényi nats at `order`, a part, that stay within the target; may be negative.

    Guarantee: (order, limit)-Rényi privacy of every part implies the target's (ε, δ) for its unit.
    """
    reach, factor = order, 1.0
    if target.unit is Unit.OWNER:
        reach, factor = owner_point(order, 1.0)
    if reach == math.inf:
        return target.epsilon / factor
    if target.delta == 0.0:
        return -math.inf
    at_reach = target.epsilon - math.log1p(-1.0 / reach) + math.log(target.delta * reach) / (reach - 1.0)
    return at_reach / factor * _ROUNDING


def best_order(target: PredictionTarget, *, growth: float = 2.0) -> float:
    """The order a with the greatest limit over a^growth, which is how charges grow with it; ∞ where none has one.

    `growth` 1 is right for small charges, and was the rule of version 0.1.
    """
    order = max(ORDERS, key=lambda a: renyi_limit(target, a) / a**growth)
    return float(order) if renyi_limit(target, order) > 0.0 else math.inf


def filter_guarantee(target: PredictionTarget, order: float, limit: float) -> Guarantee:
    """What a SubMix-F ensemble proves whose parts may spend `limit` at `order`.

    Guarantee: (ε, δ)-differential privacy for the target's unit, for any number of queries.
    """
    return guarantee_of(
        FilteredCharge(order, limit),
        delta=target.delta,
        unit=target.unit,
        mechanism="SubMix-F",
        assumes=(
            *ASSUMES,
            "parts, order, budget and the limit of the mixing weights are public",
            "a part's mixing weight and charge follow from its own rows, the public model's and the transcript",
        ),
    )


def set_up_mechanism(
    kind: MechanismName, target: PredictionTarget, layout: Layout, *, options: MechanismOptions | None = None
) -> Setup:
    """A mechanism calibrated to the target, with its budget."""
    kind = member_of(MechanismName, kind, name="kind")
    chosen = options or MechanismOptions()
    match kind:
        case MechanismName.SUBMIX_F:
            return _submix_f(target, layout, chosen)
        case MechanismName.SUBMIX | MechanismName.SUBMIX_PER_PART:
            return _submix(target, layout, chosen, common=kind is MechanismName.SUBMIX)
        case MechanismName.PMIXED:
            return _pmixed(target, layout, chosen)
        case MechanismName.CLIPPED_DIFFERENCES:
            return _clipped(target, layout, chosen)
        case MechanismName.AGGREGATE:
            return _aggregate(target, layout, chosen)
        case MechanismName.GNMAX:
            return _gnmax(target, layout, chosen)
        case MechanismName.GNMAX_COUNTED:
            return _gnmax_counted(target, layout, chosen)
        case MechanismName.CONFIDENT_GNMAX:
            return _confident_gnmax(target, layout, chosen)
        case MechanismName.PUBLIC:
            return Setup(PublicModel(layout, chosen.shaping), None)
        case MechanismName.DP_SGD:
            raise ConfigError("a DP-SGD model is not part of an ensemble", hint="name its run with --dp-sgd RUN")
        case MechanismName.NON_PRIVATE:
            return _unprotected(NonPrivateEnsemble(layout, chosen.shaping), target)
        case MechanismName.MEMFREE:
            if chosen.index is None:
                raise ConfigError("MemFree needs the n-grams of the training text", hint="give an NGramIndex")
            return _unprotected(MemFree(layout, chosen.index, chosen.shaping), target)


def _order_and_limit(target: PredictionTarget, order: float | None) -> tuple[float, float]:
    chosen = best_order(target) if order is None else order
    limit = renyi_limit(target, chosen)
    if not limit > 0.0:
        raise ConfigError(
            f"order {chosen:g} proves nothing within epsilon {target.epsilon:g} at delta {target.delta:g}",
            hint=f"choose order {best_order(target):g}, or a greater epsilon or delta",
        )
    return chosen, limit


def _submix_f(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    order, limit = _order_and_limit(target, options.order)
    mechanism = SubMixF(layout, order, options.weight_limit or DEFAULT_WEIGHT_LIMIT, options.shaping)
    return Setup(mechanism, Budget(str(mechanism.measure), limit, filter_guarantee(target, order, limit)))


def _submix(target: PredictionTarget, layout: Layout, options: MechanismOptions, *, common: bool) -> Setup:
    order, limit = _order_and_limit(target, options.order)
    mechanism = SubMix(layout, limit / target.queries, order, common, options.shaping)
    hidden = "nobody is told when the parts stopped answering"
    return _realised(mechanism, order, limit, name="SubMix, Algorithm 2", assumes=hidden)


def _realised(mechanism: Mechanism, order: float, limit: float, *, name: str, assumes: str) -> Setup:
    """A budget in Rényi nats of actual charges, whose guarantee is operational and speaks of the actual data."""
    promise = guarantee_of(
        RealisedCharge(order, limit), delta=0.0, unit=Unit.PART, mechanism=name, assumes=(*ASSUMES, assumes)
    )
    return Setup(mechanism, Budget(str(mechanism.measure), limit, promise))


def _pmixed(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    """The greatest β over orders: a part's weight is the largest with a/2·λ²χ² ≤ βa, about."""
    orders = ORDERS if options.order is None else (options.order,)
    best, best_beta = 0.0, 0.0
    for order in orders:
        beta = _pmixed_beta(target, layout, float(order), options.sampling_rate)
        if beta > best_beta:
            best, best_beta = float(order), beta
    if best_beta == 0.0:
        raise ConfigError("no radius of PMixED stays within the target", hint="raise epsilon or delta")
    mechanism = PMixED(layout, best_beta, best, options.sampling_rate, options.shaping)
    return _metered(mechanism, mechanism.event, target)


def _pmixed_reach(target: PredictionTarget, order: float) -> float:
    """The highest order at which PMixED's price is known."""
    return order if target.unit is Unit.PART else owner_point(order, 1.0)[0]


def _pmixed_beta(target: PredictionTarget, layout: Layout, order: float, rate: float) -> float:
    """The greatest β whose price at the highest order it is known at stays within the target, 0 if none."""
    reach = _pmixed_reach(target, order)
    # The replace price already speaks of the owner: convert at its own order, as for a part.
    limit = renyi_limit(replace(target, unit=Unit.PART), reach) / target.queries
    if not limit > 0.0:
        return 0.0

    def fits(beta: float) -> bool:
        event = SubsampledMixture(layout.parts, rate, order, beta)
        return subsampled_mixture_epsilon(event, reach, target.neighbours) <= limit

    return _greatest(fits, 1e-9, 50.0)


def _clipped(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    width = _least_noise(lambda w: _within(ExponentialSampling(w), target), 1e-9, 100.0)
    clip = 0.5 * width * layout.parts * options.shaping.temperature
    mechanism = ClippedDifferences(layout, clip * _ROUNDING, options.shaping)
    return _metered(mechanism, mechanism.event, target)


def _aggregate(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    # Scale b of the noise on the mean: Laplace(bk/2) for a part removed, Laplace(bk) for one replaced.
    half = 0.5 if target.unit is Unit.PART else 1.0
    shift = _least_noise(lambda s: _within(Laplace(1.0 / s), target), 1e-9, 1e3)
    mechanism = SubsampleAndAggregate(layout, 1.0 / (half * shift * layout.parts), shaping=options.shaping)
    event = mechanism.event if target.unit is Unit.PART else mechanism.replace_event
    return _metered(mechanism, event, target)


def _gnmax(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    # A part that is removed votes as the public model does: its vote moves, which is the price of replacing one.
    moved = Neighbours.REPLACE
    inverse = _least_noise(lambda s: _within(NoisyVote(1.0 / s), target, moved), 1e-9, 1e3)
    mechanism = GNMax(layout, 1.0 / inverse, neighbours=moved, shaping=options.shaping)
    return _metered(mechanism, mechanism.event, target, moved)


def _gnmax_counted(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    """GNMax at the price of its actual votes: for questions that are fixed ahead, and for the actual data alone."""
    moved = Neighbours.REPLACE  # a part that is removed votes as the public model does: its vote moves
    order, limit = _order_and_limit(replace(target, unit=Unit.PART), options.order)
    few = replace(target, queries=max(1, target.queries // _COUNTED_GAIN))
    inverse = _least_noise(lambda s: _within(NoisyVote(1.0 / s), few, moved), 1e-9, 1e3)
    mechanism = GNMax(layout, 1.0 / inverse, counted=True, order=order, neighbours=moved, shaping=options.shaping)
    fixed = "the questions are fixed ahead: none depends on an earlier answer"
    return _realised(mechanism, order, limit, name="GNMax at its actual votes", assumes=fixed)


def _confident_gnmax(target: PredictionTarget, layout: Layout, options: MechanismOptions) -> Setup:
    """Checks for all questions and answers to some of them, which share the greatest slope that fits the target."""
    moved = Neighbours.REPLACE  # a part that is removed votes as the public model does: its vote moves
    answers = math.ceil(_ANSWERED * target.queries)

    def made(slope: float) -> tuple[ConfidentGNMax, Event]:
        """All checks and answers together cost slope·a at every order a, the checks their share of it."""
        check_noise = math.sqrt(target.queries / (2.0 * _CHECKING * slope))
        noise = math.sqrt(answers / ((1.0 - _CHECKING) * slope))
        mechanism = ConfidentGNMax(layout, check_noise, noise, _AGREEMENT * layout.parts, shaping=options.shaping)
        return mechanism, Composed((Repeated(mechanism.check, target.queries), Repeated(mechanism.answer, answers)))

    slope = _least_noise(lambda s: _fits(made(s)[1], target, moved), 1e-18, 1e6)
    mechanism, event = made(slope)
    promise = _promise(mechanism, event, target, moved)
    return Setup(
        mechanism, Budget(str(mechanism.measure), answers + target.queries * mechanism.check_cost, promise)
    )


def _within(event: Event, target: PredictionTarget, neighbours: Neighbours | None = None) -> bool:
    """Whether all answers together stay within the target, by Rényi accounting."""
    return _fits(Repeated(event, target.queries), target, neighbours or target.neighbours)


def _fits(event: Event, target: PredictionTarget, neighbours: Neighbours) -> bool:
    """Whether all that is ever released stays within the target, by Rényi accounting."""
    return rdp_epsilon(RenyiCurve(event, neighbours), delta=target.delta).value <= target.epsilon


def _metered(
    mechanism: Mechanism, event: Event, target: PredictionTarget, neighbours: Neighbours | None = None
) -> Setup:
    """A budget of so many answers, and what all of them together prove."""
    promise = _promise(mechanism, Repeated(event, target.queries), target, neighbours or target.neighbours)
    return Setup(mechanism, Budget(str(mechanism.measure), float(target.queries), promise))


def _promise(mechanism: Mechanism, event: Event, target: PredictionTarget, neighbours: Neighbours) -> Guarantee:
    """What a number of answers that is fixed ahead proves."""
    return guarantee_of(
        event,
        delta=target.delta,
        unit=target.unit,
        neighbours=neighbours,
        mechanism=mechanism.name,
        assumes=(
            *ASSUMES,
            "the number of answers is fixed ahead",
            *((ONE_PART,) if target.unit is Unit.OWNER else ()),
        ),
    )


def _unprotected(mechanism: Mechanism, target: PredictionTarget) -> Setup:
    promise = Guarantee(
        mechanism=mechanism.name,
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=target.unit,
        neighbours=target.neighbours,
        epsilon=math.inf,
        delta=1.0,
        covers="nothing: no guarantee",
    )
    return Setup(mechanism, Budget(str(mechanism.measure), float(target.queries), promise))


def _least_noise(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The greatest inverse of a noise that fits; refused where none does."""
    found = _greatest(fits, low, high)
    if found == 0.0:
        raise ConfigError(
            "no noise keeps so many answers within the target",
            hint="raise epsilon or delta, or lower the number of answers",
        )
    return found


def _greatest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The greatest value that fits, within 1e-4 of it and never above, by halving the logarithm; 0 if none does."""
    if fits(high):
        return high
    if not fits(low):
        return 0.0
    bottom, top = math.log(low), math.log(high)
    while top - bottom > 1e-4:
        middle = 0.5 * (bottom + top)
        bottom, top = (middle, top) if fits(math.exp(middle)) else (bottom, middle)
    return math.exp(bottom)
