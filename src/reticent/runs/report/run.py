"""`reticent report` as a call: run directories in, one self-contained page and its Markdown out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.document import write_atomically
from reticent.core.errors import ConfigError
from reticent.reporting.checks import checks
from reticent.runs.directory import PAGE, RunDirectory
from reticent.runs.policies.by_name import DEFAULT_POLICY, POLICY_HELP
from reticent.runs.settings.declaration import option
from reticent.runs.settings.gate import GateOptions
from reticent.runs.settings.shared import CorpusOptions, PatternOptions, Shown

if TYPE_CHECKING:
    from reticent.reporting.report import Report

SCHEMA_VERSION: Final = 1
_PRIVATE: Final = 0o600  # the page tells ids and what leaks: its owner alone decides who else reads it


class ReportSettings(PatternOptions, CorpusOptions, GateOptions, Shown):
    """Everything that `reticent report` can be asked for."""

    runs: tuple[Path, ...] = option("Run directories to compare side by side.", positional=True, metavar="RUN…")
    out: Path | None = option(
        "HTML page to write. Markdown is written beside it.",
        default=None,
        metavar="FILE",
        shown="report.html in the first run",
    )
    training_text: Path | None = option(
        "Training corpus, to show copies, kinds of secrets and masked text by record.",
        flag="--corpus",
        default=None,
        metavar="FILE",
    )
    policy: str = option(
        f"Policy that finds secrets in --corpus: {POLICY_HELP}", default=DEFAULT_POLICY, metavar="NAME"
    )
    fingerprints: bool = option(
        "Show corpus fingerprints. Anyone who has them can test guesses at a missing value.", default=False
    )
    model_card: Path | None = option(
        "Also write a section for the model card of one run: Markdown with YAML metadata that hub pages read.",
        default=None,
        metavar="FILE",
    )
    annex: Path | None = option(
        "Also write an annex for a data-protection file: which findings bear on EDPB Opinion 28/2024 and OWASP "
        "AISVS C11.",
        default=None,
        metavar="FILE",
    )
    open_page: bool = option("Open the page in the browser.", default=False, flag="--open")

    def check(self) -> None:
        """Refuse a report about nothing."""
        if not self.runs:
            raise ConfigError("a report is about at least one run", expected="run directories", hint="name one")


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The page, its Markdown, and what stands in them."""

    page: Path
    markdown: Path
    report: "Report" = field(repr=False)
    is_gate: bool = False

    @property
    def fails(self) -> bool:
        """Whether the report is a gate, and a limit of a run fails or a guarantee is refuted."""
        return self.is_gate and any(one.fails for run in self.report.runs for one in checks(run))

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        from reticent.reporting.outline import headline

        return headline(self.report)

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        runs = self.report.runs
        return {
            "schema_version": SCHEMA_VERSION,
            "page": str(self.page),
            "markdown": str(self.markdown),
            "bytes": self.page.stat().st_size,
            "runs": [run.name for run in runs],
            "findings": sum(len(run.findings) for run in runs),
            "refuted": sum(len(run.refuted) for run in runs),
            "headline": self.headline,
        }


def report(settings: ReportSettings) -> WrittenReport:
    """Write the page, the Markdown and what else was asked for. No text and no secret stands in any of them."""
    from reticent.reporting.formats.annex import render_annex
    from reticent.reporting.formats.markdown import render_markdown
    from reticent.reporting.formats.model_card import render_model_card
    from reticent.reporting.formats.page import render_page
    from reticent.runs.report.reading import read_report, record_ids
    from reticent.runs.report.texts import read_facts

    runs, limits = list(settings.runs), settings.limits()
    for run in runs:
        RunDirectory.open(run)
    page = runs[0] / PAGE if settings.out is None else settings.out
    if page.is_dir() or page.suffix != ".html":
        raise ConfigError("--out names a page", found=str(page), expected="a file that ends in .html")
    text = None if settings.training_text is None else settings.corpus(settings.training_text)
    named = settings.policy_with_patterns(settings.policy)
    facts = None if text is None else read_facts(text, named, ids=record_ids(runs))
    found = read_report(runs, facts=facts, with_fingerprints=settings.fingerprints, limits=limits)
    if settings.model_card is not None and len(found.runs) != 1:
        raise ConfigError("--model-card describes one run", found=", ".join(run.name for run in found.runs))
    for path, render in {
        page: render_page,
        page.with_suffix(".md"): render_markdown,
        settings.model_card: render_model_card,
        settings.annex: render_annex,
    }.items():
        if path is not None:
            write_atomically(path, render(found).encode("utf8"), mode=_PRIVATE)
    settings.write_gate(found)
    return WrittenReport(page, page.with_suffix(".md"), found, is_gate=settings.is_gate)
