"""An annex for a data-protection file: which findings speak to which point of two public texts. Facts, no advice.

    EDPB Opinion 28/2024 (17 December 2024), on when an AI model may be called anonymous: the likelihood of direct,
        including probabilistic, extraction of personal data; the likelihood of obtaining such data from queries,
        intended or not; both for any data subject. Evidence by design, by testing against attacks, by documents.
    OWASP AISVS 1.0, chapter C11 (Adversarial Robustness): the requirements that an audit or a guarantee speaks to.

Every question of `core.metric` has a place under each likelihood or attack that it measures; a test holds that.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from reticent.core.metric import QUESTIONS
from reticent.core.printing.numbers import Scale, interval, shown
from reticent.core.printing.safe_text import for_markdown as _text
from reticent.reporting.outline import title
from reticent.reporting.questions import answer_of, detail_sentence, lead_sentence, speaker
from reticent.reporting.report import Report, RunReport
from reticent.reporting.sections.first_screen import intervals_hold, promise

EXTRACTION: Final = "Likelihood of direct extraction of personal data, probabilistic extraction included"
QUERIES: Final = "Likelihood of obtaining personal data from queries, intended or not"
ATTACKS: Final = "Testing against attacks: "
OPINION: Final = {
    EXTRACTION: ("exposure", "pii-extraction", "lazy", "generation", "epsilon"),
    QUERIES: ("codes", "continuation", "pii-reconstruction", "pii-inference", "association"),
    f"{ATTACKS}membership inference": ("membership", "group-membership", "dataset"),
    f"{ATTACKS}attribute inference": ("attributes", "pii-inference", "association"),
    f"{ATTACKS}exfiltration": ("codes", "pii-extraction", "update"),
    f"{ATTACKS}regurgitation of training data": ("lazy", "continuation", "generation", "novelty"),
    f"{ATTACKS}reconstruction": ("pii-reconstruction", "exposure"),
}
_NOT_OURS: Final = (
    "Testing against model inversion beyond text, the choice of sources, the legal basis, necessity and balancing, "
    "and the rights of data subjects: nothing measured here addresses them."
)


def render_annex(report: Report) -> str:
    """The annex as Markdown, the runs one after the other."""
    lines = [f"# Annex: what was measured and proved about {_text(title(report))}", ""]
    lines += [
        "This annex states facts about one or more models. It gives no legal advice, and it does not say that a "
        "model is anonymous or safe: that is for the controller to assess.",
        "",
        "Each finding is a lower bound: a better attacker may get more. Each guarantee is an upper bound under its "
        f"assumptions. Findings apply to the targets that were tried, not to every person.{intervals_hold(report)}",
        "",
    ]
    for run in report.runs:
        lines += [f"## {_text(run.name)}", "", *_facts(report, run), "", *_opinion(run), "", *_aisvs(run), ""]
    return "\n".join([*lines, f"Not covered. {_NOT_OURS}"]) + "\n"


def _facts(report: Report, run: RunReport) -> Iterator[str]:
    yield f"- Model: {_text(run.model)}; training text: {_text(run.corpus or 'not named')}"
    yield f"- Run from {run.origin.started} to {run.origin.finished or 'not finished'}"
    yield f"- By reticent {report.version}: {_text(run.origin.command)}"
    yield f"- Documents: {', '.join(run.origin.sources)} in the run directory"


def _opinion(run: RunReport) -> Iterator[str]:
    yield "### EDPB Opinion 28/2024"
    yield ""
    yield "| What the Opinion considers | What this run shows |"
    yield "|:--|:--|"
    for point, keys in OPINION.items():
        yield _row(point, _answers(run, keys))
    yield _row("Design of the model: methods of training that preserve privacy", _guarantee(run))
    yield _row("Design of the model: preparation and minimisation of the data", _policies(run))
    yield _row("Documentation of measures and tests", "This annex, and the documents named above.")


def _aisvs(run: RunReport) -> Iterator[str]:
    yield "### OWASP AISVS 1.0, C11"
    yield ""
    yield "| Requirement | What this run shows |"
    yield "|:--|:--|"
    limits = "; ".join(f"{line.option} {line.limit}: {line.outcome}" for line in run.gate)
    tried = ", ".join(dict.fromkeys(line.attack for line in run.plan if not line.skipped))
    yield _row("C11.1.2 A test suite is run on every update or release", limits or "No limit was set in this run.")
    yield _row("C11.1.3 The model is evaluated against known attacks", f"Tried: {tried or 'none in this run'}.")
    yield _row(
        "C11.2.1 Inferred sensitive attributes are not returned",
        _answers(run, ("attributes", "pii-inference", "association")),
    )
    yield _row("C11.2.4 Training on sensitive data is differentially private", _guarantee(run))
    yield _row(
        "C11.2.5 Membership inference does not exceed guessing", _answers(run, ("membership", "group-membership"))
    )
    yield _row(
        "C11.2.2, C11.3 Rate limits and detection of extraction",
        "A run does not measure it: it depends on how the model is served.",
    )


def _answers(run: RunReport, keys: Sequence[str]) -> str:
    """What was measured of these questions, or that nothing was."""
    said = []
    for question in QUESTIONS:
        finding = speaker(run, question) if question.key in keys else None
        if finding is not None and not finding.void:
            lead, detail = lead_sentence(run, question, finding), detail_sentence(finding)
            said.append(f"{question.text} {answer_of(run, finding).value.capitalize()}. {lead} {detail}")
    return " ".join(said) or "Not measured."


def _guarantee(run: RunReport) -> str:
    guarantee = run.guarantee
    if guarantee is None:
        return "Nothing was proved."
    notes = " A finding refutes it." if run.refuted else ""
    notes += " Its numbers depend on the training text: do not publish them." if guarantee.data_dependent else ""
    return (
        f"{promise(run)}, {guarantee.mechanism} ({guarantee.notion.value}).{notes} "
        f"It covers {guarantee.covers}. Assumed: {'; '.join(guarantee.assumes) or 'nothing further'}."
    )


def _policies(run: RunReport) -> str:
    rates = [
        f"the policy {one.policy} has a {one.what} of {shown(one.value, Scale.SHARE)} "
        f"({interval(one.low, one.high, Scale.SHARE)}, n = {one.trials:,})"
        for one in run.policies
        if one.value is not None and one.what in ("recall", "recall of distinct secrets")
    ]
    return (
        f"Measured on labelled text: {'; '.join(rates)}." if rates else "No policy was measured on labelled text."
    )


def _row(point: str, said: str) -> str:
    return f"| {_text(point)} | {_text(said)} |"
