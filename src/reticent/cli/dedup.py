"""`reticent dedup`: a corpus without texts that repeat, exactly or nearly, an earlier one."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.printing.numbers import counted
from reticent.runs.corpus import dedup as deduplication
from reticent.runs.corpus.dedup import DedupSettings


@verb(DedupSettings)
def dedup(settings: DedupSettings, output: Output) -> None:
    """Remove duplicates from a corpus: keep the first of equal texts; with --near, of similar ones too.

    Scrub first: texts that differ only in masked secrets are then equal.
    """
    done = deduplication.dedup(settings, track=output.track)
    output.document(done)
    output.show(
        f"{done.corpus}: {done.kept:,} of {counted(done.records, 'record')} kept; "
        f"{done.repeated:,} repeated an earlier text."
    )
    if done.near is not None:
        output.show(
            f"Also removed as similar to an earlier text (estimated similarity {done.near:g} or more): "
            f"{done.nearly_repeated:,}.",
            "Which of them is kept depends on the others, so no confidentiality guarantee survives --near.",
        )
