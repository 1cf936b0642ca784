"""Which price belongs to which event. An event without an entry has none, and is never priced by guess."""

from typing import Any, Final

from reticent.accounting.prices.banded_cycle import BANDED_CYCLE
from reticent.accounting.prices.bounded_range import EXPONENTIAL_SAMPLING
from reticent.accounting.prices.laplace import LAPLACE
from reticent.accounting.prices.noisy_vote import NOISY_CHECK, NOISY_VOTE
from reticent.accounting.prices.price import LossDistribution, Price
from reticent.accounting.prices.random_allocation import RANDOM_ALLOCATION
from reticent.accounting.prices.sampled_gaussian import GAUSSIAN, SAMPLED_GAUSSIAN
from reticent.accounting.prices.sampled_group import SAMPLED_GROUP
from reticent.accounting.prices.stated import CONCENTRATED, FILTERED, NON_PRIVATE, REALISED
from reticent.accounting.prices.subsampled_mixture import SUBSAMPLED_MIXTURE
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Event, NonPrivate


def _refuse(event: Event, *_: object) -> float:
    raise UnsupportedEvent(f"no Rényi price is known for the event {type(event).__name__}")


_EVERY: Final[tuple[Price[Any], ...]] = (
    GAUSSIAN,
    SAMPLED_GAUSSIAN,
    SAMPLED_GROUP,
    RANDOM_ALLOCATION,
    BANDED_CYCLE,
    LAPLACE,
    EXPONENTIAL_SAMPLING,
    CONCENTRATED,
    REALISED,
    FILTERED,
    NOISY_VOTE,
    NOISY_CHECK,
    SUBSAMPLED_MIXTURE,
    NON_PRIVATE,
)
_PRICES: Final = {price.event: price for price in _EVERY}
_UNKNOWN: Final[Price[Any]] = Price(NonPrivate, renyi=_refuse)  # of whatever event: it knows nothing


def price_of(event: Event) -> Price[Any]:
    """The price of an event without parts; for one that is not listed, a price that knows nothing."""
    return _PRICES.get(type(event), _UNKNOWN)


def distribution_of(event: Event) -> LossDistribution[Any]:
    """The privacy loss distribution of an event without parts; UnsupportedEvent where none is known."""
    found = price_of(event).distribution
    if found is None:
        raise UnsupportedEvent(f"no privacy loss distribution is known for the event {type(event).__name__}")
    return found
