"""A section for a model card: YAML metadata that hub pages read, then what was measured and proved, in Markdown.

The metadata is a `model-index`: a metric for the answer to each question, with its interval under `args`, one for ε
and those of usefulness. A guarantee whose numbers depend on the data is private and stands in neither part.
Numbers are written without an exponent: YAML 1.1 reads 1e-05 as text.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal

from reticent.core.finding import Finding
from reticent.core.guarantee import Guarantee, Notion
from reticent.core.metric import shown_interval, shown_value
from reticent.core.printing.safe_text import for_markdown, on_one_line
from reticent.reporting.outline import title
from reticent.reporting.questions import answer_of, asked, speaker
from reticent.reporting.report import Report, RunReport
from reticent.reporting.sections.first_screen import intervals_hold, promise

_DIGITS = 4


def render_model_card(report: Report) -> str:
    """The section of the one run of a report."""
    (run,) = report.runs
    lines = ["---", *_metadata(report, run), "---", "", "## Privacy", "", *_measured(report, run), ""]
    lines += [*_proved(run), "", f"Measured with reticent {report.version}: `{on_one_line(run.origin.command)}`."]
    return "\n".join([*lines, "No finding proves that nothing leaks."]) + "\n"


def _metadata(report: Report, run: RunReport) -> Iterator[str]:
    guarantee = _public(run)
    yield "tags:"
    yield "- privacy-audit"
    if guarantee is not None and guarantee.notion is Notion.DIFFERENTIAL_PRIVACY:
        yield "- differential-privacy"
    metrics = list(_metrics(run))
    if not metrics:
        return
    yield "model-index:"
    yield f"- name: {_words(title(report))}"
    yield "  results:"
    yield "  - task: {type: text-generation}"
    yield f"    dataset: {{type: private, name: {_words(run.corpus or 'the training text')}}}"
    yield "    metrics:"
    for line in metrics:
        yield f"    - {line}"


def _metrics(run: RunReport) -> Iterator[str]:
    for question in asked([run]):
        finding = speaker(run, question)
        if finding is not None and not finding.void:
            facts = {"low": finding.low, "high": finding.high, "n": finding.n}
            facts |= {"without_leakage": finding.null} if finding.null is not None else {}
            ceiling = run.ceiling(finding)
            facts |= {"proved_at_most": ceiling} if ceiling is not None and _public(run) is not None else {}
            yield _metric(finding.metric, question.text, finding.value, facts)
    for useful in run.utility:
        facts = {"low": useful.low, "high": useful.high, "tokens": useful.n}
        yield _metric(useful.name.removeprefix("held-out ").replace(" ", "_"), useful.name, useful.value, facts)
    guarantee = _public(run)
    if guarantee is not None:
        facts = {"delta": guarantee.delta} | ({} if guarantee.order is None else {"order": guarantee.order})
        said = f"proved upper bound on ε for one {guarantee.unit.value} ({guarantee.notion.value})"
        yield _metric("epsilon", said, guarantee.epsilon, facts)


def _metric(kind: str, name: str, value: float, facts: dict[str, float]) -> str:
    args = ", ".join(f"{key}: {_number(fact)}" for key, fact in facts.items())
    return f"{{type: {_words(kind)}, name: {_words(name)}, value: {_number(value)}, args: {{{args}}}}}"


def _public(run: RunReport) -> Guarantee | None:
    """The guarantee, where its numbers may be published."""
    return None if run.guarantee is None or run.guarantee.data_dependent else run.guarantee


def _words(text: str) -> str:
    """A double-quoted scalar: JSON's strings are YAML's, and the text has no control characters left."""
    return json.dumps(on_one_line(text), ensure_ascii=False)


def _number(value: float) -> str:
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return str(value) if isinstance(value, int) else f"{Decimal(f'{value:.{_DIGITS}g}'):f}"


def _measured(report: Report, run: RunReport) -> Iterator[str]:
    found = [(question, speaker(run, question)) for question in asked([run])]
    usable = [(question, finding) for question, finding in found if finding is not None and not finding.void]
    if not usable:
        yield "What this model leaks about its training text was not measured."
        return
    yield "What the model leaks about its training text, as measured by attacks."
    yield ""
    yield "| Question | Answer | Measured | Without leakage, at most | Proved at most |"
    yield "|:--|:--|:--|--:|--:|"
    for question, finding in usable:
        cells = (question.text, answer_of(run, finding).value, _value(finding), *_beside(run, finding))
        yield f"| {' | '.join(for_markdown(cell) for cell in cells)} |"
    yield ""
    yield f"Measured: value, interval and number of targets.{intervals_hold(report)}"


def _value(finding: Finding) -> str:
    interval = shown_interval(finding.metric, finding.low, finding.high)
    return f"{finding.metric} {shown_value(finding.metric, finding.value)} ({interval}), n = {finding.n:,}"


def _beside(run: RunReport, finding: Finding) -> tuple[str, str]:
    ceiling = run.ceiling(finding) if _public(run) is not None else None
    return shown_value(finding.metric, finding.null, side="up"), shown_value(finding.metric, ceiling, side="up")


def _proved(run: RunReport) -> Iterator[str]:
    guarantee = _public(run)
    if run.guarantee is not None and guarantee is None:
        yield "Proved: a guarantee whose numbers depend on the training text and are therefore not published."
    elif guarantee is None:
        yield "Proved: nothing."
    else:
        yield f"Proved: {for_markdown(promise(run))}. It covers {for_markdown(guarantee.covers)}. It holds if"
        yield ""
        yield from (f"- {for_markdown(assumption)}" for assumption in guarantee.assumes)
