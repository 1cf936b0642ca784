"""`reticent report`: run directories as one page that opens from disk, and as Markdown."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.reporting.checks import checks
from reticent.runs.report import run as reporting
from reticent.runs.report.run import ReportSettings


@verb(ReportSettings)
def report(settings: ReportSettings, output: Output) -> int:
    """Render run directories as one self-contained page and as Markdown. Neither contains corpus text or secrets.

    With --require, --fail-if, --junit or --sarif it is a gate over audits that were made earlier: exit code 1 if a
    limit fails in a run that was audited, or if a finding refutes a guarantee. Without limits
    of its own it uses those that were given to the audits.
    """
    written = reporting.report(settings)
    output.document(written)
    size = written.page.stat().st_size / 1e3
    also = [settings.model_card, settings.annex, settings.junit, settings.sarif]
    decided = [f"{run.name}: {one.said}" for run in written.report.runs for one in checks(run) if written.is_gate]
    output.show(written.headline, *decided, f"Written to {written.page} ({size:,.0f} kB) and {written.markdown}.")
    output.show(*(f"Written to {path}." for path in also if path is not None))
    if settings.open_page:
        import webbrowser

        webbrowser.open(written.page.resolve().as_uri())
    return int(written.fails)
