"""Pictures of experiments as small SVG files by matplotlib (extra `plot`): the same bytes for the same numbers."""

from pathlib import Path
from typing import Any, Final

from reticent.app.experiments.experiment import Line, Panel, Picture

_COLOURS: Final = ("#0b6e99", "#c2571a", "#4d7c0f", "#7c3aed", "#b91c1c", "#525252", "#0d9488", "#a16207")
_STYLE: Final = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.constrained_layout.use": True,
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

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{picture.name}.svg"
    count = len(picture.panels)
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, count, figsize=(max(5.0, 3.4 * count), 3.4), squeeze=False)
        for panel, each in zip(picture.panels, axes[0], strict=True):
            _draw_panel(each, panel)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return path


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
    axes.legend(framealpha=0.9, edgecolor="none", fontsize=7)


def _draw_line(axes: Any, line: Line, colour: str) -> None:
    style = "--" if line.is_dashed else "-" if line.is_joined else ""
    marker = "o" if line.is_marked else None
    axes.plot(line.x, line.y, style, color=colour, marker=marker, markersize=3, linewidth=1.5, label=line.name)
    if line.low and line.high:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
