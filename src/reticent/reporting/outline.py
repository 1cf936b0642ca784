"""The order of a report: the first screen, the charts, the tables, what is missing, how to repeat it."""

from collections import Counter
from collections.abc import Sequence

from reticent.core.printing.numbers import counted
from reticent.reporting.actions import next_section, steps
from reticent.reporting.content import Section
from reticent.reporting.questions import Answer, answer_of, asked, lead_sentence, speaker
from reticent.reporting.report import GateLine, Report, RunReport, named
from reticent.reporting.sections.charts import CHARTS
from reticent.reporting.sections.first_screen import guarantees, limits, promise, side_by_side, usefulness, verdicts
from reticent.reporting.sections.glossary import glossary
from reticent.reporting.sections.tables import (
    findings_section,
    policies_section,
    records_section,
    reproduce_section,
    untested_section,
    update_section,
)


def sections(report: Report) -> tuple[Section, ...]:
    """Every section that has something to say, in the order in which it is read."""
    beside, answers, useful = side_by_side(report), verdicts(report), usefulness(report)
    drawn = (*(draw(report) for draw in CHARTS), records_section(report), policies_section(report))
    return (
        answers if beside is None else beside,
        next_section(report),
        untested_section(report),
        *(() if beside is None else (answers,)),
        limits(report),
        guarantees(report),
        *(() if useful is None else (useful,)),
        *(section for section in (*drawn, update_section(report)) if section.blocks),
        findings_section(report),
        glossary(),
        reproduce_section(report),
    )


def verdict_lines(report: Report) -> tuple[str, ...]:
    """The box at the head of the page: does it leak, what is proved, are the limits kept, what now."""
    gate = [line for run in report.runs for line in run.gate]
    first = next(iter(steps(report)), "")
    said = (f"Leaks: {_leaks(report)}", f"Proved: {_proved(report)}", f"Limits: {_gate(gate)}")
    return (*said, *((f"Next: {first}",) if first else ()))


def headline(report: Report) -> str:
    """The box as one line."""
    return " ".join(verdict_lines(report))


def verdict_tone(report: Report) -> str:
    """The colour of the box."""
    if any(run.refuted for run in report.runs):
        return Answer.REFUTED.name.lower()
    return Answer.FOUND.name.lower() if any(_is_leaking(run) for run in report.runs) else Answer.OPEN.name.lower()


def _leaks(report: Report) -> str:
    answers = [(run, question, speaker(run, question)) for run in report.runs for question in asked([run])]
    given = Counter(answer_of(run, finding) for run, _, finding in answers)
    told = len(answers) - given[Answer.OPEN]
    refuted = sum(len(run.refuted) for run in report.runs)
    if refuted:
        return f"more than was proved possible, by {counted(refuted, 'finding')}."
    if not told:
        return "nothing was measured, so this report cannot tell."
    if len(report.runs) > 1:
        leaking = [run.name for run in report.runs if _is_leaking(run)]
        if not leaking:
            return f"none found in {len(report.runs)} runs. That does not mean that nothing leaks."
        return f"found in {len(leaking)} of {len(report.runs)} runs: {', '.join(leaking)}."
    if given[Answer.FOUND]:
        run, question, finding = next(one for one in answers if answer_of(one[0], one[2]) is Answer.FOUND)
        said = lead_sentence(run, question, finding)
        return f"yes, for {given[Answer.FOUND]} of {counted(told, 'question')}. {said}"
    return f"none found in {counted(told, 'question')}. That does not mean that nothing leaks."


def _is_leaking(run: RunReport) -> bool:
    return any(answer_of(run, speaker(run, question)) is Answer.FOUND for question in asked([run]))


def _proved(report: Report) -> str:
    if all(run.guarantee is None for run in report.runs):
        return "nothing."
    if len(report.runs) == 1:
        return f"{promise(report.runs[0])}."
    runs_of: dict[str, list[str]] = {}
    for run in report.runs:
        if run.guarantee is not None:
            runs_of.setdefault(promise(run), []).append(run.name)
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in runs_of.items()) + "."


def _gate(limits: Sequence[GateLine]) -> str:
    """How many limits failed, by outcome."""
    if not limits:
        return "none set."
    failed = Counter(line.outcome for line in limits if line.fails)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in failed.items())
    return f"{sum(failed.values())} of {len(limits)} failed{f' ({outcomes})' * bool(failed)}."


def title(report: Report) -> str:
    """What was looked at: the model and its training text, or how many of them."""
    corpora = {run.corpus for run in report.runs}
    corpus = next(iter(corpora)) if len(corpora) == 1 else ""
    on = f" trained on {corpus}" if corpus else ""
    name = named(report.runs[0].model)
    what = "models" if all(run.kind == "audit" for run in report.runs) else "runs"
    return f"{name}{on}" if len(report.runs) == 1 else f"{len(report.runs)} {what}{on}"
