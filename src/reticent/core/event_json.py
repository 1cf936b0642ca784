"""Events as JSON: what a ledger row or a run file says about a release, and back.

An event is written as its class name under "type" beside its fields; events inside events nest. Infinity is the
word "inf" (`reticent.core.document`). An unknown name is refused: a reader never guesses what was released.
"""

from dataclasses import fields
from typing import Any, cast, get_args

from reticent.core.document import number_from_json, number_to_json
from reticent.core.errors import ConfigError, UnsupportedEvent
from reticent.core.event import (
    BandedCycle,
    BestOfRuns,
    Composed,
    Event,
    RandomAllocation,
    Repeated,
    SampledGroup,
    SubsampledMixture,
)

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
    """The event that `event_to_json` wrote; an unknown type or a field too many or too few is refused."""
    values = dict(document)
    name = values.pop("type", None)
    if name not in _TYPES:
        raise UnsupportedEvent(f"an event of unknown type, found {name!r}")
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
        case BestOfRuns(part):
            is_whole = isinstance(part, _KINDS)
        case Repeated(part, count):
            is_whole = isinstance(part, _KINDS) and isinstance(count, int)
        case SubsampledMixture(models=count) | RandomAllocation(batches=count) | SampledGroup(group=count):
            is_whole = isinstance(count, int)
        case BandedCycle(bands=count):
            is_whole = isinstance(count, int)
        case _:
            is_whole = True
    if not is_whole:
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
