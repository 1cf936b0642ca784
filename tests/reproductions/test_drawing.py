"""Pictures of experiments: points that are not joined stay apart, legends cover nothing, ticks can be read."""

import itertools

import pytest

from reproductions.drawing import draw, figure_of
from reproductions.experiment import Line, Panel, Picture

pytest.importorskip("matplotlib")

LONG = "a name that is rather long"


def panel(*lines: Line, **changes) -> Panel:
    chosen = {"title": "a title", "x": "queries", "y": "perplexity", "lines": lines}
    return Panel(**(chosen | changes))


def line(name="first", **changes) -> Line:
    chosen = {"name": name, "x": (1.0, 2.0, 3.0), "y": (3.0, 1.0, 2.0), "is_marked": True}
    return Line(**(chosen | changes))


def drawn(*panels: Panel):
    """The figure with everything in its place."""
    figure = figure_of(Picture("test", panels))
    figure.draw_without_rendering()
    return figure


def overlapping_ticks(figure) -> list[str]:
    """Names of ticks that run into their neighbour."""
    found = []
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            # Ticks outside the axis are kept by the library and not drawn.
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            boxes = [tick.label1.get_window_extent() for tick in ticks if tick.label1.get_text()]
            found += [
                tick.label1.get_text()
                for tick, (one, other) in zip(ticks, itertools.pairwise(boxes), strict=False)
                if one.overlaps(other)
            ]
            found += [text.get_text() for text in axis.get_ticklabels(minor=True) if text.get_text()]
    return found


def covered(figure) -> list[str]:
    """Titles of panels whose legend stands inside the axes, where data may be."""
    return [
        axes.get_title()
        for axes in figure.axes
        if axes.get_legend() is not None
        and axes.get_legend().get_window_extent().overlaps(axes.get_window_extent())
    ]


@pytest.mark.parametrize(
    ("one", "style", "marker"),
    [
        (line(is_joined=False), "None", "o"),
        (line(is_joined=False, is_marked=False), "None", "o"),  # else nothing at all would be seen
        (line(is_joined=False, is_dashed=True), "None", "o"),
        (line(), "-", "o"),
        (line(is_marked=False), "-", "None"),
        (line(is_dashed=True), "--", "o"),
    ],
)
def test_points_are_joined_only_where_the_line_says_so(one, style, marker):
    (made,) = drawn(panel(one)).axes[0].get_lines()
    assert (made.get_linestyle(), made.get_marker()) == (style, marker)
    assert list(made.get_xdata()) == [1.0, 2.0, 3.0]


CROWDED = [
    panel(*(line(f"{LONG} {place}", y=(place, place + 1.0, place)) for place in range(7))),
    panel(line(x=(128.0, 256.0, 512.0)), is_log_x=True),
    panel(line(x=(13.0, 40.0, 360.0)), is_log_x=True),
    panel(
        line(x=(0.25, 8.0, 260.0)),
        line("more", x=tuple(2.0**k for k in range(-2, 9)), y=(1.0,) * 11),
        is_log_x=True,
    ),
    panel(line(x=(20000.0, 90000.0, 180000.0)), line("flat", y=(4.1, 4.11, 4.12))),
    panel(line(x=(1e1, 1e3, 1e5), y=(1e-6, 1e-3, 1.0)), is_log_x=True, is_log_y=True),
    panel(line(), diagonal=True),
]


@pytest.mark.parametrize("crowded", CROWDED)
def test_no_legend_covers_data_and_no_two_ticks_overlap(crowded):
    for figure in (drawn(crowded), drawn(crowded, crowded, crowded)):
        assert covered(figure) == []
        assert overlapping_ticks(figure) == []


def test_broken_twin_a_legend_inside_the_axes_and_too_many_ticks_are_caught():
    figure = drawn(panel(line(x=(13.0, 40.0, 360.0)), is_log_x=True))
    figure.axes[0].legend(loc="upper left")
    figure.axes[0].set_xticks([100 + step for step in range(0, 60, 2)])
    figure.draw_without_rendering()
    assert covered(figure) == ["a title"]
    assert len(overlapping_ticks(figure)) > 10


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    picture = Picture("one", (panel(line(), line("other", low=(1.0, 1.0, 1.0), high=(2.0, 2.0, 2.0))),))
    first = draw(picture, tmp_path / "a").read_bytes()
    assert first == draw(picture, tmp_path / "b").read_bytes()
    assert b"perplexity" in first
