"""`reticent diff`: what an update from one snapshot to the next gives away of the text it was made with."""

from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.runs.update.settings import UpdateSettings

if TYPE_CHECKING:
    from reticent.auditing.attacks.update.findings import FoundPhrase
    from reticent.runs.update.run import DiffSettings, UpdateStep


@verb(UpdateSettings)
def diff(settings: UpdateSettings, output: Output) -> int:
    """Find the phrases that an update made more likely: what two snapshots reveal of the text between them.

    Every phrase that is reported is there. Where its bound allows, the search proves that no other phrase scores
    higher; otherwise phrases may be missed, and ranks are lower bounds. With --width, --halving, --groups or
    --relative nothing is proved.
    """
    settings.look_around()
    from reticent.runs.update.diff import diff as compare

    found = compare(settings)
    output.document(found.to_json())
    for step in found.steps:
        output.show(*_lines(step, found.search, reveal=settings.reveal))
    if not found.has_figure:
        output.show("No figure: it needs matplotlib (pip install 'reticent[plot]').")
    output.show(f"Written to {settings.out}.")
    return 0


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
    from reticent.auditing.attacks.update.findings import why_no_verdict

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
