"""Charts as plotly figures in plain dictionaries; the page gives colours, fonts and sizes.

A colour is a role, "role:1" to "role:6" for runs and attacks, "role:muted" and "role:null" for what things are
compared with: the page's script puts in the colours of the theme, light or dark, and again when it changes.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from reticent.core.numbers import compact, one_in
from reticent.core.safe_text import for_html
from reticent.reporting.content import Figure
from reticent.reporting.report import BudgetUse, CanaryExposure, LeakagePoint, RiskGroup, RiskMap, Series

_MOST_POINTS: Final = 4000  # of a group in the map: beyond, a page gets slow and the eye sees no more
_ROLES: Final = 6


def role(place: int) -> str:
    """The colour of the run or attack at a place."""
    return f"role:{place % _ROLES + 1}"


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [compact(value) for value in values]


def risk_figure(risk_map: RiskMap) -> Figure:
    """Log-probability of emission against calibrated loss, every record a point with its id."""
    traces = []
    styles = {"training": ("role:1", "circle"), "held-out": ("role:muted", "circle-open")}
    order = sorted(risk_map.groups, key=lambda group: group.name == "training")  # training on top
    for place, group in enumerate(order):
        colour, symbol = styles.get(group.name, (role(place + 1), "diamond"))
        points = group.points[:_MOST_POINTS]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{for_html(group.name)} (n = {len(group.points):,})",
                "x": _numbers([point.emission / math.log(10.0) for point in points]),
                "y": _numbers([point.calibrated for point in points]),
                "customdata": [list(words) for words in _hover_words(group, risk_map.samples)],
                "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<extra></extra>",
                "marker": {"color": colour, "symbol": symbol, "size": 7, "opacity": 0.75},
            }
        )
    layout = {
        "xaxis": {"title": {"text": "log10 of the chance that one sample is this record"}},
        "yaxis": {"title": {"text": "loss minus base model’s loss (nats)"}, "autorange": "reversed"},
    }
    return {"data": traces, "layout": layout}


def _hover_words(group: RiskGroup, samples: int) -> list[tuple[str, str, str]]:
    """Id, numbers and covered text of each point."""
    words = []
    for point in group.points[:_MOST_POINTS]:
        chance = f"{point.tokens} tokens; in {samples:,} samples: {one_in(point.log_chance)}"
        masked = "text covered" if point.facts is None else _wrapped(point.facts.masked)
        words.append((for_html(point.id), chance, masked))
    return words


def _wrapped(text: str, width: int = 56, most: int = 4) -> str:
    """A covered text in a few lines."""
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    return "<br>".join(for_html(line) for line in lines[:most]) + ("…" if len(lines) > most else "")


def roc_figure(curves: Sequence[Series]) -> Figure:
    """True-positive against false-positive rate, both logarithmic, with the diagonal of chance."""
    least = min((x for curve in curves for x in curve.x if x > 0.0), default=1e-3)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "chance",
            "x": [least, 1.0],
            "y": [least, 1.0],
            "line": {"color": "role:null", "dash": "dot", "width": 1.5},
            "hoverinfo": "skip",
        }
    ]
    for place, curve in enumerate(curves):
        kept = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if x > 0.0 and y > 0.0]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": for_html(curve.name),
                "x": _numbers([x for x, _ in kept]),
                "y": _numbers([y for _, y in kept]),
                "line": {
                    "color": role(place),
                    "width": 2,
                    "shape": "hv",
                    "dash": "dash" if place >= _ROLES else "solid",
                },
                "hovertemplate": "false alarms %{x:.3g}<br>found %{y:.3g}<extra>%{fullData.name}</extra>",
            }
        )
    edge = {"type": "log", "range": [math.log10(least), 0.0], "dtick": 1}
    return {
        "data": traces,
        "layout": {
            "xaxis": edge | {"title": {"text": "false-positive rate"}},
            "yaxis": edge | {"title": {"text": "true-positive rate"}},
        },
    }


def exposure_figure(exposures: Sequence[CanaryExposure], null: float | None) -> Figure:
    """Every canary's exposure with its interval, the null and the most there can be."""
    names = [for_html(one.canary) for one in exposures]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "exposure",
            "x": names,
            "y": _numbers([one.value for one in exposures]),
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": _numbers([one.high - one.value for one in exposures]),
                "arrayminus": _numbers([one.value - one.low for one in exposures]),
                "color": "role:1",
                "thickness": 1.5,
                "width": 4,
            },
            "marker": {"color": "role:1", "size": 10},
            "hovertemplate": "<b>%{x}</b><br>%{y:.2f} bits<extra></extra>",
        },
        _level(names, max(one.bits for one in exposures), "all of the secret", "role:muted", "dash"),
    ]
    if null is not None:
        traces.append(_level(names, null, "mean without memorisation", "role:null", "dot"))
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "planted secret"}, "type": "category"},
            "yaxis": {"title": {"text": "exposure (bits)"}, "rangemode": "tozero"},
        },
    }


