"""Answers in words: which finding answers a question of `core.metric`, and the sentences that say so.

Several metrics may answer one question; the first of them that was measured and is not void leads, unless
another tells more than chance. Of several attacks that measured one metric, the one with the highest low end
speaks: the intervals of an audit hold together, so choosing the best of them afterwards is allowed.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from reticent.core.finding import Finding, Standing, Verdict
from reticent.core.metric import QUESTIONS, Question, question_of, shown_interval, shown_value
from reticent.core.model import Access
from reticent.core.printing.numbers import Scale, shown
from reticent.reporting.report import RunReport


class Answer(StrEnum):
    """The tone of an answer; there is none that says that nothing leaks."""

    REFUTED = "refuted"
    FOUND = "leak found"
    NOT_FOUND = "none found"
    TOO_FEW = "too few to tell"
    MEASURED = "measured"
    OPEN = "not measured"


_WHO: Final = {
    Access.TEXT: "an attacker who sees the model's answers",
    Access.LOGPROBS: "an attacker who sees log-probabilities",
    Access.WEIGHTS: "an attacker who has the weights",
    Access.STEPS: "an attacker who sees every training step",
}
_SEEN: Final = {
    Access.TEXT: "text",
    Access.LOGPROBS: "log-probabilities",
    Access.WEIGHTS: "weights",
    Access.STEPS: "every step",
}


def adversary(finding: Finding) -> str:
    """Who could do it."""
    return _WHO[finding.access]


def adversary_with(access: Access) -> str:
    """What an attacker with this access sees, in a word or two."""
    return _SEEN[access]


def asked(runs: Sequence[RunReport]) -> tuple[Question, ...]:
    """Every question that some finding answers, registered ones first and in their order."""
    metrics = dict.fromkeys(finding.metric for run in runs for finding in run.findings)
    found = {question_of(metric).key: question_of(metric) for metric in metrics}
    order = {question.key: place for place, question in enumerate(QUESTIONS)}
    return tuple(sorted(found.values(), key=lambda question: order.get(question.key, len(order))))


def speaker(run: RunReport, question: Question) -> Finding | None:
    """What answers the question: what refutes, else what is above chance, else any; by metric and low end."""
    mine = [finding for finding in run.findings if question_of(finding.metric).key == question.key]
    usable = [finding for finding in mine if not finding.void]
    above = [finding for finding in usable if finding.beats_null]
    refuting = [finding for finding in usable if run.verdict(finding) is Verdict.REFUTED]
    there = refuting or above or usable
    if not there:
        return mine[0] if mine else None
    return max(there, key=lambda one: (-(question.row(one.metric) or 0), one.low, one.value))


def answer_of(run: RunReport, finding: Finding | None) -> Answer:
    """What the finding amounts to."""
    if finding is None or finding.void:
        return Answer.OPEN
    if run.verdict(finding) is Verdict.REFUTED:
        return Answer.REFUTED
    # Whoever sees every step sees something of every run: the question is how much, and what was proved.
    if finding.null is None or finding.access is Access.STEPS:
        return Answer.MEASURED
    if finding.standing is Standing.TOO_FEW:
        return Answer.TOO_FEW
    return Answer.FOUND if finding.beats_null else Answer.NOT_FOUND


def lead_sentence(run: RunReport, question: Question, finding: Finding | None) -> str:
    """The answer in one line."""
    if finding is None:
        return "Not measured in this run."
    if finding.void:
        return "No conclusion is possible."
    if answer_of(run, finding) is Answer.TOO_FEW:
        return f"Too few to tell: even a perfect score on {finding.n:,} would not be above chance."
    if answer_of(run, finding) is Answer.NOT_FOUND:
        return (
            f"Not distinguishable from chance: {shown_value(finding.metric, finding.value)} "
            f"({shown_interval(finding.metric, finding.low, finding.high)})."
        )
    measured = question.measured(finding.metric)
    words = "" if measured is None else measured.answer
    if measured is not None and measured.metric.scale is Scale.CHANCE:
        often = shown(finding.low, Scale.SHARE, side="down")
        return f"{words[:1].upper()}{words[1:]} at least {often} of the time; guessing gets 50\u00a0%."
    least = shown_value(finding.metric, finding.low, side="down")
    return f"At least {least}{' ' * bool(words)}{words}."


def detail_sentence(finding: Finding | None) -> str:
    """Value, interval, n, null, adversary and what was counted."""
    if finding is None:
        return ""
    if finding.void:
        return f"{finding.void[:1].upper()}{finding.void[1:]}."
    null = "the value without leakage is not known"
    if finding.null is not None:
        null = f"without leakage at most {shown_value(finding.metric, finding.null, side='up')} is expected"
    return (
        f"Measured {shown_value(finding.metric, finding.value)}, interval "
        f"{shown_interval(finding.metric, finding.low, finding.high)}, n\u00a0=\u00a0{finding.n:,}; {null}. "
        f"By {adversary(finding)}, with the attack “{finding.attack}”: {finding.measure}."
    )


def proved_sentence(run: RunReport, finding: Finding | None) -> str:
    """What was proved of the finding's metric, or why nothing can be set beside it."""
    if run.guarantee is None:
        return "Proved: nothing. This run comes with no guarantee."
    if finding is None or finding.void:
        return "Proved: see the guarantee; there is no usable finding to compare with it."
    comparison = run.comparison(finding)
    if comparison is None or comparison.ceiling is None:
        why = "the two were not compared" if comparison is None else comparison.why_not
        return f"Proved: nothing comparable with this number ({why})."
    said = shown_value(finding.metric, comparison.ceiling, digits=4, side="up")
    if comparison.verdict is Verdict.REFUTED:
        return f"Proved: at most {said}. The whole interval lies above: the guarantee does not hold as stated."
    if comparison.verdict is Verdict.VACUOUS:
        return f"Proved: at most {said}, a vacuous ceiling: it allows everything, so no finding could be above it."
    return f"Proved: at most {said} on average. The finding is consistent with that; it cannot confirm it."
