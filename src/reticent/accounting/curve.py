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

from reticent.accounting.prices.best_of_runs import best_of_runs_epsilon
from reticent.accounting.prices.by_event import price_of
from reticent.accounting.search import least_between
from reticent.core.arrays import Floats
from reticent.core.choice import settle_choices
from reticent.core.event import BestOfRuns, Composed, Event, Repeated
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
        case _:
            return price_of(event).renyi(event, order, neighbours)


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
    """Orders at which parts of an event state their charge: above them it is unknown."""
    return {order for leaf, _ in leaves(event) for order in price_of(leaf).known_orders(leaf)}


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
