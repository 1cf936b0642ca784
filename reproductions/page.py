"""A Markdown page per paper: for every finished experiment its verdicts, tables and figures, and how to repeat it.

No path of the machine that ran it stands in a page; figures are files beside it.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reproductions.drawing import can_draw, draw
from reproductions.experiment import ClaimVerdict, Grid, Paper
from reproductions.running import Reproduction
from reticent.core import write_atomically
from reticent.runs import package_versions

INDEX: Final = "README.md"


def write_pages(reproductions: Sequence[Reproduction], folder: Path) -> tuple[Path, ...]:
    """Write <paper>.md for every paper of `reproductions`, with figures/ beside it; the pages' paths."""
    pages = []
    for paper in Paper:
        chosen = [one for one in reproductions if one.experiment.paper is paper]
        if chosen:
            path = folder / f"{paper.value}.md"
            write_atomically(path, _page(paper, chosen, folder).encode("utf8"))
            pages.append(path)
    write_atomically(folder / INDEX, _index(folder).encode("utf8"))
    return tuple(pages)


def _index(folder: Path) -> str:
    """Every page of the folder, by its title, with how many claims hold, do not, or could not be tested."""
    rows = []
    for paper in Paper:
        path = folder / f"{paper.value}.md"
        if path.is_file():
            verdicts = [line.split(" | ")[-1].removesuffix(" |") for line in _claims(path)]
            counts = tuple(str(verdicts.count(verdict.value)) for verdict in ClaimVerdict)
            rows.append((f"[{paper.heading}]({path.name})", *counts))
    table = _table(Grid("Papers", ("page", *(verdict.value for verdict in ClaimVerdict)), tuple(rows)))
    lead = (
        "What `python -m reproductions` finds when it re-runs the papers' figures and tables on what the package "
        "brings, the embedded model and generated text, in minutes; a few also read public files that the user "
        "has (`--data DIR`). Levels differ from the printed ones, of larger models and other corpora; the claims "
        "are about orders, and are judged one by one."
    )
    return "\n".join(["# Results", "", lead, "", *table]).rstrip() + "\n"


def _claims(path: Path) -> list[str]:
    """The lines of a page's table of claims."""
    lines = path.read_text(encoding="utf8").splitlines()
    start = lines.index("**Claims**") + 4
    end = next(number for number in range(start, len(lines)) if not lines[number])
    return lines[start:end]


def _page(paper: Paper, chosen: Sequence[Reproduction], folder: Path) -> str:
    found = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [
        f"# {paper.heading}",
        "",
        "Made by `make reproduce`; not edited by hand. A claim that does not hold is said so, with the reason.",
        "",
        f"Written {today} with {found}.",
        "",
        *_overview(chosen),
    ]
    for one in chosen:
        lines += _section(one, folder)
    return "\n".join(lines).rstrip() + "\n"


def _overview(chosen: Sequence[Reproduction]) -> list[str]:
    rows = tuple(
        (one.experiment.name, judgement.claim, judgement.verdict.value)
        for one in chosen
        for judgement in one.rendering.judgements
    )
    return _table(Grid("Claims", ("experiment", "claim", "verdict"), rows))


def _section(one: Reproduction, folder: Path) -> list[str]:
    name, rendering = one.experiment.name, one.rendering
    command = f"python -m reproductions {name} --scale {one.scale.value} --seed {one.seed} --out RUN"
    command += " --data DIR" if one.experiment.files else ""
    lines = [
        f"## {name}: {one.experiment.title}",
        "",
        f"`{command}` · {_pieces(len(one.values))}, {_duration(one.seconds)} of the clock to compute",
        "",
    ]
    for judgement in rendering.judgements:
        lines += [f"- **{judgement.verdict.value}**: {judgement.claim} {judgement.reason}"]
    lines.append("")
    for picture in rendering.pictures if can_draw() else ():
        path = draw(picture, folder / "figures")
        lines += [f"![{one.experiment.title}](figures/{path.name})", ""]
    for table in rendering.tables:
        lines += _table(table)
    for note in rendering.notes:
        lines += [note, ""]
    return lines


def _table(table: Grid) -> list[str]:
    cells = [tuple(_cell(text) for text in row) for row in (table.columns, *table.rows)]
    lines = [f"**{table.title}**", "", "| " + " | ".join(cells[0]) + " |"]
    lines.append(
        "|" + "|".join("---:" if _is_numeric(column) else "---" for column in zip(*cells, strict=True)) + "|"
    )
    lines += ["| " + " | ".join(row) + " |" for row in cells[1:]]
    return [*lines, ""]


def _is_numeric(column: tuple[str, ...]) -> bool:
    """Whether all cells below the heading begin as numbers do; those stand right."""
    return all(cell[:1] in "0123456789+-−–<>∞" for cell in column[1:])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _pieces(count: int) -> str:
    return "1 piece" if count == 1 else f"{count} pieces"


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120.0 else f"{seconds / 60.0:.1f} min"
