"""What a corpus holds before anything is trained on it: sensitive spans, duplicates, owners."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from reticent.core.errors import ConfigError, DataError
from reticent.core.ranges import PROCESSES
from reticent.runs.directory import RunDirectory
from reticent.runs.policies.by_name import DEFAULT_POLICY, POLICY_HELP, policy_named
from reticent.runs.progress import Track, untracked
from reticent.runs.settings.declaration import Settings, option
from reticent.runs.settings.shared import CorpusOptions, EngineOptions, PatternOptions, Shown

if TYPE_CHECKING:
    from reticent.data.scanning import Scan


class FindingSpans(Settings):
    """How a policy looks for spans."""

    processes: int = option("Number of processes that search for spans.", default=1, within=PROCESSES, metavar="N")
    cache: Path | None = option(
        "File that stores span offsets, so that a later or resumed run need not search again.",
        default=None,
        metavar="FILE",
    )


class ScanSettings(FindingSpans, PatternOptions, CorpusOptions, EngineOptions, Shown):
    """Everything that `reticent scan` can be asked for."""

    file: Path = option(
        "Corpus: JSONL, CSV, Parquet, text, a folder, a saved dataset.", positional=True, metavar="FILE"
    )
    policy: str = option(
        f"Policy that finds sensitive spans: {POLICY_HELP}", default=DEFAULT_POLICY, metavar="NAME"
    )
    labels: bool = option("Measure the policy against the labelled spans of the records.", default=False)
    compare: tuple[str, ...] = option(
        "With --labels: another policy to measure. Repeatable.", default=(), metavar="NAME"
    )
    out: Path | None = option("Run directory to write scan.json to.", default=None, metavar="DIR")

    def check(self) -> None:
        """Refuse a comparison that has nothing to compare with."""
        if self.compare and not self.labels:
            hint = "policies are compared by what they find of the labels"
            raise ConfigError("--compare needs --labels", hint=hint)


def scan(settings: ScanSettings, *, track: Track = untracked) -> "Scan":
    """Count sensitive spans and duplicates; with labels, measure recall and precision of the policies."""
    from reticent.core.document import write_document
    from reticent.data.policies.span_cache import SpanCache
    from reticent.data.scanning import scan as scan_records
    from reticent.engine.policy import policies_in

    named = settings.policy_with_patterns(settings.policy)
    policies = [policy_named(name) for name in (named, *settings.compare)]
    corpus, cache = settings.corpus(settings.file), settings.cache
    if settings.labels and "spans" not in corpus.present():
        raise DataError("--labels needs a field 'spans' in every record", path=settings.file)
    with ExitStack() as stack:
        asked = settings.engine_settings
        working = stack.enter_context(policies_in(asked, policies, processes=settings.processes))
        if cache is not None:
            working = [stack.enter_context(closing(SpanCache(each, cache))) for each in working]
        chosen, *rivals = working
        seen = scan_records(track(corpus, "scanning"), chosen, labels=settings.labels, rivals=rivals)
    if settings.out is not None:
        run = RunDirectory.for_new_run(settings.out)
        config = settings.model_dump(mode="json", exclude={"out", "cache", "processes"})
        run.start("scan", config=config, seed=None, corpora={"scanned": corpus.fingerprint()})
        write_document(settings.out / "scan.json", seen.to_json())
        run.finish(sensitive_records=seen.sensitive_records)
    return seen
