"""`reticent demo`: the story in one command, offline."""

import os
import sys
import webbrowser
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.runs.demo.settings import DemoSettings

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

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
    """The whole story on generated dialogues: plant secrets, train in four ways, attack, compare with the proofs.

    Exit code 1 if a finding refutes a guarantee.
    """
    settings.look_around()
    from reticent.runs.demo.telling import TOTAL, tell

    output.show(_opening(settings.sizes), "")
    with output.progress() as bars:
        story = tell(settings, watch=_watch(bars, TOTAL))
    output.document(story.to_json())
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
        f"{scale.canaries} customers of a shop tell a secret number, {scale.copies} times each, among messages of "
        f"{scale.customers:,} others. A public model learns them in four ways, and each result is attacked."
    )


def _watch(bars: "Bars", total: int) -> "Watch":
    """One bar for the whole story, and which models were told."""
    bar = bars.add_task("demo", total=total, status="")
    return lambda done, status: bars.update(bar, completed=done, status=status)


def _lines(story: "Story") -> list[object]:
    """The table, and what to make of it."""
    from reticent.reporting.comparing import comparison_sentences
    from reticent.runs.demo.story import table_rows
    from reticent.runs.rounding import at_most

    columns = ["", *(_NAMES.get(told.name, told.name) for told in story.models)]
    rows = [(label, *cells) for label, cells in table_rows(story)]
    refuted = [_NAMES.get(told.name, told.name) for told in story.models if told.is_refuted]
    lines: list[object] = [
        table("What each model gives away, and what was proved", columns, rows),
        "",
        "The gap is that of log-perplexity between the public and the undefended model. SubMix is SubMix-F, which "
        "answers at two budgets. Said: a planted number, when the model is asked. "
        "Sampled: a message, among a million samples. Picked: personal data, from a list of candidates. Told: that "
        "a message was added, by the models before and after.",
        "ε is measured from below by gradient canaries, which see every step of DP-SGD.",
        "▲ the whole interval lies above what is seen where nothing leaks. – out of reach: SubMix-F shows text and "
        "no probabilities. CRT hides secrets, not that a message was used: what holds no secret is learnt plainly, "
        "and its promise (*) is confidentiality of a secret against its mask, not differential privacy. Intervals, "
        "n and assumptions of every number stand in the report. Last line of the table: how many findings lie "
        "below a ceiling that they could have refuted; a vacuous ceiling, allowing everything, never counts.",
    ]
    lines += [
        f"{_NAMES.get(told.name, told.name)}, ε = {at_most(told.guarantee.epsilon, 3)}: "
        f"{comparison_sentences(told.compared)}"
        for told in story.models
        if told.guarantee is not None
    ]
    if refuted:
        lines.append(f"REFUTED: more leaks from {', '.join(refuted)} than was proved possible.")
    lines.append(f"Report: {story.page}. Corpora, models, ledgers and the key of the numbers lie beside it.")
    return lines
