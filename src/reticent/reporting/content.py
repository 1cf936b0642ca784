"""What a report is made of, before it becomes HTML or Markdown: sections of paragraphs, tables, charts and strips.

A chart always carries its words and its data: a summary for those who cannot see it and a table for those who
want the numbers. A section without data holds an `Absent` with the reason; it never vanishes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from reticent.core.printing.numbers import Scale

_WIDE: Final = 36  # characters from which a column is given room


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis counts; its ends are those of the data unless given."""

    title: str
    is_log: bool = False
    is_reversed: bool = False
    is_from_zero: bool = False
    ends: tuple[float, float] | None = None
    scale: Scale = Scale.PLAIN


@dataclass(frozen=True, slots=True)
class Trace:
    """A line, steps, plain points or rings: x and y [n], `low` and `high` [n] or empty, `told` [n] or empty.

    `labels` stand beside the first rings.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    role: str = "1"
    kind: str = "line"
    dash: str = ""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    told: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """Traces on two axes."""

    traces: tuple[Trace, ...]
    x: Axis
    y: Axis
    height: int = 380


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a table: text, the number it is sorted by, and a verdict in a few words before it."""

    text: str
    number: float | None = None
    tone: str = ""
    chip: str = ""
    anchor: str = ""  # by which a link finds it


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `numeric` names the columns that are set to the right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.caption}: every row needs {len(self.columns)} cells")

    def is_numeric(self, place: int) -> bool:
        """Whether a column holds numbers throughout, gaps aside."""
        cells = [row[place] for row in self.rows]
        return any(cell.number is not None for cell in cells) and all(
            cell.number is not None or cell.text == "–" for cell in cells
        )

    def shape(self, place: int) -> str:
        """How a column is set: numbers to the right, sentences wide."""
        if self.is_numeric(place):
            return "number"
        longest = max((len(row[place].text) for row in self.rows), default=0)
        return "wide" if longest > _WIDE else "short"


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, its summary in words, and its data."""

    key: str
    title: str
    summary: str
    figure: Figure
    table: Table


@dataclass(frozen=True, slots=True)
class Mark:
    """One row of a strip: an interval with its value, its own null and ceiling, and what it is called."""

    label: str
    value: float
    low: float
    high: float
    null: float | None
    ceiling: float | None
    words: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Strip:
    """Measured against proved on one axis: the marks of one metric, and the ends of the axis."""

    metric: str
    words: str
    marks: tuple[Mark, ...]
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one run: a line, its details, and what was proved of it."""

    run: str
    tone: str
    tag: str
    lead: str
    detail: str
    proved: str


@dataclass(frozen=True, slots=True)
class Card:
    """A question, every run's answer, and all of them on one axis per metric."""

    question: str
    verdicts: tuple[Verdict, ...]
    strips: tuple[Strip, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """Something that is not there, in which way, and why."""

    what: str
    why: str
    said: str = "no data"


@dataclass(frozen=True, slots=True)
class Lines:
    """A list of sentences; `is_code` where they are commands, `is_ordered` where the first matters most."""

    items: tuple[str, ...]
    is_code: bool = False
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """The name of what follows, inside a section: a run, as a rule."""

    text: str


Block = Chart | Table | Absent | Lines | Card | Heading


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; a folded one shows its title until it is opened."""

    key: str
    title: str
    lead: str
    blocks: tuple[Block, ...] = field(default=())
    is_folded: bool = True


def cell(text: object, number: float | None = None, *, tone: str = "") -> Cell:
    """A cell; whole and real numbers sort as what they are."""
    if number is None and isinstance(text, int | float) and not isinstance(text, bool):
        number = float(text)
    if isinstance(text, int) and not isinstance(text, bool):
        text = f"{text:,}"
    return Cell(str(text), number, tone)


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, note: str = "") -> Table:
    """A table from any sequences."""
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), note)
