"""What the charts of a report show: curves, points and levels on two axes, without size, font or colour.

A colour is a role, "1" to "6" for runs and attacks, "muted" and "null" for what things are compared with; the
style sheet of the page gives it its colour, light or dark. `drawing` makes SVG of a figure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from reticent.core.printing.numbers import Scale, one_in, rounded_count
from reticent.reporting.content import Axis, Figure, Trace
from reticent.reporting.report import BudgetUse, CanaryExposure, LeakagePoint, RiskGroup, RiskMap, RiskPoint, Series

_MOST_POINTS: Final = 4000  # of a group in the map: the eye sees no more
_LABELLED: Final = 3  # texts most at risk whose id stands beside their point
_TOLD: Final = 60  # texts most at risk that say their numbers under the pointer
_ROLES: Final = 6


def role(place: int) -> str:
    """The colour of the run or attack at a place."""
    return str(place % _ROLES + 1)


def risk_figure(risk_map: RiskMap) -> Figure:
    """Log-probability of emission against calibrated loss; texts most at risk are ringed, the worst named."""
    order = sorted(risk_map.groups, key=lambda group: group.name == "training")  # training on top
    roles = {"training": "1", "held-out": "muted"}
    traces = [_risk_points(group, roles.get(group.name, role(place + 1))) for place, group in enumerate(order)]
    training = risk_map.group("training")
    if training is not None:
        traces.append(_worst_points(training, risk_map.samples))
    return Figure(
        tuple(traces),
        Axis("log10 of the probability that one sample is this record"),
        Axis("loss minus base loss (nats)", is_reversed=True),
        height=460,
    )


def _risk_points(group: RiskGroup, colour: str) -> Trace:
    points = group.points[:_MOST_POINTS]
    x, y = _places(points)
    return Trace(f"{group.name} (n = {len(group.points):,})", x, y, role=colour, kind="points")


def _worst_points(group: RiskGroup, samples: int) -> Trace:
    worst = [point for point, _ in group.worst(_TOLD)]
    x, y = _places(worst)
    told = tuple(_told(point, samples) for point in worst)
    labels = tuple(point.id for point in worst[:_LABELLED])
    return Trace("most at risk", x, y, role="2", kind="rings", told=told, labels=labels)


def _places(points: Sequence[RiskPoint]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(point.emission / math.log(10.0) for point in points), tuple(point.calibrated for point in points)


def _told(point: RiskPoint, samples: int) -> str:
    """Id, numbers and covered text of a point."""
    masked = "text not shown" if point.facts is None else point.facts.masked[:200]
    chance = f"in {rounded_count(samples)} samples: {one_in(point.log_chance)}"
    return f"{point.id}: {point.tokens} tokens; {chance}. {masked}"


def roc_figure(curves: Sequence[Series]) -> Figure:
    """True-positive against false-positive rate, both logarithmic, with the diagonal of chance."""
    least = min((x for curve in curves for x in curve.x if x > 0.0), default=1e-3)
    traces = [Trace("chance", (least, 1.0), (least, 1.0), role="null", dash="dot")]
    for place, curve in enumerate(curves):
        kept = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if x > 0.0 and y > 0.0]
        dash = "dash" if place >= _ROLES else ""
        x, y = tuple(x for x, _ in kept), tuple(y for _, y in kept)
        traces.append(Trace(curve.name, x, y, role=role(place), kind="steps", dash=dash))
    across = Axis("false-positive rate", is_log=True, ends=(least, 1.0), scale=Scale.SHARE)
    return Figure(tuple(traces), across, replace(across, title="true-positive rate"), height=440)


def exposure_figure(exposures: Sequence[CanaryExposure], null: float | None) -> Figure:
    """Every canary's exposure with its interval, the null and the most there can be."""
    places = tuple(float(place) for place in range(1, len(exposures) + 1))
    ends = (0.5, len(exposures) + 0.5)
    most = max(one.bits for one in exposures)
    values, low, high = zip(*((one.value, one.low, one.high) for one in exposures), strict=True)
    told = tuple(one.canary for one in exposures)
    traces = [
        Trace("exposure", places, values, role="1", kind="rings", low=low, high=high, told=told),
        Trace("the whole secret", ends, (most, most), role="muted", dash="dash"),
    ]
    if null is not None:
        traces.append(Trace("mean without memorisation", ends, (null, null), role="null", dash="dot"))
    return Figure(
        tuple(traces), Axis("planted secret", ends=ends), Axis("exposure (bits)", ends=(0.0, most)), height=320
    )


def extraction_figure(curves: Sequence[Series]) -> Figure:
    """Share of records seen against the number of samples, with intervals."""
    traces = tuple(
        Trace(
            curve.name + ("" if curve.n is None else f" (n = {curve.n:,})"),
            curve.x,
            curve.y,
            role="muted" if "held-out" in curve.name else role(place),
            low=curve.low,
            high=curve.high,
        )
        for place, curve in enumerate(curves)
    )
    return Figure(
        traces, Axis("samples drawn", is_log=True), Axis("records emitted", ends=(0.0, 1.0), scale=Scale.SHARE)
    )


def leakage_figure(points: Sequence[LeakagePoint]) -> Figure:
    """Bits that may leak at most against the length of a secret, below the line of all of it."""
    lengths = tuple(point.secret_bits for point in points)
    traces = [
        Trace("the whole secret", lengths, lengths, role="muted", dash="dot"),
        Trace("proved, at most", lengths, tuple(point.most for point in points), role="1"),
    ]
    if all(point.traditional is not None for point in points):
        usual = tuple(min(point.traditional or 0.0, 2.0 * point.secret_bits) for point in points)
        traces.append(Trace("by ε at δ = 2^−bits (for comparison)", lengths, usual, role="2", dash="dash"))
    return Figure(
        tuple(traces),
        Axis("length of the secret (bits)", is_from_zero=True),
        Axis("bits leaked, at most", is_from_zero=True),
    )


def budget_figure(use: BudgetUse) -> Figure:
    """What each account had spent by when, and the limit."""
    longest = max((curve.x[-1] for curve in use.accounts if curve.x), default=0.0)
    traces = [
        Trace(curve.name, curve.x, curve.y, role=role(place), kind="steps")
        for place, curve in enumerate(use.accounts)
    ]
    traces.append(Trace("limit", (0.0, longest), (use.limit, use.limit), role="null", dash="dash"))
    return Figure(
        tuple(traces),
        Axis("seconds since the first charge", is_from_zero=True),
        Axis(f"spent ({use.measure})", is_from_zero=True),
    )
