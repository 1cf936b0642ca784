"""`reticent report` as a call: run directories in, one self-contained page and its Markdown out."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.document import write_atomically
from reticent.core.errors import ConfigError
from reticent.runs.directory import RunDirectory
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import PatternOptions, Shown

if TYPE_CHECKING:
    from reticent.reporting.report import Report

SCHEMA_VERSION: Final = 1
_PRIVATE: Final = 0o600  # the page tells ids and what leaks: its owner alone decides who else reads it


class ReportSettings(PatternOptions, Shown):
    """Everything that `reticent report` can be asked for."""

    runs: tuple[Path, ...] = option("Run directories to set side by side.", positional=True, metavar="RUN…")
    out: Path | None = option(
        "HTML page to write. Markdown is written beside it.",
        default=None,
        metavar="FILE",
        shown="report.html in the first run",
    )
    corpus: Path | None = option(
        "Training corpus, to show copies, kinds of secrets and masked text by record.", default=None, metavar="FILE"
    )
    policy: str = option(
        "Policy that finds secrets in --corpus: patterns, dictionary:FILE, …", default="patterns", metavar="NAME"
    )
    fingerprints: bool = option(
        "Show corpus fingerprints. Whoever has them can test guesses at a missing value.", default=False
    )
    open_page: bool = option("Open the page in the browser.", default=False, flag="--open")


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The page, its Markdown, and what stands in them."""

    page: Path
    markdown: Path
    report: "Report"

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
    """Write the page and the Markdown of run directories. No text and no secret stands in either."""
    from reticent.reporting.markdown import render_markdown
    from reticent.reporting.page import render_page
    from reticent.runs.report.reading import read_report, record_ids
    from reticent.runs.report.texts import read_facts

    runs = list(settings.runs)
    for run in runs:
        RunDirectory.open(run)
    page = runs[0] / "report.html" if settings.out is None else settings.out
    if page.is_dir() or page.suffix != ".html":
        raise ConfigError("--out names a page", found=str(page), expected="a file that ends in .html")
    corpus = settings.corpus
    named = settings.policy_with_patterns(settings.policy)
    facts = None if corpus is None else read_facts(corpus, named, ids=record_ids(runs))
    found = read_report(runs, facts=facts, with_fingerprints=settings.fingerprints)
    markdown = page.with_suffix(".md")
    write_atomically(page, render_page(found).encode("utf8"), mode=_PRIVATE)
    write_atomically(markdown, render_markdown(found).encode("utf8"), mode=_PRIVATE)
    return WrittenReport(page, markdown, found)
