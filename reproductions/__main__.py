"""`python -m reproductions NAME`: the papers' figures and tables beside the printed numbers.

Each of a paper's claims gets a verdict.
"""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reproductions.experiment import Scale
from reticent.cli import Output, VerbCommand, run, table, verb
from reticent.core import ConfigError, Range
from reticent.runs import EngineOptions, Shown, option

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from reproductions.experiment import Experiment
    from reproductions.running import Reproduction

app = typer.Typer(name="python -m reproductions", rich_markup_mode=None, pretty_exceptions_enable=False)


class ReproduceSettings(EngineOptions, Shown):
    """Everything that `python -m reproductions` can be asked for."""

    names: tuple[str, ...] = option(
        "Names of experiments, of a paper (rdp, crt, …), all, or list.", positional=True, metavar="LIST|NAME…"
    )
    out: Path | None = option("Folder for finished pieces, pages and figures.", default=None, metavar="RUN")
    scale: Scale = option("Size: minutes, an hour, or as in the paper.", default=Scale.SMALL)
    seed: int = option("Random seed of every piece.", default=7, within=Range(0, 2**63 - 1), metavar="N")
    pages: Path | None = option("Write pages and figures here instead of RUN.", default=None, metavar="DIR")
    data: Path | None = option("Folder with the files that some experiments read.", default=None, metavar="DIR")


@app.command(cls=VerbCommand)
@verb(ReproduceSettings)
def reproduce(settings: ReproduceSettings, output: Output) -> int:
    """Re-run a paper's figure or table and say of each of its claims whether it holds.

    What was computed once is read from RUN: a killed run goes on where it was, a finished one takes seconds.
    """
    from reproductions.catalogue import chosen, experiments
    from reproductions.page import write_pages
    from reproductions.running import Course, is_finished, lacks_files
    from reproductions.running import reproduce as compute

    names, scale, data, pages = list(settings.names), settings.scale, settings.data, settings.pages
    if names == ["list"]:
        return _list(list(experiments().values()), output)
    wanted = chosen(names)
    if data is not None and not data.is_dir():
        raise ConfigError(f"{data}: not a directory", hint="give --data the folder that holds the files")
    course = Course(
        folder=_folder(settings.out),
        scale=scale,
        seed=settings.seed,
        data=data,
        engine=settings.engine_settings,
    )
    # Whoever asks for a paper gets what can be run; whoever asks for one experiment is told what it lacks.
    left_out = [one for one in wanted if one.name not in names and lacks_files(one, course)]
    made = []
    with output.progress() as bars:
        for experiment in (one for one in wanted if one not in left_out):
            task = bars.add_task(experiment.name, total=len(experiment.pieces(scale)), status="")
            made.append(compute(experiment, course, observe=partial(_advance, bars, task)))
    # A paper's page also shows what earlier runs finished in the same folder.
    papers = {experiment.paper for experiment in wanted}
    shown = {one.experiment.name: one for one in made}
    earlier = [
        compute(one, course)
        for one in experiments().values()
        if one.paper in papers and one.name not in shown and scale in one.scales and is_finished(one, course)
    ]
    shown |= {one.experiment.name: one for one in earlier}
    written = write_pages([shown[name] for name in experiments() if name in shown], pages or course.folder)
    output.document({"schema_version": 1, "experiments": [one.to_json() for one in made]})
    for one in made:
        output.show(*_lines(one))
    for experiment in left_out:
        output.show(
            f"{experiment.name} was left out: it reads {', '.join(lacks_files(experiment, course))} (--data)."
        )
    output.show(*(f"Written: {page}" for page in written))
    return 0


def _folder(out: Path | None) -> Path:
    if out is None:
        raise ConfigError("an experiment needs a folder for what it computes", hint="give --out RUN")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: not a directory", hint="choose another --out")
    return out


def _advance(bars: "Progress", task: "TaskID", piece: str, was_cached: bool) -> None:
    """One piece is done."""
    bars.update(task, advance=1, status=f"{piece} (read)" if was_cached else piece)


def _list(known: "list[Experiment]", output: Output) -> int:
    """Names, titles and scales."""
    rows = [
        (one.name, one.title, "yes" if one.needs_training else "no", ", ".join(one.files) or "–") for one in known
    ]
    output.show(table("Experiments", ("name", "what it shows", "trains models", "reads from --data"), rows))
    output.document(
        {
            "schema_version": 1,
            "experiments": [
                {
                    "name": one.name,
                    "paper": one.paper.heading,
                    "title": one.title,
                    "scales": [scale.value for scale in one.scales],
                    "trains": one.needs_training,
                    "files": list(one.files),
                }
                for one in known
            ],
        }
    )
    return 0


def _lines(one: "Reproduction") -> list[object]:
    """Tables and verdicts of one experiment."""
    lines: list[object] = [
        f"{one.experiment.name}: {one.experiment.title} ({one.scale.value}, seed {one.seed})",
        "",
    ]
    for grid in one.rendering.tables:
        lines += [table(grid.title, grid.columns, grid.rows), ""]
    lines += [f"{each.verdict.value.upper()}: {each.claim} {each.reason}" for each in one.rendering.judgements]
    return [*lines, *one.rendering.notes, ""]


if __name__ == "__main__":
    sys.exit(run(program=app))