def _level(x: Sequence[str], height: float, name: str, colour: str, dash: str) -> dict[str, Any]:
    line = {"color": colour, "dash": dash, "width": 1.5}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": [compact(height)] * len(x),
        "line": line,
    }


def extraction_figure(curves: Sequence[Series]) -> Figure:
    """Share of records seen against the number of samples, with intervals."""
    traces: list[dict[str, Any]] = []
    for place, curve in enumerate(curves):
        colour = "role:muted" if "held-out" in curve.name else role(place)
        if curve.low:
            edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "x": _numbers(curve.x)}
            quiet = {"hoverinfo": "skip", "showlegend": False}
            traces.append(edge | quiet | {"y": _numbers(curve.high)})
            filled = {"y": _numbers(curve.low), "fill": "tonexty", "fillcolor": f"{colour}:band"}
            traces.append(edge | quiet | filled)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": for_html(curve.name) + ("" if curve.n is None else f" (n = {curve.n:,})"),
                "x": _numbers(curve.x),
                "y": _numbers(curve.y),
                "line": {"color": colour, "width": 2},
                "hovertemplate": "%{x:.3g} samples: %{y:.2%}<extra></extra>",
            }
        )
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "samples drawn"}, "type": "log", "exponentformat": "power"},
            "yaxis": {"title": {"text": "records seen"}, "tickformat": ".0%", "rangemode": "tozero"},
        },
    }


def leakage_figure(points: Sequence[LeakagePoint]) -> Figure:
    """Bits that may leak at most against the length of a secret, below the line of all of it."""
    lengths = _numbers([point.secret_bits for point in points])
    lines = [
        ("the whole secret", lengths, "role:muted", "dot"),
        ("proved, at most", _numbers([point.most for point in points]), "role:1", "solid"),
    ]
    if all(point.traditional is not None for point in points):
        usual = [min(point.traditional or 0.0, 2.0 * point.secret_bits) for point in points]
        lines.append(("by ε at δ = 2^−bits (for comparison)", _numbers(usual), "role:2", "dash"))
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": lengths,
            "y": values,
            "line": {"color": colour, "dash": dash, "width": 2},
            "hovertemplate": "secret of %{x:.0f} bits: %{y:.1f} bits<extra>%{fullData.name}</extra>",
        }
        for name, values, colour, dash in lines
    ]
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "length of the secret (bits)"}, "rangemode": "tozero"},
            "yaxis": {"title": {"text": "bits leaked, at most"}, "rangemode": "tozero"},
        },
    }


def budget_figure(use: BudgetUse) -> Figure:
    """What each account had spent by when, and the limit."""
    longest = max((curve.x[-1] for curve in use.accounts if curve.x), default=0.0)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": for_html(curve.name),
            "x": _numbers(curve.x),
            "y": _numbers(curve.y),
            "line": {"color": role(place), "width": 2, "shape": "hv"},
            "hovertemplate": "after %{x:.3g} s: %{y:.6g}<extra>%{fullData.name}</extra>",
        }
        for place, curve in enumerate(use.accounts)
    ]
    limit = {"color": "role:null", "dash": "dash", "width": 1.5}
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "limit",
            "x": [0.0, compact(longest)],
            "y": [use.limit] * 2,
            "line": limit,
        }
    )
    return {
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "seconds since the first charge"}},
            "yaxis": {"title": {"text": f"spent ({for_html(use.measure)})"}, "rangemode": "tozero"},
        },
    }
