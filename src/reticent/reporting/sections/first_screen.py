"""The first screen: a verdict per question in words, measured against proved, limits, runs beside each other.

Nothing here says "safe": the best an answer can say is that a finding is not distinguishable from chance.
"""

import math

from reticent.core.finding import Finding
from reticent.core.guarantee import Guarantee, Notion
from reticent.core.metric import scale_of
from reticent.core.printing.numbers import Scale, interval, per_cent, shown
from reticent.reporting.comparing import comparison_sentences
from reticent.reporting.content import Absent, Block, Card, Cell, Lines, Section, Table, Verdict, cell, table
from reticent.reporting.questions import (
    Answer,
    answer_of,
    asked,
    detail_sentence,
    lead_sentence,
    proved_sentence,
    speaker,
)
from reticent.reporting.report import GateLine, Report, RunReport
from reticent.reporting.sections.strips import bounds_by_access, strips


def verdicts(report: Report) -> Section:
    """A question, each run's answer, and measured against proved on one axis per metric."""
    blocks: list[Block] = []
    for question in asked(report.runs):
        answers = []
        for run in report.runs:
            finding = speaker(run, question)
            answer = answer_of(run, finding)
            answers.append(
                Verdict(
                    run.name if len(report.runs) > 1 else "",
                    answer.name.lower(),
                    answer.value,
                    lead_sentence(run, question, finding),
                    detail_sentence(finding),
                    proved_sentence(run, finding),
                )
            )
        blocks.append(Card(question.text, tuple(answers), strips(report.runs, question)))
        if (by_access := bounds_by_access(report.runs, question)) is not None:
            blocks.append(by_access)
    if not blocks:
        blocks.append(Absent("No question was answered", why_nothing_was_measured(report), said=""))
    lead = (
        "Measured ≤ true leakage ≤ proved. On each axis, the band is the measured interval and the dot its value; "
        "the dotted line is the most expected without leakage, the thick line the proved upper bound on the "
        f"average. “None found” never means that nothing leaks.{intervals_hold(report)}"
    )
    return Section("verdicts", "What leaks", lead, tuple(blocks), is_folded=len(report.runs) > 1)


def intervals_hold(report: Report) -> str:
    """The confidence of all intervals, said once."""
    joint = {per_cent(run.confidence) for run in report.runs if run.confidence is not None}
    if not joint:
        return ""
    return f" Joint confidence of all intervals of an audit: {' or '.join(sorted(joint))}."


def why_nothing_was_measured(report: Report) -> str:
    """The reasons of all runs, each once."""
    reasons = [run.absent.get("findings", "no attack was run") for run in report.runs]
    return "; ".join(dict.fromkeys(reasons))


def guarantees(report: Report) -> Section:
    """What was proved, with everything it rests on."""
    lead = "Upper bounds, each with what it protects and the assumptions it rests on."
    assumed = [line for run in report.runs for line in _conditions(run, is_only=len(report.runs) == 1)]
    blocks: tuple[Block, ...] = (_guarantees(report), *((Lines(tuple(assumed)),) if assumed else ()))
    return Section("proved", "What was proved", lead, blocks)


def _conditions(run: RunReport, *, is_only: bool) -> list[str]:
    """What every guarantee of the run rests on; what the headline rests on already is not said again."""
    of = "" if is_only else f" of {run.name}"
    assumed = run.guarantee.assumes if run.guarantee is not None else ()
    lines = [f"The headline guarantee{of} holds if {assumption}." for assumption in assumed]
    for name, one in run.other_guarantees.items():
        more = [assumption for assumption in one.assumes if assumption not in assumed]
        lines += [f"The guarantee “{name}”{of} holds if, in addition, {assumption}." for assumption in more]
    return lines


def _guarantees(report: Report) -> Table | Absent:
    rows = []
    for run in report.runs:
        named = {"headline": run.guarantee} if run.guarantee is not None else {}
        for name, one in {**named, **run.other_guarantees}.items():
            rows.append([cell(run.name), cell(name), cell(one.notion.value), *_promise(one)])
    if not rows:
        return Absent(
            "No guarantee",
            "these runs come with no guarantee; plain training promises nothing about its text",
            said="",
        )
    columns = ("run", "which", "promise", "protects", "ε", "δ", "covers")
    return table("Guarantees", columns, rows)


def promise(run: RunReport) -> str:
    """The headline guarantee in a few words."""
    one = run.guarantee
    if one is None:
        return "nothing proved"
    at = f"δ = {shown(one.delta, side='up')}" if one.order is None else f"order {shown(one.order)}"
    notion = "" if one.notion is Notion.DIFFERENTIAL_PRIVACY else f" ({one.notion.value})"
    return f"ε ≤ {shown(one.epsilon, side='up')} at {at} for one {one.unit.value}{notion}"


