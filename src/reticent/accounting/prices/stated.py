"""Events that state what they cost: a proved ρ, a charge known at one order, or no protection at all."""

import math
from typing import Final

from reticent.accounting.prices.price import Price, distance
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import ConcentratedRelease, FilteredCharge, NonPrivate, RealisedCharge
from reticent.core.guarantee import Neighbours


def _charge(event: RealisedCharge | FilteredCharge, order: float, neighbours: Neighbours) -> float:
    """The charge holds at its order and below, for removing a part alone."""
    if neighbours is not Neighbours.ADD_REMOVE:
        raise UnsupportedEvent(
            f"the charge of {type(event).__name__} was computed for removing a part; "
            f"nothing is proved for neighbours '{neighbours.value}'"
        )
    return event.epsilon if order <= event.order else math.inf


# ρ of zCDP becomes 4ρ where one is replaced (Bun and Steinke 2016, proposition 27).
CONCENTRATED: Final = Price(
    ConcentratedRelease, renyi=lambda event, order, neighbours: event.rho * distance(neighbours) ** 2 * order
)
REALISED: Final = Price(RealisedCharge, renyi=_charge, known_orders=lambda event: {event.order})
FILTERED: Final = Price(FilteredCharge, renyi=_charge, known_orders=lambda event: {event.order})
NON_PRIVATE: Final = Price(NonPrivate)
