"""What to do: about the records from which an attacker gains most, and next; it follows from the numbers.

A record *stands out* when it is likelier to be said, or has a lower calibrated loss, token for token, than 97.5 %
of the held-out records: that says something of this very text and not of its kind or length (at most 5 % of
strangers would, by chance). A record that is likely and does not stand out is a commonplace. Kinds of secrets and
copies among all records come from the corpus, where the report's maker read it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from reticent.reporting.content import Lines, Section
from reticent.reporting.questions import Answer, answer_of, asked, speaker
from reticent.reporting.report import Report, RiskMap, RiskPoint, RunReport

WORST: Final = 30
_SHARE_BEYOND: Final = 0.025  # in each of two directions
_SEEN: Final = math.log(0.01)  # a record that appears in the attacker's samples this often is as good as out
_RETRAIN: Final = "Retrain with a guarantee: --method dp-sgd, or --method crt if you know the secrets."


@dataclass(frozen=True, slots=True)
class Advice:
    """A record and what to do about it; `stands_out` None where no held-out record tells."""

    point: RiskPoint
    copies: int
    stands_out: bool | None
    actions: tuple[str, ...]


def worst_records(run: RunReport, count: int = WORST) -> tuple[Advice, ...]:
    """The training texts most at risk, the worst first; one record of each text."""
    risk_map = run.risk_map
    training = None if risk_map is None else risk_map.group("training")
    if risk_map is None or training is None:
        return ()
    stands_out = outstanding(risk_map)
    listed = training.worst(count)
    return tuple(
        _advice(point, run, copies=copies, stands_out=None if stands_out is None else stands_out(point))
        for point, copies in listed
    )


def outstanding(risk_map: RiskMap) -> Callable[[RiskPoint], bool] | None:
    """Whether a record is beyond its kind in either direction; None where no held-out record can tell."""
    held_out = risk_map.group("held-out")
    if held_out is None or not held_out.points:
        return None
    place = int(_SHARE_BEYOND * len(held_out.points))
    lowest_loss = sorted(point.calibrated / point.tokens for point in held_out.points)[place]
    likeliest = sorted((point.emission / point.tokens for point in held_out.points), reverse=True)[place]
    return lambda point: point.calibrated / point.tokens < lowest_loss or point.emission / point.tokens > likeliest


def _advice(point: RiskPoint, run: RunReport, *, copies: int, stands_out: bool | None) -> Advice:
    actions = []
    copies = max(copies, 1 if point.facts is None else point.facts.copies)
    if copies > 1:
        actions.append(f"Deduplicate: the text occurs {copies} times.")
    if stands_out and point.facts is not None and point.facts.kinds:
        actions.append(f"Redact {', '.join(point.facts.kinds)} and retrain.")
    if stands_out and point.log_chance >= _SEEN:
        actions.append("Remove it and retrain; until then, filter it from answers.")
    if stands_out and run.guarantee is None:
        actions.append(_RETRAIN)
    elif stands_out:
        actions.append("Retrain with a smaller ε if this is too much.")
    if stands_out is False and point.log_chance >= _SEEN:
        actions.append("As likely as other texts of its kind: check whether it is a template.")
    if stands_out is None and point.log_chance >= _SEEN:
        actions.append("Likely to be emitted: audit with held-out text to see whether similar texts are too.")
    return Advice(point, copies, stands_out, tuple(actions) or ("These numbers suggest no action.",))


def next_section(report: Report) -> Section:
    """The steps of all runs, each once."""
    return Section("next", "What to do next", "", (Lines(steps(report), is_ordered=True),), is_folded=False)


def steps(report: Report) -> tuple[str, ...]:
    """What to do next, the step with the greatest effect first."""
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
        yield _RETRAIN
    if Answer.FOUND in answers and run.guarantee is not None:
        yield "If the leak is too large, retrain with a smaller ε: --target-epsilon."
    # Where no attack does better than chance, one text in twenty stands out all the same: no reason to redact it.
    leaks = bool(answers & {Answer.FOUND, Answer.REFUTED})
    if any(one.stands_out and (leaks or one.point.log_chance >= _SEEN) for one in worst_records(run)):
        yield "Redact or remove the records that stand out, listed under “Records and what to do”."
    if Answer.OPEN in answers:
        yield "Some measurements are void: “What was not measured” says what each of them needs."
    if Answer.TOO_FEW in answers or any(line.outcome == "undecided" for line in run.gate):
        yield "Audit with more records (--records) and more held-out text: some questions had too few targets."
    if run.is_audited:
        return
    if not run.findings:
        yield "Audit the model: reticent audit MODEL --train FILE --holdout FILE --out RUN."
    elif not run.gate:
        yield 'Set limits for the next release: reticent audit … --require "METRIC<=NUMBER".'
    if "exposure" in run.absent:
        yield "Plant canaries before the next training (reticent plant): they show what the model memorises."
