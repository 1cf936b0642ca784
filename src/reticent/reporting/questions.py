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
class Measured:
    """A metric that answers a question: its name as a pattern, its scale, and the end of the answer.

    `of` completes "At least 3 % …"; of an area under a curve, "… at least 71 % of the time". A brace pair is filled
    with what the pattern's group matched.
    """

    pattern: str
    scale: Scale
    of: str = ""

    def words(self, metric: str) -> str:
        """The end of the answer for this very metric."""
        found = re.fullmatch(self.pattern, metric)
        return self.of if found is None else self.of.format(*found.groups())


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the metrics that answer it, the most telling first."""

    key: str
    text: str
    metrics: tuple[Measured, ...]

    def measured(self, metric: str) -> Measured | None:
        """How the metric answers this question; None where it does not belong to it."""
        return next((one for one in self.metrics if re.fullmatch(one.pattern, metric)), None)


class Answer(StrEnum):
    """The tone of an answer; there is none that says that nothing leaks."""

    REFUTED = "more leaked than was proved possible"
    FOUND = "a leak was found"
    NOT_FOUND = "not told from chance"
    MEASURED = "measured"
    OPEN = "not answered"


_NUMBER: Final = r"[0-9.e+-]+"
_SHARE, _BITS, _CHANCE, _PLAIN = Scale.SHARE, Scale.BITS, Scale.CHANCE, Scale.PLAIN
QUESTIONS: Final = (
    Question(
        "exposure",
        "Does the model remember secrets that were planted in its training text?",
        (
            Measured("exposure", _BITS, "about a planted secret, on average"),
            Measured("largest_exposure", _BITS, "about the most exposed planted secret"),
        ),
    ),
    Question(
        "codes",
        "Does it say a planted code when given the words before it?",
        (Measured("code_hit_rate", _SHARE, "of the answers are a planted code"),),
    ),
    Question(
        "pii-extraction",
        "Can somebody who only lets the model talk collect personal data of its training text?",
        (
            Measured("pii_recall", _SHARE, "of the distinct values in the training text were emitted"),
            Measured(
                "pii_recall_beyond_base", _SHARE, "of the distinct values were emitted, and not by the base model"
            ),
            Measured("pii_precision.*", _SHARE, "of the distinct values that were emitted are training values"),
            Measured("extractability_correlation", _PLAIN, "as correlation of estimated and observed extraction"),
        ),
    ),
    Question(
        "pii-reconstruction",
        "Can somebody who has a redacted text fill in the personal data that was cut out?",
        (
            Measured("reconstruction_top5", _SHARE, "of the gaps have the truth among the five best candidates"),
            Measured("reconstruction_(?!membership|top5).*", _SHARE, "of the gaps were filled with the truth"),
            Measured(
                "reconstruction_membership_auc", _CHANCE, "a gap that can be filled is told from one that cannot"
            ),
        ),
    ),
    Question(
        "pii-inference",
        "Can somebody with a list of candidates name the one that stood in the text?",
        (Measured("inference_accuracy(?:_.*)?", _SHARE, "of the gaps had the truth picked from the list"),),
    ),
    Question(
        "association",
        "Given a person’s name, does the model tell what belongs to that person?",
        (Measured("association_.*", _SHARE, "of the pairs of a name and a value were told"),),
    ),
    Question(
        "membership",
        "Can somebody tell which texts the model was trained on?",
        (
            Measured(
                f"tpr_at_fpr_({_NUMBER})", _SHARE, "of the members were found, at a false-positive rate of {}"
            ),
            Measured("auc", _CHANCE, "a member is told from a stranger"),
            Measured("membership_accuracy", _SHARE, "of the guesses at membership were right"),
            Measured("advantage", _SHARE, "more of the members than of the others were accused"),
        ),
    ),
    Question(
        "group-membership",
        "Can somebody tell whether a group of texts was trained on?",
        (
            Measured(
                rf"group_of_(\d+)_tpr_at_fpr_({_NUMBER})",
                _SHARE,
                "of the groups of {} were found, at a false-positive rate of {}",
            ),
            Measured(r"group_of_(\d+)_auc", _CHANCE, "a group of {} that was trained on is told from another"),
            Measured(r"group_of_\d+_.*", _PLAIN),
        ),
    ),
    Question(
        "epsilon",
        "How large must ε be, whatever was claimed?",
        (
            Measured(f"epsilon_lower_bound(?:_at_delta_{_NUMBER})?", Scale.EPSILON),
            Measured("gaussian_mu_lower_bound", _PLAIN, "for μ of Gaussian differential privacy"),
        ),
    ),
    Question(
        "lazy",
        "Would somebody who only lets the model talk get to see whole training records?",
        (Measured("emitted_share", _SHARE, "of the records would probably be seen"),),
    ),
    Question(
        "continuation",
        "Given the beginning of a training record, does the model go on as the record does?",
        (
            Measured("(?:near_|np_)?discoverable_share", _SHARE, "of the records"),
            Measured("sampled_share", _SHARE, "of the records"),
            Measured("extraction_probability", _SHARE, "chance to extract the secret"),
        ),
    ),
    Question(
        "generation",
        "Do texts that the model makes up hold pieces of training records?",
        (
            Measured("extracted_share", _SHARE, "of the records have a piece in the generated texts"),
            Measured("extraction_rate", _SHARE, "of the generated texts hold such a piece"),
            Measured("extraction_precision_.*", _SHARE, "of the best ranked texts hold such a piece"),
            Measured("divergence_rate", _SHARE, "of the answers to repeat prompts hold such a piece"),
        ),
    ),
    Question(
        "novelty",
        "Is what the model writes less new than text of the same kind?",
        (Measured(r"novelty_gap_(\d+)", _SHARE, "fewer new sequences of {} words than in held-out text"),),
    ),
    Question(
        "update",
        "Does an update of the model tell what was added to its training text?",
        (
            Measured("exposed_records", _SHARE, "of the added records hold a phrase that was found"),
            Measured("bits_gained_per_token", _BITS, "a token of an added record, on average"),
            Measured("largest_(?:relative_)?differential_score", _PLAIN, "as the highest score of a phrase"),
        ),
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
        if question.measured(metric) is not None:
            return question
    words = metric.replace("_", " ")
    return Question(metric, f"What was measured as “{words}”?", (Measured(re.escape(metric), Scale.PLAIN),))


def scale_of(metric: str) -> Scale:
    """In what a metric counts."""
    found = question_of(metric).measured(metric)
    return Scale.PLAIN if found is None else found.scale


def adversary(finding: Finding) -> str:
    """Who could do it."""
    return _WHO[finding.access]


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
    for measured in question.metrics:
        there = [f for f in refuting or above or usable if re.fullmatch(measured.pattern, f.metric)]
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
    if answer_of(run, finding) is Answer.NOT_FOUND:
        return "Not shown to do better than chance. That does not mean that nothing leaks."
    measured = question.measured(finding.metric)
    words = "" if measured is None else measured.words(finding.metric)
    if measured is not None and measured.scale is Scale.CHANCE:
        often = shown(finding.low, Scale.SHARE, side="down")
        return f"{words[:1].upper()}{words[1:]} at least {often} of the time; guessing does it 50\u00a0%."
    least = shown(finding.low, scale_of(finding.metric), side="down")
    return f"At least {least}{' ' * bool(words)}{words}."


def detail_sentence(finding: Finding | None) -> str:
    """Value, interval, n, null, adversary and what was counted."""
    if finding is None:
        return ""
    if finding.void:
        return f"{finding.void[:1].upper()}{finding.void[1:]}."
    scale = scale_of(finding.metric)
    null = "no value is known that would mean no leakage"
    if finding.null is not None:
        null = f"without leakage at most {shown(finding.null, scale)} is expected"
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
        return "Proved: see the guarantee; there is no usable finding to set beside it."
    comparison = run.comparison(finding)
    if comparison is None or comparison.ceiling is None:
        why = "the two were not compared" if comparison is None else comparison.why_not
        return f"Proved: no ceiling for this finding: {why}."
    said = shown(comparison.ceiling, scale_of(finding.metric), digits=4, side="up")
    if comparison.verdict is Verdict.REFUTED:
        return f"Proved: at most {said}. The whole interval lies above: the guarantee does not hold as stated."
    if comparison.verdict is Verdict.VACUOUS:
        return f"Proved: at most {said}, a vacuous ceiling: it allows everything, so no finding could be above it."
    return f"Proved: at most {said} on average. The finding is consistent with that; it cannot confirm it."
