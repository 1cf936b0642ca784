"""`reticent diff`: what an update from one snapshot to the next reveals about its text."""

from typing import TYPE_CHECKING, Final

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.core.metric import shown_interval, shown_value
from reticent.core.printing.numbers import MISSING, counted
from reticent.runs.update.settings import DiffSettings, Search

if TYPE_CHECKING:
    from reticent.auditing.attacks.update.findings import FoundPhrase
    from reticent.auditing.attacks.update.matching import RecordGains
    from reticent.auditing.attacks.update.null import NullTest, WindowExcess
    from reticent.runs.update.comparing import PhraseSearch, UpdateStep

_RECORDS: Final = 10  # shown


@verb(DiffSettings)
def diff(settings: DiffSettings, output: Output) -> int:
    """Find the phrases that an update made more likely: what two snapshots reveal about text added between them.

    With --data, every record of the update is searched for words that the update reveals, judged against --null.
    Phrases may be missed, and ranks are lower bounds, unless a bounded search proves that no other phrase scores
    higher.
    """
    settings.check_paths()
    from reticent.runs.update.diff import diff as compare

    found = compare(settings)
    output.document(found)
    for step in found.steps:
        output.show(*_lines(step, found.search, reveal=settings.reveal))
    if not found.has_figure:
        output.show("No figure: it needs matplotlib (pip install 'reticent[plot]').")
    output.show(f"Written to {settings.out}.")
    return 0


def _lines(step: "UpdateStep", settings: "PhraseSearch", *, reveal: bool) -> list[object]:
    """What one update reveals, as a table and sentences."""
    what = "removed by" if settings.removed else "added by"
    columns = ["phrase", "group", "DS", "DS~", "bits", "rank", "in the update", "null"]
    rows = [_row(step, place, one, reveal=reveal) for place, one in enumerate(step.phrases)]
    first, second = (step.after, step.before) if settings.removed else (step.before, step.after)
    lines: list[object] = [table(f"Phrases {what} the update {first} → {second}", columns, rows), ""]
    lines.append(_coverage(step, settings))
    lines += _verdict(step)
    if step.gains is not None and step.excess is not None:
        lines += _records(step, step.gains, step.excess, reveal=reveal, removed=settings.removed)
    for finding in step.findings[1:]:
        if finding.void:
            lines.append(f"{finding.metric}: no verdict.")
            continue
        lines.append(
            f"{finding.metric}: {shown_value(finding.metric, finding.value)} "
            f"({shown_interval(finding.metric, finding.low, finding.high)}) of {finding.n:,}, "
            f"null {shown_value(finding.metric, finding.null)}."
        )
    return [*lines, "No finding proves that an update leaks nothing.", ""]


def _records(
    step: "UpdateStep", gains: "RecordGains", beyond: "WindowExcess", *, reveal: bool, removed: bool
) -> list[object]:
    """The records whose windows stand out most, and how many lie above the null."""
    excess, test = beyond.excess, step.record_test
    order = [place for place in (-excess).argsort(kind="stable").tolist() if gains.texts[place]]
    columns = ["record", "window", "over the median" if beyond.nulls else "score", "bits per token", "null"]
    rows = [
        (
            gains.ids[place],
            " ".join(step.window_texts[place].split()) if reveal else "masked",
            f"{excess[place]:.3f}",
            f"{gains.per_token[place]:.2f}",
            _against_null(step.is_exposed[place] if test.decides else None, test, excess[place]),
        )
        for place in order[:_RECORDS]
    ]
    what = "forgotten records" if removed else "records of the update"
    lines: list[object] = [table(f"What is revealed about {what}", columns, rows), ""]
    if test.nulls:
        most = max(null.score for null in test.nulls)
        lines.append(
            "The median is taken over the update and its nulls, window by window. In these records "
            f"{counted(len(test.nulls), 'null snapshot')} reached at most {most:.3g} over it."
        )
    if test.decides:
        names = [name for name, is_exposed in zip(gains.ids, step.is_exposed, strict=True) if is_exposed]
        level = f"at {1.0 - test.level:.0%} for all records together"
        lines.append(f"{len(names)} of {len(gains.ids)} {what} lie above the null {level}.")
    return lines


def _verdict(step: "UpdateStep") -> list[str]:
    """What the null snapshots say about the phrases, or why they say nothing."""
    from reticent.auditing.attacks.update.findings import why_no_verdict

    test, lines = step.test, []
    if step.untouched_highest is not None:
        lines.append(f"Phrases of untouched text score at most {step.untouched_highest:.3g}.")
    if test.nulls:
        highest = max(null.score for null in test.nulls)
        lines.append(
            f"The same search with {counted(len(test.nulls), 'null snapshot')} finds at most {highest:.3g}."
        )
    if not test.decides:
        return [*lines, f"No verdict: {why_no_verdict(test)} (--null)."]
    if not step.judges_phrases:
        return [*lines, "No verdict on phrases: no record of the update lies above its null."]
    level = f"at {1.0 - test.level:.0%} for all phrases together"
    if step.above_null == 0:
        return [*lines, f"Nothing above the null {level}."]
    return [*lines, f"{step.above_null} of {len(step.phrases)} phrases lie above the null {level}."]


def _coverage(step: "UpdateStep", settings: "PhraseSearch") -> str:
    """How far the ranks of the table can be trusted."""
    most = f"A phrase of {settings.length} tokens scores at most {settings.length}."
    if step.search is Search.GUIDED:
        return f"{most} These phrases are windows of {settings.texts} sampled texts; others may score higher."
    missed = "phrases that the search dropped may score"
    missed += " higher." if step.ceiling > settings.length else f" up to {step.ceiling:.3g}."
    if step.proved == len(step.phrases):
        return f"{most} Proved: no other phrase of this length scores higher than these."
    if step.proved:
        return f"{most} Proved to be the highest: the first {step.proved}. Other ranks are lower bounds: {missed}"
    return f"{most} A rank is a lower bound: {missed}"


def _row(step: "UpdateStep", place: int, one: "FoundPhrase", *, reveal: bool) -> tuple[object, ...]:
    """A line of the table; the phrase is masked unless it was asked for."""
    shown = " ".join(step.texts[place].split()) if reveal else f"#{place} ({len(one.scores.tokens)} tokens)"
    held = "–" if one.holders is None else ("no" if not one.holders else f"yes, {len(one.holders)} records")
    return (
        shown,
        one.group,
        f"{one.scores.score:.3f}",
        f"{one.scores.relative:.3g}",
        f"{one.scores.bits:.1f}",
        str(one.least_rank) if one.is_proved else f"≥ {one.least_rank}",
        held,
        _against_null(one.is_above_null, step.test, one.scores.by(step.score)),
    )


def _against_null(is_above: bool | None, test: "NullTest", score: float) -> str:
    """Where a score lies, with its p-value; a dash without a verdict."""
    if is_above is None:
        return MISSING
    return f"{'above' if is_above else 'within'}, p = {test.p_value(score):.2g}"
