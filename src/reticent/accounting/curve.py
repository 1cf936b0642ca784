"""What events cost in Rényi divergence: every event at every order, composition written once.

    renyi_epsilon(event, order, neighbours)     D_a of the whole event, an upper bound in nats
    RenyiCurve(event, neighbours)               the same as a function of the order, with its optimisation

Divergences of one order add under adaptive composition (Mironov 2017, proposition 1), so `Composed` sums and
`Repeated` multiplies, and no formula below knows a count. D_a never falls as a grows, so a charge known at one
order also holds at every lower one, and is unknown (infinite) above.

Replacing one unit is removing it and adding another: distances double where a norm is the proof, bounded ranges
double, ρ of zCDP becomes 4ρ (Bun and Steinke 2016, proposition 27). An event without such an argument is refused.
Masking part of a record is priced as replacing the record.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reticent.accounting.bounds.parts import owner_point
from reticent.accounting.prices.best_of_runs import best_of_runs_epsilon
from reticent.accounting.prices.sampled_gaussian import sampled_gaussian_epsilon
from reticent.accounting.search import least_between
from reticent.core.arrays import Floats
from reticent.core.choice import settle_choices
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import (
    BandedCycle,
    BestOfRuns,
    Composed,
    ConcentratedRelease,
    Event,
    ExponentialSampling,
    FilteredCharge,
    Gaussian,
    Laplace,
    NoisyCheck,
    NoisyVote,
    NonPrivate,
    RandomAllocation,
    RealisedCharge,
    Repeated,
    SampledGaussian,
    SampledGroup,
    SubsampledMixture,
)
from reticent.core.guarantee import Neighbours

Objective = Callable[[float, float], float]

_GRID = 1.0 + np.geomspace(1e-3, 2e4, 148)  # ten points to a factor of 3.1 of a − 1; refined afterwards
_THINNED = 4  # the grid is looked at so thinly first


def renyi_epsilon(event: Event, order: float, neighbours: Neighbours) -> float:
    """D_a of an event in nats, worst case over neighbours, at any order in (1, ∞]; ∞ where nothing is known.

    Guarantee: the Rényi divergence of `order` between the outputs of neighbours, in either direction, is at most
    the returned number. An event that cannot be priced raises UnsupportedEvent.
    """
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")
    match event:
        case Composed(events):
            return math.fsum(renyi_epsilon(part, order, neighbours) for part in events)
        case Repeated(part, count):
            return count * renyi_epsilon(part, order, neighbours) if count else 0.0
        case BestOfRuns(part, shape, rate):
            return best_of_runs_epsilon(
                lambda each: renyi_epsilon(part, each, neighbours), order, shape=shape, rate=rate
            )
        case NonPrivate():
            return math.inf
        case _:
            return _leaf_epsilon(event, order, neighbours)


def _leaf_epsilon(event: Event, order: float, neighbours: Neighbours) -> float:
    """D_a of an event that holds no other."""
    distance = 1.0 if neighbours is Neighbours.ADD_REMOVE else 2.0
    match event:
        case Gaussian(noise_multiplier):
            return order * distance**2 / (2.0 * noise_multiplier**2)
        case SampledGaussian(noise_multiplier, sampling_rate) | BandedCycle(noise_multiplier, sampling_rate):
            return sampled_gaussian_epsilon(noise_multiplier, sampling_rate, order=order, neighbours=neighbours)
        case RandomAllocation() | SampledGroup():
            return math.inf  # priced by their privacy loss distribution alone
        case Laplace(scale):
            return _laplace(distance / scale, order)
        case ExponentialSampling(epsilon):
            return _bounded_range(distance * epsilon, order)
        case ConcentratedRelease(rho):
            return rho * distance**2 * order
        case RealisedCharge(known, epsilon) | FilteredCharge(known, epsilon):
            _require_add_remove(event, neighbours)
            return epsilon if order <= known else math.inf
        case NoisyVote():
            from reticent.accounting.prices.noisy_vote import noisy_vote_epsilon

            return noisy_vote_epsilon(event, order, neighbours)
        case NoisyCheck():
            from reticent.accounting.prices.noisy_vote import noisy_check_epsilon

            return noisy_check_epsilon(event, order)
        case SubsampledMixture():
            from reticent.accounting.prices.subsampled_mixture import subsampled_mixture_epsilon

            return subsampled_mixture_epsilon(event, order, neighbours)
        case _:
            raise UnsupportedEvent(f"no Rényi price is known for the event {type(event).__name__}")


def _require_add_remove(event: Event, neighbours: Neighbours) -> None:
    if neighbours is not Neighbours.ADD_REMOVE:
        raise UnsupportedEvent(
            f"the charge of {type(event).__name__} was computed for removing a part; "
            f"nothing is proved for neighbours '{neighbours.value}'"
        )


def _laplace(shift: float, order: float) -> float:
    """D_a between Laplace(0, 1) and Laplace(shift, 1): Mironov 2017, proposition 6.

    Convex in the shift and 0 at 0, hence superadditive: for a vector of L1 sensitivity 1 the worst case puts all of
    it into one coordinate.
    """
    if order == math.inf:
        return shift
    high, low = order / (2.0 * order - 1.0), (order - 1.0) / (2.0 * order - 1.0)
    if (order - 1.0) * shift > 1.0:
        exponents = math.log(high) + (order - 1.0) * shift, math.log(low) - order * shift
        return min(shift, float(np.logaddexp(*exponents)) / (order - 1.0))
    excess = high * math.expm1((order - 1.0) * shift) + low * math.expm1(-order * shift)
    return min(shift, math.log1p(max(excess, 0.0)) / (order - 1.0))


def _bounded_range(width: float, order: float) -> float:
    """D_a of two distributions whose log-ratios lie in an interval of length `width`, exactly.

    By convexity the worst pair has two points with log-ratios t and t − width (Dong, Durfee and Rogers 2020), and
    the worst t solves e^−t = a C / ((a − 1) A), A = 1 − e^{−a width}, C = e^{−width} − e^{−a width}.
    Never above width²·a/8 (Cesar and Rogers 2021), which is used where the exact form would cancel.
    """
    if order == math.inf:
        return width
    concentrated = order * width**2 / 8.0
    if order * width < 0.01:
        return concentrated
    log_a = math.log(-math.expm1(-order * width))
    log_c = -width + math.log(-math.expm1(-(order - 1.0) * width))
    top = log_a + math.log(order - 1.0) - math.log(order) - log_c
    log_moment = order * top + log_c - math.log(order - 1.0) - math.log(-math.expm1(-width))
    return min(width, concentrated, max(log_moment, 0.0) / (order - 1.0))


def leaves(event: Event) -> Iterator[tuple[Event, int]]:
    """Every event without parts inside `event`, with how often it happened (never 0)."""
    match event:
        case Composed(events):
            for part in events:
                yield from leaves(part)
        case Repeated(part, count):
            if count:
                for leaf, times in leaves(part):
                    yield leaf, times * count
        case _:
            yield event, 1


def known_orders(event: Event) -> set[float]:
    """Orders at which parts of an event state their charge: above them it is unknown.

    A mixture's charge for replacing one is known up to an order of its own, `owner_point` of the mixing order.
    """
    known = set()
    for leaf, _ in leaves(event):
        if isinstance(leaf, RealisedCharge | FilteredCharge | SubsampledMixture):
            known.add(leaf.order)
        if isinstance(leaf, SubsampledMixture):
            known.add(owner_point(leaf.order, 1.0)[0])
    return known


@dataclass(frozen=True, slots=True)
class RenyiCurve:
    """D_a of an event as a function of the order a."""

    event: Event
    neighbours: Neighbours

    def __post_init__(self) -> None:
        settle_choices(self, neighbours=Neighbours)

    def __call__(self, order: float) -> float:
        """D_a in nats at one order."""
        return renyi_epsilon(self.event, order, self.neighbours)

    def values(self, orders: Sequence[float] | Floats) -> Floats:
        """D_a at each of `orders` [n], as [n]."""
        return np.array([self(float(order)) for order in orders])

    def points(self, orders: Floats) -> list[tuple[float, float]]:
        """(order, D_order) at each of `orders` [n]."""
        return list(zip(orders.tolist(), self.values(orders).tolist(), strict=True))

    def orders(self) -> Floats:
        """Ascending orders that are worth looking at: a fine wide grid, and those at which a charge is known.

        With ∞ at the end where the event has a pure guarantee.
        """
        pure = {math.inf} if self(math.inf) < math.inf else set[float]()
        return np.array(sorted({*_GRID.tolist(), *known_orders(self.event), *pure}))

    def coarse_orders(self) -> Floats:
        """Every fourth of the orders on the grid, and all at which a charge is known."""
        orders = self.orders()
        return orders[[i % _THINNED == 0 or order not in _GRID for i, order in enumerate(orders)]]

    def minimise(
        self, objective: Objective, *, highest: float = math.inf, enough: float = -math.inf
    ) -> tuple[float, float]:
        """Least objective(order, D_order) over all orders up to `highest`, with its order.

        Every fourth order of the grid first, then those around the best of them, then by search between two.
        Orders at which a charge is known are always looked at. The first order whose objective is at most `enough`
        ends it all: for whoever asks only whether there is one.

        Guarantee: the value is the objective at the returned order exactly; a better order may exist, a worse
        number is never returned.
        """
        orders = self.orders()
        orders = orders[orders <= highest]
        scores: dict[int, float] = {}

        def best_of(places: Iterable[int]) -> int:
            for i in places:
                if i not in scores:
                    scores[i] = objective(float(orders[i]), self(float(orders[i])))
                    if scores[i] <= enough:
                        return i
            return min(scores, key=lambda i: (scores[i], i))

        coarse = set(self.coarse_orders().tolist())
        best = best_of(i for i, order in enumerate(orders.tolist()) if order in coarse)
        if not scores[best] <= enough:
            best = best_of(range(max(best - _THINNED, 0), min(best + _THINNED + 1, len(orders))))
        value, order = scores[best], float(orders[best])
        if value <= enough or not math.isfinite(value) or not math.isfinite(order):
            return value, order
        sides = (i for i in (best - 1, best + 1) if 0 <= i < len(orders))
        ends = [float(orders[i]) for i in sides if math.isfinite(orders[i]) and math.isfinite(scores[i])]
        low, high = min([order, *ends]), max([order, *ends])
        # Over log(a − 1), as the grid is.
        found, place = least_between(
            lambda t: objective(1.0 + math.exp(t), self(1.0 + math.exp(t))),
            math.log(low - 1.0),
            math.log(high - 1.0),
            within=1e-4,
        )
        return min((value, order), (found, 1.0 + math.exp(place)))
