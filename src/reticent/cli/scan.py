"""`reticent scan`: what a corpus holds before anything is trained on it."""

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.cli.console import Output, table
from reticent.cli.flags import verb
from reticent.core.printing.numbers import counted
from reticent.runs.corpus import scan as scanning
from reticent.runs.corpus.scan import ScanSettings

if TYPE_CHECKING:
    from reticent.data.measurement import PolicyMeasurement, Rate
    from reticent.data.scanning import Scan


@verb(ScanSettings)
def scan(settings: ScanSettings, output: Output) -> None:
    """Count sensitive spans and duplicates in a corpus; with --labels, measure a policy's recall and precision."""
    seen = scanning.scan(settings, track=output.track)
    output.document(seen)
    output.show(*_lines(settings.file, seen))


def _lines(file: Path, seen: "Scan") -> list[object]:
    """The scan for a person."""
    lines: list[object] = [
        f"{file.name}: {counted(seen.records, 'record')}{_owners(seen)}, {counted(seen.characters, 'character')}.",
        _repeats(seen),
        f"The policy '{seen.policy}' finds something in {counted(seen.sensitive_records, 'record')}.",
    ]
    if seen.kinds:
        rows = [
            (kind, f"{c.mentions:,}", f"{c.distinct:,}", f"{c.most_repeated:,}", f"{c.records:,}")
            for kind, c in seen.kinds.items()
        ]
        lines += ["", table("Sensitive spans", ["kind", "mentions", "distinct", "most repeated", "records"], rows)]
    if seen.measurement is not None:
        lines += ["", *_measured(seen.measurement)]
        if seen.compared:
            lines += ["", *_compared([seen.measurement, *seen.compared])]
    else:
        lines += ["", "What the policy misses is not counted here; measure it on labelled text with --labels."]
    return lines


def _owners(seen: "Scan") -> str:
    """Whose the records are; one without an owner, or named by its id, is its own and is not called anybody's."""
    if not seen.names_owners:
        return " (each its own owner)"
    most = "one each" if seen.largest_owner == 1 else f"at most {seen.largest_owner:,} each"
    return f" of {counted(seen.owners, 'owner')} ({most})"


def _repeats(seen: "Scan") -> str:
    if not seen.duplicates:
        return "No text occurs twice."
    repeating = "1 record repeats" if seen.duplicates == 1 else f"{seen.duplicates:,} records repeat"
    return f"{repeating} an earlier text; the most frequent text occurs {seen.most_duplicated:,} times."


def _measured(measured: "PolicyMeasurement") -> list[object]:
    rows = [
        ("recall", *_cells(measured.recall)),
        ("recall of distinct secrets", *_cells(measured.distinct_recall)),
        *((f"recall of {name} identifiers", *_cells(rate)) for name, rate in measured.recall_by_identifier.items()),
        *((f"recall of {kind}", *_cells(rate)) for kind, rate in measured.recall_by_kind.items()),
        ("precision", *_cells(measured.precision)),
        *((f"precision of {kind}", *_cells(rate)) for kind, rate in measured.precision_by_kind.items()),
        ("precision by characters", _percent(measured.character_precision), "", ""),
        ("characters found", _percent(measured.found_share), "", ""),
    ]
    title = f"Policy '{measured.policy}' against the labels of {counted(measured.records, 'record')}"
    interval = f"{measured.recall.confidence:.0%} interval"
    return [table(title, ["", "value", interval, "n"], rows), f"Intervals: {measured.recall.share.note}."]


def _compared(measured: "list[PolicyMeasurement]") -> list[object]:
    """Policies side by side: recall by identifier and type, then precision."""
    identifiers = sorted({name for m in measured for name in m.recall_by_identifier})
    kinds = sorted({kind for m in measured for kind in m.recall_by_kind})
    rows = [
        ("recall", *(_short(m.recall) for m in measured)),
        *(
            (f"recall of {n} identifiers", *(_short(m.recall_by_identifier.get(n)) for m in measured))
            for n in identifiers
        ),
        *((f"recall of {kind}", *(_short(m.recall_by_kind.get(kind)) for m in measured)) for kind in kinds),
        ("precision", *(_short(m.precision) for m in measured)),
        ("precision by characters", *(_percent(m.character_precision) for m in measured)),
        ("characters found", *(_percent(m.found_share) for m in measured)),
    ]
    title = f"Policies compared, with {measured[0].recall.confidence:.0%} intervals"
    return [table(title, ["", *(m.policy for m in measured)], rows)]


def _short(rate: "Rate | None") -> str:
    """A rate with its interval in one cell."""
    if rate is None or rate.value is None:
        return "–"
    low, high = rate.interval
    return f"{rate.value:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _cells(rate: "Rate") -> tuple[str, str, str]:
    """Value, interval and n; a rate without trials has no value."""
    low, high = rate.interval
    value = "–" if rate.value is None else f"{rate.value:.1%}"
    return value, f"{low:.1%} to {high:.1%}", f"{rate.trials:,}"
