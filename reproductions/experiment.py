"""What an experiment is: independent pieces of work, and a rendering of their results beside the printed numbers.

    pieces(scale)    → named pieces with JSON parameters; each is computed by itself, cached, and resumed by name
    render(results)  → tables, figures, and a verdict on each claim of the paper, from the pieces' numbers alone

Pieces give JSON objects of numbers: no text of a corpus, no secret. A verdict is one of three, and "does not hold"
is a result like the others: its reason stands beside it. Rendering computes nothing that takes time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reticent.core import Randomness

Values = dict[str, Any]
Compute = Callable[[Values, Randomness], Values]


class Scale(StrEnum):
    """How large a run is: minutes on two cores, about an hour, or the paper's own sizes."""

    SMALL = "small"
    MEDIUM = "medium"
    PAPER = "paper"


class Paper(StrEnum):
    """The papers, by the word their experiments' names begin with."""

    RDP = "rdp"
    SUBMIX = "submix"
    PII = "pii"
    UPDATES = "updates"
    CRT = "crt"

    @property
    def heading(self) -> str:
        """The paper's title."""
        return _TITLES[self.value]


_TITLES = {
    "rdp": "Defending against Reconstruction Attacks with Rényi Differential Privacy",
    "submix": "SubMix: Practical Private Prediction for Large-Scale Language Models",
    "pii": "Analyzing Leakage of Personally Identifiable Information in Language Models",
    "updates": "Analyzing Information Leakage of Updates to Natural Language Models",
    "crt": "Provably Confidential Language Modelling",
}


class ClaimVerdict(StrEnum):
    """What a run says of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOT_TESTABLE = "not testable at this scale"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim of the paper, the verdict, and the numbers or the reason behind it."""

    claim: str
    verdict: ClaimVerdict
    reason: str

    @classmethod
    def of(cls, claim: str, holds: bool, *, reason: str) -> "Judgement":
        """Holds, or does not."""
        return cls(claim, ClaimVerdict.HOLDS if holds else ClaimVerdict.FAILS, reason)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: numbers of ours beside printed ones, already written out."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: every row needs {len(self.columns)} cells")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of a figure: marked, joined or both; `low` and `high` are an interval of each."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    is_dashed: bool = False
    is_marked: bool = False
    is_joined: bool = True
    colour: int | None = None
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes; `diagonal` draws y = x as well."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    is_log_x: bool = False
    is_log_y: bool = False
    diagonal: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of one row of panels; `name` becomes its file's."""

    name: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What a run shows."""

    judgements: tuple[Judgement, ...]
    tables: tuple[Grid, ...] = ()
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the work that is computed, cached and resumed by itself.

    `parameters` are JSON values and all that `compute` may depend on, besides the seed and the `files` that it
    reads from the user's folder of data, which it finds as `parameters["data"]`. Experiments that need the same
    pieces name what they share: it is computed once, and all pieces of that name draw from one source, so that they
    see the same data.
    """

    name: str
    parameters: Values
    compute: Compute
    shared: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A figure or table of a paper. `scales` are those it was written for; `needs_training` costs minutes.

    `render` is given the results of the pieces whose files are there: at least one.
    """

    name: str
    paper: Paper
    title: str
    pieces: Callable[[Scale], Sequence[Piece]]
    render: Callable[[Mapping[str, Values]], Rendering]
    scales: tuple[Scale, ...] = tuple(Scale)
    needs_training: bool = False

    def __post_init__(self) -> None:
        if not self.name.startswith(f"{self.paper.value}-"):
            raise ValueError(f"the name of an experiment begins with its paper's: {self.name}")

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the user's folder of data that one of its pieces reads at the first scale."""
        return tuple(dict.fromkeys(name for piece in self.pieces(self.scales[0]) for name in piece.files))
