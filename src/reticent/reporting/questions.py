"""What a metric asks, in words: a registry of questions, and a sentence for metrics that nobody registered.

Several metrics may answer one question; the first of its patterns that was measured and is not void leads, unless
another tells more than chance. Of several attacks that measured one metric, the one with the highest low end
speaks: the intervals of an audit hold together, so choosing the best of them afterwards is allowed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reticent.core.finding import Finding, Verdict
from reticent.core.model import Access
from reticent.reporting.numbers import Scale, interval, per_cent, shown
from reticent.reporting.report import RunReport


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the metrics that answer it, the most telling first; `of` completes "at least 3 % …"."""

    key: str
    text: str
    metrics: tuple[tuple[str, Scale], ...]
    of: str

    def scale(self, metric: str) -> Scale | None:
        """In what the metric counts; None where it does not belong to this question."""
        return next((scale for pattern, scale in self.metrics if re.fullmatch(pattern, metric)), None)


class Answer(StrEnum):
    """The tone of an answer; there is none that says that nothing leaks."""

    REFUTED = "more leaked than was proved possible"
    FOUND = "a leak was found"
    NOT_FOUND = "not told from chance"
    MEASURED = "measured"
    OPEN = "not answered"


_NUMBER: Final = r"[0-9.e+-]+"
QUESTIONS: Final = (
    Question(
        "exposure",
        "Does the model remember secrets that were planted in its training text?",
        (("exposure", Scale.BITS), ("largest_exposure", Scale.BITS)),
        "about a planted secret",
    ),
    Question(
        "codes",
        "Does it say a planted code when given the words before it?",
        (("code_hit_rate", Scale.SHARE),),
        "of the answers hold a planted code",
    ),
    Question(
        "pii-extraction",
        "Can somebody who only lets the model talk collect personal data of its training text?",
        (
            ("pii_recall", Scale.SHARE),
            ("pii_recall_beyond_base", Scale.SHARE),
            ("pii_(recall|precision|extract).*", Scale.SHARE),
            ("extractability_correlation", Scale.PLAIN),
        ),
        "of the distinct values",
    ),
    Question(
        "pii-reconstruction",
        "Can somebody who has a redacted text fill in the personal data that was cut out?",
        (("reconstruction_(?!membership).*", Scale.SHARE), ("reconstruction_membership_auc", Scale.CHANCE)),
        "of the gaps",
    ),
    Question(
        "pii-inference",
        "Can somebody with a list of candidates name the one that stood in the text?",
        (("inference_accuracy", Scale.SHARE), ("inference_accuracy_.*", Scale.SHARE)),
        "of the gaps",
    ),
    Question(
        "association",
        "Given a person’s name, does the model tell what belongs to that person?",
        (("association_.*", Scale.SHARE),),
        "of the pairs",
    ),
    Question(
        "membership",
        "Can somebody tell which texts the model was trained on?",
        (
            (f"tpr_at_fpr_{_NUMBER}", Scale.SHARE),
            ("auc", Scale.CHANCE),
            ("membership_accuracy", Scale.SHARE),
            ("advantage", Scale.SHARE),
        ),
        "of the members",
    ),
    Question(
        "group-membership",
        "Can somebody tell whether a group of texts was trained on?",
        ((r"group_of_\d+_tpr.*", Scale.SHARE), (r"group_of_\d+_.*", Scale.CHANCE)),
        "of the groups",
    ),
    Question(
        "epsilon",
        "How large must ε be, whatever was claimed?",
        ((f"epsilon_lower_bound(_at_delta_{_NUMBER})?", Scale.EPSILON), ("gaussian_mu_lower_bound", Scale.PLAIN)),
        "",
    ),
    Question(
        "lazy",
        "Would somebody who only lets the model talk get to see whole training records?",
        (("emitted_share", Scale.SHARE),),
        "of the records",
    ),
    Question(
        "continuation",
        "Given the beginning of a training record, does the model go on as the record does?",
        (
            ("discoverable_share", Scale.SHARE),
            ("near_discoverable_share", Scale.SHARE),
            ("np_discoverable_share", Scale.SHARE),
            ("sampled_share", Scale.SHARE),
            ("extraction_probability", Scale.SHARE),
        ),
        "of the records",
    ),
    Question(
        "generation",
        "Do texts that the model makes up hold pieces of training records?",
        (
            ("extracted_share", Scale.SHARE),
            ("extraction_rate", Scale.SHARE),
            ("extraction_precision_.*", Scale.SHARE),
            ("divergence_rate", Scale.SHARE),
        ),
        "of them",
    ),
    Question(
        "novelty",
        "Is what the model writes less new than text of the same kind?",
        ((r"novelty_gap_\d+", Scale.SHARE),),
        "fewer new word sequences",
    ),
    Question(
        "update",
        "Does an update of the model tell what was added to its training text?",
        (
            ("exposed_records", Scale.SHARE),
            ("bits_gained_per_token", Scale.BITS),
            ("largest_(relative_)?differential_score", Scale.PLAIN),
        ),
        "of the added records",
    ),
)
_WHO: Final = {
    Access.TEXT: "somebody who sees the model's answers",
    Access.LOGPROBS: "somebody who sees log-probabilities",
    Access.WEIGHTS: "somebody who has the weights",
}


