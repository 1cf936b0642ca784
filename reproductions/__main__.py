"""`python -m reproductions NAME`: the papers' figures and tables beside the printed numbers.

Each of a paper's claims gets a verdict.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reproductions.experiment import Scale
from reticent.cli.console import Output, table
from reticent.cli.main import main
from reticent.cli.options import AsJson, EngineChoice, RayAddress, Workers, engine_of
from reticent.core.errors import ConfigError
from reticent.core.ranges import SEED

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from reproductions.experiment import Experiment
    from reproductions.running import Reproduction

app = typer.Typer(name="python -m reproductions", rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="Names of experiments, a paper's (rdp, crt, …), all, or list.", metavar="LIST|NAME…"),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep finished pieces, pages and figures here.", metavar="RUN")
    ] = None,
    scale: Annotated[
        Scale, typer.Option("--scale", help="How large: minutes, an hour, or the paper's.")
    ] = Scale.SMALL,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of every piece.", metavar="N", min=0, max=int(SEED.high))
    ] = 7,
    pages: Annotated[
        Path | None, typer.Option("--pages", help="Write pages and figures here, not in RUN.", metavar="DIR")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of the files that some experiments read.", metavar="DIR")
    ] = None,
    engine: EngineChoice = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    as_json: AsJson = False,
) -> int:
    """Re-run a paper's figure or table and say of each of its claims whether it holds.

    What was computed once is read from RUN: a killed run goes on where it was, a finished one takes seconds.
    """
    from reproductions.catalogue import chosen, experiments
    from reproductions.page import write_pages
    from reproductions.running import Course, is_finished, lacks_files
    from reproductions.running import reproduce as run

    output = Output(as_json=as_json)
    if names == ["list"]:
        return _list(list(experiments().values()), output)
    wanted = chosen(names)
    if data is not None and not data.is_dir():
        raise ConfigError(f"{data}: not a directory", hint="give --data the folder that holds the files")
    course = Course(
        folder=_folder(out),
        scale=scale,
        seed=seed,
        data=data,
        engine=engine_of(engine, workers, ray_address),
    )
    # Whoever asks for a paper gets what can be run; whoever asks for one experiment is told what it lacks.
    left_out = [one for one in wanted if one.name not in names and lacks_files(one, course)]
    made = []
    with output.progress() as bars:
        for experiment in (one for one in wanted if one not in left_out):
            task = bars.add_task(experiment.name, total=len(experiment.pieces(scale)), status="")
            made.append(run(experiment, course, observe=partial(_advance, bars, task)))
    # A paper's page also shows what earlier runs finished in the same folder.
    papers = {experiment.paper for experiment in wanted}
    shown = {one.experiment.name: one for one in made}
    earlier = [
        run(one, course)
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
    main(program=app)
