"""`reticent scrub`: a corpus with sensitive spans replaced, and a count of what was replaced."""

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.core.printing.numbers import counted
from reticent.runs.corpus import scrub as scrubbing
from reticent.runs.corpus.scrub import ScrubSettings

if TYPE_CHECKING:
    from reticent.data.redaction.linkage import Linkage
    from reticent.data.redaction.scrubbing import ScrubTally


_COUNTED = (
    "Replacements differ from the mentions that `reticent scan` counts: spans with only blanks between them become "
    "one mask, a value that was found is replaced wherever else its record has it, and fields other than the "
    "text count too."
)
_NEW_KEY = (
    "{key}: a new key was made, since there was none. Keep it for the other files, so that the same value gets the "
    "same pseudonym there, and keep it secret: who has it can test a guess of a value."
)


@verb(ScrubSettings)
def scrub(settings: ScrubSettings, output: Output) -> None:
    """Replace sensitive spans of a corpus. Values are counted by type, never shown."""
    done = scrubbing.scrub(settings, track=output.track)
    output.document(done)
    output.show(*_lines(done.tally, done.corpus, policy=done.policy))
    if done.new_key is not None:
        output.show(_NEW_KEY.format(key=done.new_key))
    if done.linkage is not None:
        output.show(_linked(done.linkage))


def _linked(linkage: "Linkage") -> str:
    """How many records still say whose they are."""
    low, high = linkage.linked.interval
    value = linkage.linked.value or 0.0
    verdict = "" if linkage.beats_null else " That is not distinguishable from chance."
    return (
        f"{value:.1%} of {linkage.linked.trials:,} scrubbed records (95 % CI {low:.1%} to {high:.1%}) were linked "
        f"to their owner among {linkage.owners:,} owners by what is left of their text; chance links "
        f"{linkage.null:.1%} (p = {linkage.p_value:.3g}).{verdict}"
    )


def _lines(tally: "ScrubTally", out: Path, *, policy: str) -> list[object]:
    """What was replaced, for a person."""
    share = tally.hidden / tally.characters if tally.characters else 0.0
    lines: list[object] = [
        f"{out}: {counted(tally.records, 'record')}, {tally.changed:,} changed by the policy '{policy}'.",
        f"Replaced {tally.hidden:,} of {counted(tally.characters, 'character')} ({share:.1%}).",
    ]
    if tally.by_kind:
        rows = [(kind, f"{count:,}") for kind, count in sorted(tally.by_kind.items())]
        lines += ["", table("Replaced", ["type", "replacements"], rows), "", _COUNTED]
    return [
        *lines,
        "",
        "Whatever the policy missed is still in the text; measure it with `reticent scan --labels`.",
    ]
