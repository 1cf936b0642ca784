"""`reticent scan`: what a corpus holds before anything is trained on it."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli.console import Output, table
from reticent.cli.options import (
    AsJson,
    CorpusFormat,
    EngineChoice,
    IdField,
    OwnerField,
    RayAddress,
    SkipEmpty,
    TextField,
    Workers,
    engine_of,
)
from reticent.core.ranges import PROCESSES
from reticent.runs.corpora import corpus_at
from reticent.runs.policies import POLICY_HELP

if TYPE_CHECKING:
    from reticent.core.corpus import Policy
    from reticent.data.measurement import Measurement, Rate
    from reticent.data.scanning import Scan


def scan(
    file: Annotated[Path, typer.Argument(help="Corpus: JSONL, CSV, Parquet, text, a folder, a saved dataset.")],
    policy: Annotated[str, typer.Option("--policy", help=POLICY_HELP)] = "patterns",
    labels: Annotated[
        bool, typer.Option("--labels", help="Measure the policy against the records' own spans.")
    ] = False,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare", help="With --labels: another policy to measure; may be repeated.", metavar="NAME"
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", help="Processes that look for spans.", min=1, max=int(PROCESSES.high))
    ] = 1,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="File that keeps offsets of findings for the next scan.", metavar="FILE"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run directory to write scan.json to.", metavar="DIR")
    ] = None,
    text_field: TextField = "text",
    id_field: IdField = "id",
    owner_field: OwnerField = "owner",
    format: CorpusFormat = None,
    skip_empty: SkipEmpty = False,
    engine: EngineChoice = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Count sensitive spans and duplicates in a corpus; with labels, the policy's recall and precision."""
    from reticent.core.document import write_document
    from reticent.core.errors import ConfigError, DataError
    from reticent.data.scanning import scan as scan_records
    from reticent.engine.policy import policies_in
    from reticent.runs.directory import RunDirectory
    from reticent.runs.policies import policy_named

    output = Output(as_json=as_json)
    if compare and not labels:
        raise ConfigError("--compare needs --labels", hint="policies are compared by what they find of the labels")
    policies = [policy_named(name) for name in (policy, *(compare or ()))]
    corpus = corpus_at(file, text=text_field, id=id_field, owner=owner_field, format=format, skip_empty=skip_empty)
    if labels and "spans" not in corpus.present():
        raise DataError("--labels needs a field 'spans' in every record", path=file)
    with ExitStack() as stack:
        asked = engine_of(engine, workers, ray_address)
        working = stack.enter_context(policies_in(asked, policies, processes=processes))
        chosen, *rivals = (each if cache is None else _kept(each, cache, stack) for each in working)
        seen = scan_records(output.track(corpus, "scanning"), chosen, labels=labels, rivals=rivals)
    if out is not None:
        run = RunDirectory.create(out)
        run.start(
            "scan",
            config={"file": str(file), "policy": policy},
            seed=None,
            corpora={"scanned": corpus.fingerprint()},
        )
        write_document(out / "scan.json", seen.to_json())
        run.finish(sensitive_records=seen.sensitive_records)
    output.document(seen.to_json())
    output.show(*_lines(file, seen))


def _kept(policy: "Policy", file: Path, stack: ExitStack) -> "Policy":
    """The policy with its findings kept in `file`."""
    from reticent.data.policies.span_cache import SpanCache

    kept = SpanCache(policy, file)
    stack.callback(kept.close)
    return kept


def _lines(file: Path, seen: "Scan") -> list[object]:
    """The scan for a person."""
    owners = f"{seen.owners:,} owners (largest: {seen.largest_owner:,})"
    repeats = f"the most frequent text stands {seen.most_duplicated:,} times"
    lines: list[object] = [
        f"{file.name}: {seen.records:,} records of {owners}, {seen.characters:,} characters.",
        f"{seen.duplicates:,} records repeat an earlier text; {repeats}.",
        f"The policy '{seen.policy}' finds something in {seen.sensitive_records:,} records.",
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


def _measured(measured: "Measurement") -> list[object]:
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
    title = f"Policy '{measured.policy}' against the labels of {measured.records:,} records"
    interval = f"{measured.recall.confidence:.0%} interval"
    return [table(title, ["", "value", interval, "n"], rows), f"Intervals: {measured.recall.share.note}."]


def _compared(measured: "list[Measurement]") -> list[object]:
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
