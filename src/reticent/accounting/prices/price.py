"""What accounting knows of one kind of event, in one object: a `Price`, in the event's file of this folder.

`by_event` says which belongs to which event. What a price leaves out is not known, and whoever asks for it refuses
the event or does without.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

from reticent.accounting.loss_sums import Losses
from reticent.core.event import Event, SampledGaussian
from reticent.core.guarantee import Neighbours

E = TypeVar("E", bound=Event)

MOST_CELLS = 130_000  # cells of one release's distribution: a second of work on one core


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDistribution(Generic[E]):
    """The privacy loss distribution of one release, on a grid.

    `losses` gives those of removing and of adding a unit (one side stands for both where they are the same), and
    how many cells were computed. `least_spacing` is the spacing at which there are as many as there may be.
    """

    losses: Callable[[E, Neighbours, float], tuple[tuple[Losses, ...], int]]
    least_spacing: Callable[[E, Neighbours], float]
    # Whether it is also that of a replaced unit; else replacing is priced as removing and adding.
    is_known_for_replaced: bool = False


@dataclass(frozen=True, slots=True)
class Price(Generic[E]):
    """Everything that is known of the cost of one kind of event.

    renyi                D_a of one release in nats, from above, at any order in (1, ∞]; ∞ where nothing is known
    known_orders         orders up to which a charge is known: above them it is infinite
    distribution         its privacy loss distribution
    simplest             the same release, or one that costs as much for every relation of neighbours, by a simpler
                         name: it is that one whose distribution is taken
    for_group            the event that prices the release for several units that come and go together
    as_sampled_gaussian  the release as a sampled Gaussian, where it is one: these are priced far below round-off
    """

    event: type[E]
    _: KW_ONLY
    renyi: Callable[[E, float, Neighbours], float] = lambda *_: math.inf
    known_orders: Callable[[E], set[float]] = lambda _: set()
    distribution: LossDistribution[E] | None = None
    simplest: Callable[[E], Event] = lambda event: event
    for_group: Callable[[E, int], Event] | None = None
    as_sampled_gaussian: Callable[[E], SampledGaussian] | None = None


def distance(neighbours: Neighbours) -> float:
    """How far neighbours move a sum, in sensitivities: replacing one is removing it and adding another."""
    return 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0
