"""`reticent diff`: what an update from one snapshot to the next gives away of the text it was made with."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli.console import Output, table
from reticent.cli.options import AsJson, CorpusFormat, IdField, TextField
from reticent.core.ranges import SEED
from reticent.runs.corpora import corpus_at

if TYPE_CHECKING:
    from reticent.audit.attacks.update.findings import FoundPhrase
    from reticent.core.model import LanguageModel
    from reticent.runs.update.run import DiffSettings, Known, UpdateStep

_MOST = 1_000_000  # phrases, or tokens of one
_MODEL = "Directory, adapter, hub id, run directory or 'embedded'"


def diff(
    before: Annotated[str, typer.Argument(help=f"Snapshot before the update. {_MODEL}.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="Snapshot after the update.", metavar="AFTER")],
    out: Annotated[Path, typer.Option("--out", help="Run directory to write.", metavar="DIR")],
    data: Annotated[
        Path | None,
        typer.Option("--data", help="The update's records: which of them are exposed?", metavar="FILE"),
    ] = None,
    untouched: Annotated[
        Path | None,
        typer.Option("--untouched", help="Text that was not in the update, to compare with.", metavar="FILE"),
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null",
            help="Snapshot made from BEFORE as AFTER was, from another seed, without the update's text. "
            "Repeatable: a verdict needs 19, or 24 with --data and --untouched.",
            metavar="MODEL",
        ),
    ] = None,
    then: Annotated[
        list[str] | None,
        typer.Option("--then", help="A further snapshot, in order of time. Repeatable.", metavar="MODEL"),
    ] = None,
    length: Annotated[int, typer.Option("--length", help="Tokens of a phrase.", min=1, max=_MOST, metavar="N")] = 5,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", help="Phrases kept at each step of a beam of fixed width.", min=1, max=_MOST, metavar="N"
        ),
    ] = None,
    groups: Annotated[
        int,
        typer.Option(
            "--groups", help="Parts of the vocabulary that are searched apart.", min=1, max=_MOST, metavar="N"
        ),
    ] = 1,
    halving: Annotated[
        bool,
        typer.Option("--halving", help="The paper's beam: as wide as the vocabulary, halved at each step."),
    ] = False,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Text that the adversary knows: search what follows it.")
    ] = "",
    relative: Annotated[
        bool, typer.Option("--relative", help="Search by the relative score: rare beginnings show better.")
    ] = False,
    removed: Annotated[
        bool, typer.Option("--removed", help="Search what the update removed: the roles swapped.")
    ] = False,
    top: Annotated[
        int, typer.Option("--top", help="Phrases of each group to report.", min=1, max=_MOST, metavar="N")
    ] = 10,
    reveal: Annotated[bool, typer.Option("--reveal", help="Show and write the phrases themselves.")] = False,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of samples for a null.", min=0, max=int(SEED.high), metavar="N")
    ] = 0,
    text_field: TextField = "text",
    id_field: IdField = "id",
    format: CorpusFormat = None,
    as_json: AsJson = False,
) -> int:
    """Find the phrases that an update made likelier: what two snapshots give away of the text between them.

    What the search finds is there. Where its bound allows, it proves that nothing scores higher; else a phrase may
    be missed, and ranks are lower bounds. Beams of --width, --halving, --groups and --relative prove nothing.
    """
    from reticent.audit.attacks.update.score import Score
    from reticent.runs.directory import RunDirectory
    from reticent.runs.update.run import DiffSettings, Known

    RunDirectory.create(out)  # refuses a folder that holds anything, before the work
    fields: dict[str, Any] = {"text": text_field, "id": id_field, "owner": "owner", "format": format}
    corpora = [None if path is None else corpus_at(path, **fields).load() for path in (data, untouched)]
    names = [before, after, *(then or [])]
    nulls = _open(null or [])
    models = list(_open(names))
    settings = DiffSettings(
        length=length,
        width=width,
        groups=groups,
        score=Score.RELATIVE if relative else Score.ABSOLUTE,
        prefix=prefix,
        top=top,
        removed=removed,
        halving=halving,
        seed=seed,
    )
    known = Known(update=corpora[0], untouched=corpora[1], nulls=nulls)
    config = {
        "snapshots": names,
        "data": None if data is None else str(data),
        "untouched": None if untouched is None else str(untouched),
        "null": null or [],
        "length": length,
        "width": width,
        "groups": groups,
        "prefix_given": bool(prefix),  # its text may be private
        "score": settings.score.value,
        "halving": halving,
        "removed": removed,
        "top": top,
        "reveal": reveal,
    }
    return _run(models, settings, Output(as_json=as_json), out=out, config=config, known=known)


def _open(names: Sequence[str]) -> "Iterator[LanguageModel]":
    """The models of these names, each loaded when it is asked for; all are found before."""
    from reticent.models.huggingface.location import locate
    from reticent.runs.audit.subject import find_model

    places = [find_model(name) for name in names]
    for place in places:
        locate(place.source)  # a path that leads nowhere is said before torch is loaded

    def loaded() -> "Iterator[LanguageModel]":
        from reticent.models.huggingface.loading import load_model

        for name, place in zip(names, places, strict=True):
            yield load_model(place.source, name=name)

    return loaded()


def _run(
    models: "Sequence[LanguageModel]",
    settings: "DiffSettings",
    output: Output,
    *,
    out: Path,
    config: dict[str, Any],
    known: "Known",
) -> int:
    """Compare, write, show."""
    from reticent.runs.update.run import compare_snapshots, diff_to_json, start_diff, write_diff

    steps = compare_snapshots(models, settings, known=known)
    reveal = bool(config["reveal"])
    run = start_diff(out, settings=settings, config=config, known=known)
    write_diff(run, steps, settings=settings, reveal=reveal)
    has_figure = _draw(steps, out)
    output.document(diff_to_json(steps, settings=settings, reveal=reveal) | {"run": str(out)})
    for step in steps:
        output.show(*_lines(step, settings, reveal=reveal))
    if not has_figure:
        output.show("No figure: it needs matplotlib (pip install 'reticent[plot]').")
    output.show(f"Written to {out}.")
    return 0


def _draw(steps: "Sequence[UpdateStep]", out: Path) -> bool:
    """The figure of the first update; False where matplotlib is not installed."""
    import importlib.util

    from reticent.runs.update.run import FIGURE

    if importlib.util.find_spec("matplotlib") is None:
        return False
    from reticent.runs.update.figure import draw_prefix_scores

    draw_prefix_scores(steps[0].phrases, out / FIGURE)
    return True


def _lines(step: "UpdateStep", settings: "DiffSettings", *, reveal: bool) -> list[object]:
    """What one update gives away, as a table and sentences."""
    what = "removed by" if settings.removed else "added by"
    columns = ["phrase", "group", "DS", "DS~", "bits", "rank", "in the update", "null"]
    rows = [_row(step, place, one, reveal=reveal) for place, one in enumerate(step.phrases)]
    first, second = (step.after, step.before) if settings.removed else (step.before, step.after)
    lines: list[object] = [table(f"Phrases {what} the update {first} → {second}", columns, rows), ""]
    lines.append(_coverage(step, settings))
    lines += _verdict(step)
    for finding in step.findings[1:]:
        if finding.void:
            lines.append(f"{finding.metric}: no verdict.")
            continue
        null_value = "–" if finding.null is None else f"{finding.null:.3g}"
        lines.append(
            f"{finding.metric}: {finding.value:.3g} ({finding.low:.3g} … {finding.high:.3g}) of {finding.n:,}, "
            f"null {null_value}."
        )
    return [*lines, "No finding proves that an update gives nothing away.", ""]


def _verdict(step: "UpdateStep") -> list[str]:
    """What the null snapshots say of the phrases, or why they say nothing."""
    from reticent.audit.attacks.update.findings import why_no_verdict

    test, lines = step.test, []
    if step.untouched is not None:
        lines.append(
            f"{step.untouched.phrases:,} phrases of untouched text score at most {step.untouched.score:.3g}."
        )
    if test.nulls:
        highest = max(null.score for null in test.nulls)
        lines.append(f"The same search with {len(test.nulls)} null snapshots finds at most {highest:.3g}.")
    if not test.decides:
        return [*lines, f"No verdict: {why_no_verdict(test)} (--null)."]
    level = f"at {1.0 - test.level:.0%} for all phrases together"
    if step.above_null == 0:
        return [*lines, f"Nothing above the null {level}."]
    return [*lines, f"{step.above_null} of {len(step.phrases)} phrases lie above the null {level}."]


def _coverage(step: "UpdateStep", settings: "DiffSettings") -> str:
    """How far the ranks of the table can be trusted."""
    most = f"A score of {settings.length} tokens is at most {settings.length}."
    missed = "phrases that were not kept may score"
    missed += " higher." if step.ceiling > settings.length else f" up to {step.ceiling:.3g}."
    if step.proved == len(step.phrases):
        return f"{most} Proved: no other phrase of this length scores higher than these."
    if step.proved:
        return f"{most} Proved to be the highest: the first {step.proved}. Below, a rank is a lower bound: {missed}"
    return f"{most} A rank is a lower bound: {missed}"


def _row(step: "UpdateStep", place: int, one: "FoundPhrase", *, reveal: bool) -> tuple[object, ...]:
    """A line of the table; the phrase is masked unless it was asked for."""
    shown = " ".join(step.texts[place].split()) if reveal else f"#{place} ({len(one.scores.tokens)} tokens)"
    held = "–" if one.holders is None else ("no" if not one.holders else f"yes, {len(one.holders)} records")
    above = "–" if one.is_above_null is None else ("above" if one.is_above_null else "within")
    above += "" if one.is_above_null is None or one.p_value is None else f", p = {one.p_value:.2g}"
    return (
        shown,
        one.group,
        f"{one.scores.score:.3f}",
        f"{one.scores.relative:.3g}",
        f"{one.scores.bits:.1f}",
        str(one.least_rank) if one.is_proved else f"≥ {one.least_rank}",
        held,
        above,
    )
