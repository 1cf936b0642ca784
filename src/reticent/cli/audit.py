"""`reticent audit`: run attacks on a model, compare what they find with what was proved, and gate on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.core.errors import ConfigError
from reticent.core.metric import read_metric, shown_interval, shown_value, words_of
from reticent.core.model import Access
from reticent.core.printing.numbers import at_least, at_most, counted
from reticent.runs.audit.settings import AuditSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from reticent.auditing.attack import PlannedAttack
    from reticent.auditing.settings import AttackSettings
    from reticent.auditing.subject import Subject
    from reticent.core.finding import Comparison, Finding
    from reticent.runs.audit.attacking import Audit, Observer
    from reticent.runs.audit.gate import GateResult
    from reticent.runs.audit.plan import AuditPlan


@verb(AuditSettings)
def audit(options: AuditSettings, output: Output) -> int:
    """Run attacks on a model and compare what they find with the guarantee beside its weights.

    Exit code 1 if a finding refutes the guarantee, a --require limit is not met (exceeded, undecided or not
    measured) or a --fail-if limit is exceeded.
    """
    options.check_paths()
    from reticent.runs.audit.audit import audit as attack

    @contextmanager
    def watch(plan: "AuditPlan", subject: "Subject") -> "Iterator[Observer]":
        output.show(*_plan_lines(plan, subject.notes))
        with output.progress() as bars:
            yield _observer(bars, plan)

    done = attack(options, watch=watch)
    output.document(done)
    output.show(*_result_lines(done.audit, done.gate, done.settings, done.path))
    if not done.audit.findings:
        raise ConfigError("nothing was measured", found="; ".join(line.skipped for line in done.audit.attacks))
    return int(done.fails)


def _observer(bars: "Progress", plan: "AuditPlan") -> "Observer":
    """Two bars: the attacks of the plan, and the targets of the one that runs."""
    whole = bars.add_task("audit", total=len(plan.running), status="")
    inside = bars.add_task("", total=None, status="targets")
    names = [line.name for line in plan.running]

    def observe(line: "PlannedAttack", share: float) -> None:
        bars.update(whole, completed=names.index(line.name), status=line.name)
        bars.update(inside, description=line.name, total=line.n, completed=int(share * line.n))

    return observe


def _plan_lines(plan: "AuditPlan", notes: "Sequence[str]") -> list[object]:
    """The plan as a table, with what is left out and why."""
    rows = [
        (line.name, line.needs, f"{line.n:,}", "cached" if line.is_cached else f"≈ {line.seconds:,.0f} s")
        for line in plan.running
    ]
    title = f"Plan: at most about {plan.seconds:,.0f} s"
    lines: list[object] = [table(title, ["attack", "needs", "n", "time"], rows), ""] if rows else []
    lines += [f"{_left_out(line.name)}: {line.name}: {line.skipped}." for line in plan.attacks if line.skipped]
    return [*lines, *(f"Note: {note}." for note in notes), ""]


def _left_out(name: str) -> str:
    """A metric of an attack that runs is computed, and void; everything else does not run."""
    return "Skipped" if read_metric(name.rpartition(": ")[2]) is None else "Void"


def _result_lines(
    found: "Audit", gate: "Sequence[GateResult]", settings: "AttackSettings", out: Path
) -> list[object]:
    """The summary: every finding beside its null and its ceiling, and in words what is void or refuted."""
    from reticent.reporting.comparing import comparison_sentences

    beside = {id(one.finding): one for one in found.comparisons}
    by_metric: dict[str, list[tuple[Finding, Comparison | None]]] = {}
    for finding in found.findings:
        if not finding.void:
            by_metric.setdefault(finding.metric, []).append((finding, beside.get(id(finding))))
    lines: list[object] = []
    for metric, group in by_metric.items():
        lines += [_metric_table(metric, group), ""]
    void: dict[tuple[str, str], int] = {}
    skipped = {line.name.rpartition(": ")[2] for line in found.attacks if line.skipped}  # the plan said why
    for finding in found.findings:
        if finding.void and finding.metric not in skipped:
            void[finding.metric, finding.void] = void.get((finding.metric, finding.void), 0) + 1
    lines += [
        f"Void: {_named(metric)} from {counted(count, 'attack')}: {reason}."
        for (metric, reason), count in void.items()
    ]
    lines.append(
        f"All intervals of the attacks hold jointly at {settings.confidence:.0%} confidence. "
        "No finding proves that nothing leaks."
    )
    if any(finding.access is Access.STEPS for finding in found.findings):
        lines.append("What training measured with its own canaries holds separately, at its own stated confidence.")
    if found.cached:
        lines.append(f"From the cache: {', '.join(found.cached)}.")
    for one in found.refuted:
        lines.append(
            f"REFUTED: {one.finding.attack} measured {_named(one.finding.metric)} of at least "
            f"{at_least(one.finding.refuting_low)}, but the guarantee allows at most {at_most(one.ceiling)}."
        )
    if found.comparisons:
        lines.append(comparison_sentences(found.comparisons))
    lines += _beside_lines(found)
    lines += [result.sentence() for result in gate]
    if settings.reveal:
        lines.append(
            f"revealed.json holds {len(found.revealed):,} texts and secrets in the clear: do not share it."
        )
    return [*lines, f"Written to {out}."]


def _beside_lines(found: "Audit") -> list[str]:
    """Findings above the ceiling of a further guarantee, which holds for some secrets only and is not refuted."""
    from reticent.core.finding import Verdict

    return [
        f"Above the guarantee '{name}': {one.finding.attack} measured {_named(one.finding.metric)} of at least "
        f"{at_least(one.finding.refuting_low)}, but it allows at most {at_most(one.ceiling)} for "
        f"{one.guarantee.covers}. "
        "Either it does not hold, or the target is not one of these."
        for name, one in found.other_comparisons
        if one.verdict is Verdict.REFUTED
    ]


def _metric_table(metric: str, group: "list[tuple[Finding, Comparison | None]]") -> object:
    """What every attack measured in one metric. Null and ceiling are named once where all have the same."""
    rows = [[finding.attack, *_measured(finding), _verdict(finding, beside)] for finding, beside in group]
    title, columns = _named(metric), ["attack", "value", "interval", "n", "verdict"]
    ceilings = [None if beside is None else beside.ceiling for _, beside in group]
    nulls = [finding.null for finding, _ in group]
    for name, values, side in (("null", nulls, "nearest"), ("ceiling", ceilings, "up")):
        if len(set(values)) > 1:
            columns.insert(-1, name)
            for row, value in zip(rows, values, strict=True):
                row.insert(-1, shown_value(metric, value, side=side))
        elif values[0] is not None:
            title += f", {name} {shown_value(metric, values[0], side=side)}"
    return table(title, columns, rows)


def _measured(finding: "Finding") -> list[str]:
    """Value, interval and n; a lower bound is its own low end and is rounded like it."""
    metric, side = finding.metric, "down" if finding.value == finding.low else "nearest"
    value = shown_value(metric, finding.value, side=side)
    return [value, shown_interval(metric, finding.low, finding.high), f"{finding.n:,}"]


def _named(metric: str) -> str:
    """In words, with the identifier that limits and JSON use."""
    words = words_of(metric)
    return words if words == metric else f"{words} ({metric})"


def _verdict(finding: "Finding", comparison: "Comparison | None") -> str:
    """In a word or two; never that nothing leaks, and a leak is told even where it is consistent with a ceiling."""
    above = "" if finding.standing is None else finding.standing.value
    if comparison is None or comparison.ceiling is None:
        return above or "–"
    said = comparison.verdict.value
    return f"above null, {said}" if finding.beats_null and said != "refuted" else said