def _promise(one: Guarantee) -> list[Cell]:
    order = "" if one.order is None else f" at order {shown(one.order)}"
    nothing = " (nothing is proved)" if one.delta >= 1.0 or math.isinf(one.epsilon) else ""
    private = " (specific to this data set: do not publish)" if one.data_dependent else ""
    return [
        cell(f"one {one.unit.value} ({one.neighbours.value})"),
        Cell(shown(one.epsilon, digits=4, side="up") + order + nothing + private, one.epsilon),
        Cell(shown(one.delta, digits=3, side="up"), one.delta),
        cell(one.covers),
    ]


def limits(report: Report) -> Section:
    """How many findings refute a guarantee, and the gate of every run."""
    lines = [f"{run.name}: {comparison_sentences(run.comparisons)}" for run in report.runs if run.comparisons]
    blocks: list[Block] = [Lines(tuple(lines))] if lines else []
    rows = [_limit_row(run, line) for run in report.runs for line in run.gate]
    if rows:
        columns = ("run", "option", "limit", "deciding end", "outcome", "exit code")
        blocks.append(table("Limits", columns, rows))
    else:
        why = 'set one with reticent audit --require "METRIC<=NUMBER"; the exit code tells whether it is met'
        blocks.append(Absent("No limit was set", why, said=""))
    lead = (
        "Within: the whole interval lies within the limit. Exceeded: the whole interval lies beyond it. Undecided: "
        "the limit lies inside the interval, so there were too few targets to decide; --require then fails, "
        "--fail-if does not."
    )
    return Section("limits", "Limits and gate", lead, tuple(blocks))


def _limit_row(run: RunReport, line: GateLine) -> list[Cell]:
    by = f" by {', '.join(line.by)}" if line.by else ""
    said = f"{line.outcome}{by}{': ' * bool(line.reason)}{line.reason}"
    tone = "found" if line.fails else ""
    code = "1 (fails)" if line.fails else "not affected"
    return [
        cell(run.name),
        cell(line.option),
        cell(line.limit),
        cell(line.end),
        cell(said, tone=tone),
        cell(code, tone=tone),
    ]


def usefulness(report: Report) -> Section | None:
    """How well the model predicts held-out text; None where several runs stand side by side, or none says it."""
    (run,) = report.runs if len(report.runs) == 1 else (None,)
    if run is None or not run.utility:
        return None
    rows = [[cell(each.name), _useful(run, each.name), Cell(f"{each.n:,}", each.n)] for each in run.utility]
    block = table("Usefulness", ("measured", "value (95 % interval)", "tokens"), rows)
    return Section("usefulness", "How useful the model is", "On text that it was not trained on.", (block,))


def side_by_side(report: Report) -> Section | None:
    """Every metric of the verdicts, a column for each run; None for a single run."""
    if len(report.runs) < 2:
        return None
    rows = []
    for question in asked(report.runs):
        spoken = [speaker(run, question) for run in report.runs]
        row = [cell(question.text)]
        for run, finding in zip(report.runs, spoken, strict=True):
            row.append(_beside(run, finding))
        rows.append(row)
    names = sorted({useful.name for run in report.runs for useful in run.utility})
    rows += [[cell(name), *(_useful(run, name) for run in report.runs)] for name in names]
    rows.append([cell("proved"), *(cell(promise(run)) for run in report.runs)])
    columns = ("question", *(run.name for run in report.runs))
    lead = "The answer to each question for each run. Details are below."
    matrix = table("Runs side by side", columns, rows)
    return Section("runs", "Runs side by side", lead, (matrix,), is_folded=False)


def _useful(run: RunReport, name: str) -> Cell:
    for useful in run.utility:
        if useful.name == name:
            return Cell(f"{shown(useful.value)} ({interval(useful.low, useful.high)})", useful.value)
    return Cell("–")


def _beside(run: RunReport, finding: Finding | None) -> Cell:
    if finding is None or finding.void:
        return Cell(Answer.OPEN.value, tone=Answer.OPEN.name.lower())
    scale: Scale = scale_of(finding.metric)
    comparison = run.comparison(finding)
    limit = ""
    if comparison is not None and comparison.ceiling is not None:
        vacuous = ", vacuous" if comparison.is_vacuous else ""
        limit = f"; proved ≤ {shown(comparison.ceiling, scale, side='up')}{vacuous}"
    said = f"{shown(finding.value, scale)} ({interval(finding.low, finding.high, scale)}{limit})"
    if math.isinf(finding.high):
        said = f"at least {shown(finding.low, scale, side='down')}{limit}"
    answer = answer_of(run, finding)
    return Cell(said, finding.value, answer.name.lower(), answer.value)