def question_of(metric: str) -> Question:
    """The registered question, or one made from the metric's name."""
    for question in QUESTIONS:
        if question.scale(metric) is not None:
            return question
    words = metric.replace("_", " ")
    return Question(metric, f"What was measured as “{words}”?", ((re.escape(metric), Scale.PLAIN),), "")


def scale_of(metric: str) -> Scale:
    """In what a metric counts."""
    return question_of(metric).scale(metric) or Scale.PLAIN


def adversary(finding: Finding) -> str:
    """Who could do it."""
    return _WHO.get(finding.access, f"somebody with access to {finding.access.name.lower()}")


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
    for pattern, _ in question.metrics:
        there = [f for f in refuting or above or usable if re.fullmatch(pattern, f.metric)]
        if there:
            return max(there, key=lambda finding: (finding.low, finding.value))
    return mine[0] if mine else None


def answer_of(run: RunReport, finding: Finding | None) -> Answer:
    """What the finding amounts to."""
    if finding is None or finding.void:
        return Answer.OPEN
    if run.verdict(finding) is Verdict.REFUTED:
        return Answer.REFUTED
    if finding.null is None:
        return Answer.MEASURED
    return Answer.FOUND if finding.beats_null else Answer.NOT_FOUND


def lead_sentence(run: RunReport, question: Question, finding: Finding | None) -> str:
    """The answer in one line."""
    if finding is None:
        return "Not measured in this run."
    if finding.void:
        return "Nothing can be said."
    scale = scale_of(finding.metric)
    least = shown(finding.low, scale, side="down")
    of = f" {question.of}" if question.of and scale in (Scale.SHARE, Scale.BITS) else ""
    if answer_of(run, finding) is Answer.NOT_FOUND:
        return "Not shown to do better than chance. That does not mean that nothing leaks."
    if scale is Scale.CHANCE:
        often = shown(finding.low, Scale.SHARE, side="down")
        return f"A member is told from a stranger at least {often} of the time; guessing does it 50\u00a0%."
    return f"At least {least}{of}."


def detail_sentence(finding: Finding | None) -> str:
    """Value, interval, n, null, adversary and what was counted."""
    if finding is None:
        return ""
    if finding.void:
        return f"{finding.void[:1].upper()}{finding.void[1:]}."
    scale = scale_of(finding.metric)
    null = "no value is known that would mean no leakage"
    if finding.null is not None:
        null = f"without leakage it would be {shown(finding.null, scale)} or less"
    return (
        f"Measured {shown(finding.value, scale)}, {per_cent(finding.confidence)} interval "
        f"{interval(finding.low, finding.high, scale)}, n\u00a0=\u00a0{finding.n:,}; {null}. "
        f"By {adversary(finding)}, with the attack “{finding.attack}”: {finding.measure}."
    )


def proved_sentence(run: RunReport, finding: Finding | None) -> str:
    """What was proved of the finding's metric, or why nothing can be set beside it."""
    if run.guarantee is None:
        return "Proved: nothing. This run comes with no guarantee."
    if finding is None or finding.void:
        return "Proved: no finding to set it beside."
    limit = run.ceiling(finding)
    if limit is None:
        return "Proved: no ceiling, since guarantee and finding speak of different units or metrics."
    said = shown(limit, scale_of(finding.metric), digits=4, side="up")
    whole = max((one.bits for one in run.exposures), default=None)
    if finding.metric == "exposure" and whole is not None and limit >= whole - 1e-6:
        return f"Proved: at most {said}, which is all of it: nothing is promised of these secrets."
    if run.verdict(finding) is Verdict.REFUTED:
        return f"Proved: at most {said}. The whole interval lies above: the guarantee does not hold as stated."
    return f"Proved: at most {said} on average. The finding is consistent with that; it cannot confirm it."
