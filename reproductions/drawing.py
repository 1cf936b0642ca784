"""Pictures of experiments as small SVG files by matplotlib (extra `plot`): the same bytes for the same numbers."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from reproductions.experiment import Line, Panel, Picture

_COLOURS: Final = ("#0b6e99", "#c2571a", "#4d7c0f", "#7c3aed", "#b91c1c", "#525252", "#0d9488", "#a16207")
_COLUMNS: Final = 2
_WIDTH, _HEIGHT = 4.2, 3.4  # of a panel with its legend, in inches
_FEW_VALUES: Final = 6  # that a logarithmic axis names one by one
_LEGEND, _HANDLE = 68, 8  # characters that fit below a panel; of them those that a line's sample takes
_STYLE: Final = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "reticent",
    "svg.fonttype": "none",
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(picture: Picture, folder: Path) -> Path:
    """Write `picture` into `folder`; the file."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{picture.name}.svg"
    with mpl.rc_context(_STYLE):
        figure_of(picture).savefig(path, metadata={"Date": None})
    return path


def figure_of(picture: Picture) -> Any:
    """The panels in rows of two; the legend of each stands below its axes, where it covers no data."""
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for panel, each in zip(picture.panels, places, strict=False):
        _draw_panel(each, panel)
    for each in places[len(picture.panels) :]:
        each.set_axis_off()
    return figure


def _draw_panel(axes: Any, panel: Panel) -> None:
    if panel.diagonal:
        ends = [min(x for line in panel.lines for x in line.x), max(x for line in panel.lines for x in line.x)]
        axes.plot(ends, ends, color="0.5", linewidth=1, label="y = x")
    for index, line in enumerate(panel.lines):
        _draw_line(axes, line, _COLOURS[(index if line.colour is None else line.colour) % len(_COLOURS)])
    axes.set(xlabel=panel.x, ylabel=panel.y)
    axes.set_title(panel.title, fontsize=9)
    if panel.is_log_x:
        axes.set_xscale("log")
    if panel.is_log_y:
        axes.set_yscale("log")
    _set_ticks(axes.xaxis, sorted({x for line in panel.lines for x in line.x}), is_log=panel.is_log_x)
    _set_ticks(axes.yaxis, sorted({y for line in panel.lines for y in line.y}), is_log=panel.is_log_y)
    labels = [text for text in axes.get_legend_handles_labels()[1] if text]
    if labels:
        # Below the label of the x axis: nothing that was drawn is ever behind it.
        longest = max(len(text) for text in labels)
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.2),
            ncols=min(len(labels), max(1, _LEGEND // (longest + _HANDLE))),
            frameon=False,
            fontsize=7,
            handlelength=2.8,  # long enough to tell a dashed line with markers
        )


def _set_ticks(axis: Any, values: Sequence[float], *, is_log: bool) -> None:
    """A few ticks that do not run into each other; on a logarithmic axis at the values where those are few."""
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        LogFormatterMathtext,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        NullLocator,
    )

    if not is_log:
        is_whole = all(float(value).is_integer() for value in values)
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10], integer=is_whole))
        return
    decades = math.log10(values[-1] / values[0])
    plain = FuncFormatter(lambda value, _: f"{value:,.6g}")
    if len(values) <= _FEW_VALUES:
        axis.set_major_locator(FixedLocator(list(values)))
        axis.set_minor_locator(NullLocator())
    else:
        # Less than two decades hold at most two powers of ten: 2 and 5 times each are named as well.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.0 else (1.0,), numticks=8))
    axis.set_major_formatter(plain if decades < 4.0 else LogFormatterMathtext())
    axis.set_minor_formatter(NullFormatter())


def _draw_line(axes: Any, line: Line, colour: str) -> None:
    style = "none" if not line.is_joined else "--" if line.is_dashed else "-"
    marker = "o" if line.is_marked or not line.is_joined else None
    axes.plot(
        line.x, line.y, linestyle=style, color=colour, marker=marker, markersize=3, linewidth=1.5, label=line.name
    )
    if line.low and line.high:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
