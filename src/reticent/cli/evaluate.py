"""`reticent evaluate`: what private answers are worth: perplexity of held-out text under every mechanism.

With --compare-settings it compares orders and weight limits of SubMix-F instead, on an ensemble of public text.
"""

import math
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.core.guarantee import Notion
from reticent.runs.ensemble.settings import EvaluateSettings

if TYPE_CHECKING:
    from reticent.prediction.planner import Plan
    from reticent.runs.ensemble.comparison import Line
    from reticent.runs.ensemble.samples import Sample

_NOTIONS = {
    Notion.DIFFERENTIAL_PRIVACY: "DP",
    Notion.OPERATIONAL_PRIVACY: "operational",
    Notion.CONFIDENTIALITY: "confidentiality",
    Notion.BAYESIAN_CONFIDENTIALITY: "Bayesian",
}
_EXPLAINED = {
    Notion.DIFFERENTIAL_PRIVACY: "DP: differential privacy of one unit, whatever the text.",
    Notion.OPERATIONAL_PRIVACY: "operational: privacy of the actual text and split, not differential privacy.",
}


@verb(EvaluateSettings)
def evaluate(settings: EvaluateSettings, output: Output) -> None:
    """Compare prediction mechanisms at equal (ε, δ) on held-out text, for the operator alone.

    Nothing is charged, so no guarantee covers the numbers: do not publish them.
    """
    from reticent.runs.ensemble.manifest import Manifest

    settings.corpus(settings.data)
    Manifest.read(settings.run)  # what is no ensemble is said before torch is loaded
    from reticent.runs.ensemble.evaluate import evaluate_ensemble

    with output.progress() as bars:
        task = bars.add_task("evaluating", total=settings.repeats, status="")
        found = evaluate_ensemble(settings, observe=lambda done: bars.update(task, completed=done))
    output.document(found)
    budget = f"query budget {settings.queries:,}, δ = {settings.delta:g}"
    title = f"{found.parts} parts, {budget}, by {settings.unit.value}"
    if found.trained_on:
        output.show(
            f"The ensemble was trained on {found.trained_on:,} of these texts: the private models look better "
            "on them than on held-out text."
        )
    if settings.compare_settings:
        _show_settings(found.plans, output, title=title)
    else:
        _show(found.lines, output, title=title)
    _show_samples(found.samples, output)
    if found.judged_held_out is not None:
        output.show(
            f"The judge gives the held-out text itself a perplexity of {found.judged_held_out:,.2f}. Answers that "
            "repeat themselves have a low one too."
        )
    if found.calibration is not None and found.uncalibrated is not None:
        output.show(
            f"The public model is calibrated (temperature {found.calibration.temperature:.2f}); uncalibrated, its "
            f"perplexity on this text is {found.uncalibrated:,.2f}. The gap starts at the calibrated model."
        )


def _show(lines: "list[Line]", output: Output, *, title: str) -> None:
    rows = []
    has_outside = any(line.outside is not None for line in lines)
    for line in lines:
        spread = line.spread
        outside = "–" if line.outside is None else f"{line.outside.value:,.2f}"
        rows.append(
            (
                line.mechanism.value,
                "–" if line.epsilon is None else f"{line.epsilon:.4g}",
                f"{spread.value:,.2f}",
                "–" if spread.high == math.inf else f"{_short(spread.low)}–{_short(spread.high)}",
                *([outside] if has_outside else []),
                "–" if line.realised is None else f"{line.realised:.0%}",
                "nothing"
                if line.guarantee is None
                else f"{_NOTIONS[line.guarantee.notion]}, {line.guarantee.unit.value}",
            )
        )
    before = ("mechanism", "ε", "perplexity", "95% interval", *(["outside secrets"] if has_outside else []))
    columns = (*before, "gap closed", "proves")
    output.show(table(title, columns, rows))
    over = "texts" if lines[0].spread.seeds == 1 else "repeats"
    intervals = f"Intervals over {over}."
    if any(line.spread.high == math.inf for line in lines):
        intervals = "No interval: the query budget reaches too few texts; --queries N reads more."
    notions = {line.guarantee.notion for line in lines if line.guarantee is not None}
    output.show(
        f"{intervals} Gap: from the public model to the non-private ensemble, in log-perplexity.",
        *(_EXPLAINED[notion] for notion in _EXPLAINED if notion in notions),
    )


def _short(value: float) -> str:
    """About four digits: an interval tells no more."""
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.4g}"


def _show_samples(samples: "tuple[Sample, ...]", output: Output) -> None:
    """Answers under their prompt, the public model's first."""
    for prompt in dict.fromkeys(sample.prompt for sample in samples):
        output.show("", f"Prompt: {prompt or '(empty)'}")
        for sample in samples:
            if sample.prompt == prompt:
                at = "" if sample.epsilon is None else f", ε = {sample.epsilon:.4g}"
                answers = (f"  {answer.strip()}".replace("\n", "\n  ") for answer in sample.answers)
                output.show(f"{sample.mechanism.value}{at}{_rating(sample)}:", *answers)


def _rating(sample: "Sample") -> str:
    """What the judge and the pattern say of the answers, in brackets."""
    said = []
    if sample.as_asked is not None:
        said.append(f"{sample.as_asked} of {len(sample.answers)} as expected")
    if sample.judged is not None:
        said.append(f"judged perplexity {sample.judged:,.2f}")
    return f" ({', '.join(said)})" if said else ""


def _show_settings(plans: "list[tuple[float, Plan]]", output: Output, *, title: str) -> None:
    rows = [
        (
            f"{epsilon:g}",
            f"{each.order:g}",
            f"{each.weight_limit:g}",
            f"{each.perplexity:,.2f}",
            "–" if each.realised is None else f"{each.realised:.0%}",
        )
        for epsilon, each in plans
    ]
    output.show(table(title, ("ε", "--order", "--weight-limit", "perplexity", "gap closed"), rows))
    first = plans[0][1]
    output.show(
        f"Perplexity of the public model alone: {first.public:,.2f}; of the non-private ensemble: "
        f"{first.non_private:,.2f}.",
        "The best row looks slightly better than it is: it was chosen on this text.",
        "Use it for another ensemble only if this one and this text are public: no guarantee covers a choice made "
        "on private text.",
    )
