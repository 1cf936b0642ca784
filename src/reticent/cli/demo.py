"""`reticent demo`: everything in one command, offline."""

import os
import sys
import webbrowser
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.runs.demo.settings import DemoSettings

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from reticent.core.statistics.proportion import Share
    from reticent.runs.demo.scale import Scale
    from reticent.runs.demo.story import Story
    from reticent.runs.demo.telling import Watch

_NAMES = {
    "dp-sgd": "DP-SGD",
    "crt": "CRT",
    "submix-f-1": "SubMix",
    "submix-f-8": "SubMix",
}


@verb(DemoSettings)
def demo(settings: DemoSettings, output: Output) -> int:
    """Plant secrets in generated dialogues, train four models, attack each, and compare with what was proved.

    Exit code 1 if a finding refutes a guarantee.
    """
    settings.check_paths()
    from reticent.runs.demo.telling import TOTAL, tell

    output.show(_opening(settings.sizes), "")
    with output.progress() as bars:
        story = tell(settings, watch=_watch(bars, TOTAL))
    output.document(story)
    output.show(*_lines(story))
    if settings.out is None and sys.stdout.isatty() and _has_display():
        webbrowser.open(story.page.resolve().as_uri())
    return int(any(told.is_refuted for told in story.models))


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def _opening(scale: "Scale") -> str:
    return (
        f"{scale.canaries} customers of a shop each give a secret number {scale.copies} times, among the messages "
        f"of {scale.customers:,} others. A public model is trained on this text in four ways, and each result is "
        "attacked."
    )


def _whole(lost: "Share") -> str:
    """What the guarantee of redacted training speaks of."""
    return (
        "CRT uses the built-in policies patterns and conservative, which know no list of secrets. Its ε holds for "
        "a secret that one of them finds whole, as they do every planted number. Of the "
        f"{lost.trials:,} labelled values in the text, {lost.hits:,} are not found whole. No ε is proved for them, "
        "so that in the report the ε for any secret is unbounded."
    )


def _watch(bars: "Bars", total: int) -> "Watch":
    """One bar for the whole demo, and which models are done."""
    bar = bars.add_task("demo", total=total, status="")
    return lambda done, status: bars.update(bar, completed=done, status=status)


def _lines(story: "Story") -> list[object]:
    """The table, and how to read it."""
    from reticent.core.printing.numbers import at_most
    from reticent.reporting.comparing import comparison_sentences
    from reticent.runs.demo.story import table_rows

    columns = ["", *(_NAMES.get(told.name, told.name) for told in story.models)]
    rows = [(label, *cells) for label, cells in table_rows(story)]
    refuted = [_NAMES.get(told.name, told.name) for told in story.models if told.is_refuted]
    lines: list[object] = [
        table("What each model leaks, and what was proved", columns, rows),
        "",
        "Gap closed: from the public to the undefended model, in log-perplexity. Both SubMix columns are "
        "SubMix-F, at two budgets. Canary hit rate: answers that give a planted number when prompted for one. "
        "Messages emitted: messages at least 50 % likely to appear in a million samples. PII inferred: personal "
        "data picked correctly from a list of candidates. Update membership: telling added messages from others "
        "by comparing the models before and after.",
        "The lower bound on ε is measured with gradient canaries, which observe every step of DP-SGD.",
        "▲: the whole confidence interval lies above what is expected without leakage. –: not measured; SubMix-F, "
        "for one, releases text but no probabilities. CRT protects secrets, not membership: text without secrets "
        "is trained on plainly, and its guarantee (*) is confidentiality of a secret against its mask, not "
        "differential privacy. The report has the interval, n and assumptions behind every number. Last row: the "
        "number of findings below a ceiling that they could have refuted; a vacuous ceiling, which allows "
        "everything, never counts.",
        *(_whole(told.lost) for told in story.models if told.lost is not None),
    ]
    lines += [
        f"{_NAMES.get(told.name, told.name)}, ε = {at_most(told.guarantee.epsilon, 3)}: "
        f"{comparison_sentences(told.compared)}"
        for told in story.models
        if told.guarantee is not None
    ]
    if refuted:
        lines.append(f"REFUTED: more leaked from {', '.join(refuted)} than was proved possible.")
    lines.append(f"Report: {story.page}. The corpora, models, ledgers and canary key are beside it.")
    return lines
