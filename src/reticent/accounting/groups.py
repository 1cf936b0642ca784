"""What a release is for several units that come and go together: an event again, of the parts' prices."""

from reticent.accounting.prices.by_event import price_of
from reticent.core.event import Composed, Event, Repeated

_MOST_UNITS = 1000


def group_event(event: Event, group: int) -> Event | None:
    """What the same release is for `group` units that come and go together; None where it is not of Gaussian steps.

    Guarantee: the returned event, priced for one unit, prices the given one for `group` units. None also for groups
    whose mixture would have more than a thousand parts: black-box group privacy is left for these.
    """
    if group > _MOST_UNITS:
        return None
    match event:
        case Composed(events):
            parts = [group_event(part, group) for part in events]
            return None if None in parts else Composed(tuple(part for part in parts if part is not None))
        case Repeated(part, count):
            one = group_event(part, group)
            return None if one is None else Repeated(one, count)
        case _:
            known = price_of(event).for_group
            return None if known is None else known(event, group)
