"""`reticent report`: run directories as one page that opens from disk, and as Markdown."""

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.console import Output
from reticent.cli.options import AsJson
from reticent.core.errors import ConfigError

_PRIVATE = 0o600  # the page tells ids and what leaks: its owner alone decides who else reads it


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Run directories; several stand side by side.", metavar="RUN…")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Page to write; Markdown stands beside it (report.html in the first run).", metavar="FILE"
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            "--corpus", help="Training text: copies, kinds of secrets and covered text by record.", metavar="FILE"
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", help="What finds secrets in --corpus: patterns, dictionary:FILE, …")
    ] = "patterns",
    fingerprints: Annotated[
        bool,
        typer.Option(
            "--fingerprints", help="Show those of corpora, by which guesses at a missing value can be tested."
        ),
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Render run directories as one self-contained page and as Markdown. No text and no secret stands in either."""
    from reticent.core.document import write_atomically
    from reticent.reporting.markdown import render_markdown
    from reticent.reporting.outline import headline
    from reticent.reporting.page import render_page
    from reticent.runs.directory import RunDirectory
    from reticent.runs.report.reading import read_report, record_ids
    from reticent.runs.report.texts import read_facts

    output = Output(as_json=as_json)
    for run in runs:
        RunDirectory.open(run)
    page = runs[0] / "report.html" if out is None else out
    if page.is_dir() or page.suffix != ".html":
        raise ConfigError("--out names a page", found=str(page), expected="a file that ends in .html")
    facts = None if corpus is None else read_facts(corpus, policy, ids=record_ids(runs))
    found = read_report(runs, facts=facts, with_fingerprints=fingerprints)
    markdown = page.with_suffix(".md")
    write_atomically(page, render_page(found).encode("utf8"), mode=_PRIVATE)
    write_atomically(markdown, render_markdown(found).encode("utf8"), mode=_PRIVATE)
    size = page.stat().st_size
    refuted = sum(len(run.refuted) for run in found.runs)
    output.document(
        {
            "schema_version": 1,
            "page": str(page),
            "markdown": str(markdown),
            "bytes": size,
            "runs": [run.name for run in found.runs],
            "findings": sum(len(run.findings) for run in found.runs),
            "refuted": refuted,
            "headline": headline(found),
        }
    )
    output.show(headline(found), f"Written to {page} ({size / 1e6:.1f} MB) and {markdown}.")
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
