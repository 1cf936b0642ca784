"""What to do next, the step with the greatest effect first; each follows from what was measured or proved."""

from collections.abc import Iterator

from reticent.reporting.actions import RETRAIN, SEEN, worst_records
from reticent.reporting.content import Lines, Section
from reticent.reporting.questions import Answer, answer_of, asked, speaker
from reticent.reporting.report import Report, RunReport


def next_section(report: Report) -> Section:
    """The steps of all runs, each once."""
    return Section("next", "What to do next", "", (Lines(steps(report), is_ordered=True),), is_folded=False)


def steps(report: Report) -> tuple[str, ...]:
    """What follows from the numbers, in order of effect."""
    return tuple(dict.fromkeys(step for run in report.runs for step in _steps(run)))


def _steps(run: RunReport) -> Iterator[str]:
    answers = {answer_of(run, speaker(run, question)) for question in asked([run])}
    if Answer.REFUTED in answers:
        yield "Do not rely on the guarantee: the measured leakage exceeds it. Find out which assumption fails."
    copies = sum(one.copies > 1 for one in worst_records(run))
    if copies:
        occur = "occurs" if copies == 1 else "occur"
        yield f"Deduplicate the training text: {copies} of the texts most at risk {occur} more than once."
    if Answer.FOUND in answers and run.guarantee is None:
        yield RETRAIN
    if Answer.FOUND in answers and run.guarantee is not None:
        yield "If the leak is too large, retrain with a smaller ε: --target-epsilon."
    # Where no attack does better than chance, one text in twenty stands out all the same: no reason to redact it.
    leaks = bool(answers & {Answer.FOUND, Answer.REFUTED})
    if any(one.stands_out and (leaks or one.point.log_chance >= SEEN) for one in worst_records(run)):
        yield "Redact or remove the records that stand out, listed under “Records and what to do”."
    if Answer.TOO_FEW in answers or Answer.OPEN in answers or any(line.outcome == "undecided" for line in run.gate):
        yield "Audit with more records (--records) and more held-out text: some questions had too few targets."
    if run.is_audited:
        return
    if not run.findings:
        yield "Audit the model: reticent audit MODEL --train FILE --holdout FILE --out RUN."
    elif not run.gate:
        yield 'Set limits for the next release: reticent audit … --require "METRIC<=NUMBER".'
    if "exposure" in run.absent:
        yield "Plant canaries before the next training (reticent plant): they show what the model memorises."
