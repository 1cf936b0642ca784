"""A figure as inline SVG: no script and no library, colours by class, so that it follows the theme and prints.

Plain points of one group are one path of short round strokes, some ten bytes each; only what says something under
the pointer is an element of its own. Whatever comes from a run is escaped here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from reticent.core.printing.numbers import Scale, rounded_count, shown
from reticent.core.printing.safe_text import for_terminal
from reticent.reporting.content import Axis, Figure, Trace
from reticent.reporting.sections.strips import round_places

_WIDTH: Final = 760
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 26, 12, 52
_DECADES: Final = 8  # ticks of a logarithmic axis, at most
_RADIUS: Final = 4
_LINE: Final = 16  # from one name to the next


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values of an axis to places on the drawing: `start` stands at `first`, `end` at `last`."""

    axis: Axis
    start: float
    end: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(one) if self.axis.is_log else one for one in (self.start, self.end, value))
        share = min(1.0, max(0.0, (at - low) / (high - low)))
        return round(self.first + share * (self.last - self.first), 1)

    def holds(self, value: float) -> bool:
        """Whether the value can stand on the axis at all."""
        return math.isfinite(value) and (value > 0.0 or not self.axis.is_log)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their words."""
        if not self.axis.is_log:
            return [(value, shown(value, self.axis.scale)) for value in round_places(self.start, self.end)]
        first, last = math.ceil(math.log10(self.start) - 1e-9), math.floor(math.log10(self.end) + 1e-9)
        step = max(1, math.ceil((last - first) / _DECADES))
        return [(10.0**power, self._words(10.0**power)) for power in range(first, last + 1, step)]

    def _words(self, value: float) -> str:
        is_count = self.axis.scale is Scale.PLAIN and value >= 1.0
        return rounded_count(value) if is_count else shown(value, self.axis.scale)


def draw(figure: Figure) -> Markup:
    """The drawing of a figure; its words and its data stand beside it."""
    across = _scale(figure.x, [x for trace in figure.traces for x in trace.x], _LEFT, _WIDTH - _RIGHT)
    bottom = figure.height - _BOTTOM
    heights = [y for trace in figure.traces for y in (*trace.y, *trace.low, *trace.high)]
    first, last = (_TOP, bottom) if figure.y.is_reversed else (bottom, _TOP)
    upward = _scale(figure.y, heights, first, last)
    pieces = [*_grid(across, upward, bottom), *_titles(figure, bottom)]
    for trace in figure.traces:
        pieces += _drawn(trace, across, upward)
    return Markup("").join(pieces)


def _scale(axis: Axis, values: Sequence[float], first: float, last: float) -> _Scale:
    known = [value for value in values if math.isfinite(value) and (value > 0.0 or not axis.is_log)]
    start, end = axis.ends or (min(known, default=1.0), max(known, default=2.0))
    if axis.is_from_zero:
        start, end = min(0.0, start), max(0.0, end)
    if axis.ends is None and not axis.is_log and not axis.is_from_zero:
        room = 0.04 * (end - start)
        start, end = start - room, end + room
    if not end > start:
        start, end = (start / 2.0, start * 2.0) if axis.is_log else (start - 0.5, start + 0.5)
    return _Scale(axis, start, end, first, last)


def _grid(across: _Scale, upward: _Scale, bottom: float) -> Iterator[Markup]:
    for value, words in across.ticks():
        at = across(value)
        yield _piece('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>', at, _TOP, bottom)
        yield _piece('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>', at, bottom + 18, words)
    for value, words in upward.ticks():
        at = upward(value)
        yield _piece('<line class="grid" x1="{1}" x2="{2}" y1="{0}" y2="{0}"/>', at, _LEFT, _WIDTH - _RIGHT)
        yield _piece('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>', _LEFT - 8, at + 4, words)


def _titles(figure: Figure, bottom: float) -> Iterator[Markup]:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield _piece('<text x="{}" y="{}" text-anchor="middle">{}</text>', middle, bottom + 42, figure.x.title)
    turned = '<text transform="translate(16 {}) rotate(-90)" text-anchor="middle">{}</text>'
    yield _piece(turned, (_TOP + bottom) / 2, figure.y.title)


def _drawn(trace: Trace, across: _Scale, upward: _Scale) -> Iterator[Markup]:
    kept = [
        place
        for place, (x, y) in enumerate(zip(trace.x, trace.y, strict=True))
        if across.holds(x) and upward.holds(y)
    ]
    at = [(across(trace.x[place]), upward(trace.y[place])) for place in kept]
    if trace.kind == "points":
        yield _piece('<path class="points r{}" d="{}"/>', trace.role, "".join(f"M{x:g} {y:g}h0" for x, y in at))
    elif trace.kind == "rings":
        for place, (x, y) in zip(kept, at, strict=True):
            yield from _ring(trace, place, x, y, upward=upward)
        yield from _labels(trace, dict(zip(kept, at, strict=True)), bottom=max(upward.first, upward.last))
    elif at:
        yield from _band(trace, kept, at, upward=upward)
        joined = _steps(at) if trace.kind == "steps" else "L".join(f"{x:g} {y:g}" for x, y in at)
        yield _piece('<path class="curve r{} {}" d="M{}"/>', trace.role, trace.dash, joined)


def _ring(trace: Trace, place: int, x: float, y: float, *, upward: _Scale) -> Iterator[Markup]:
    """A point with its interval and its words under the pointer."""
    if trace.low:
        ends = upward(trace.low[place]), upward(trace.high[place])
        yield _piece('<line class="error r{1}" x1="{0}" x2="{0}" y1="{2}" y2="{3}"/>', x, trace.role, *ends)
    told = trace.told[place] if trace.told else ""
    ring = '<circle class="ring r{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>'
    yield _piece(ring, trace.role, x, y, _RADIUS, told)


def _labels(trace: Trace, at: dict[int, tuple[float, float]], *, bottom: float) -> Iterator[Markup]:
    """Names beside the first rings, each on the nearest line that no other name takes; a lead shows whose it is."""
    taken: list[float] = []
    for place, name in enumerate(trace.labels):
        if place not in at:
            continue
        x, y = at[place]
        lines = sorted(range(_TOP + 8, int(bottom), _LINE), key=lambda line: abs(line - y))
        line = next((one for one in lines if all(abs(one - other) >= _LINE for other in taken)), y)
        taken.append(line)
        is_left = x > _WIDTH / 2
        beside = x - 26 if is_left else x + 26
        yield _piece('<path class="pointer" d="M{} {}L{} {}"/>', x, y, beside + (2 if is_left else -2), line)
        label = '<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>'
        yield _piece(label, beside, line + 4, "end" if is_left else "start", name)


def _band(
    trace: Trace, kept: Sequence[int], at: Sequence[tuple[float, float]], *, upward: _Scale
) -> Iterator[Markup]:
    if trace.low:
        above = [f"{x:g} {upward(trace.high[place]):g}" for place, (x, _) in zip(kept, at, strict=True)]
        below = [f"{x:g} {upward(trace.low[place]):g}" for place, (x, _) in zip(kept, at, strict=True)]
        yield _piece('<path class="band r{}" d="M{}Z"/>', trace.role, "L".join([*above, *reversed(below)]))


def _steps(at: Sequence[tuple[float, float]]) -> str:
    """Flat until the next place, then up."""
    first, *rest = at
    return f"{first[0]:g} {first[1]:g}" + "".join(f"H{x:g}V{y:g}" for x, y in rest)


def _piece(template: str, *values: object) -> Markup:
    """Markup with its values escaped, and without characters that hide or reorder text."""
    return Markup(template).format(*(escape(for_terminal(str(value))) for value in values))  # noqa: S704
