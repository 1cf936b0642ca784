"""`reticent report`: run directories as one page that opens from disk, and as Markdown."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.runs.report import run as reporting
from reticent.runs.report.run import ReportSettings


@verb(ReportSettings)
def report(settings: ReportSettings, output: Output) -> None:
    """Render run directories as one self-contained page and as Markdown. Neither has corpus text or secrets."""
    written = reporting.report(settings)
    output.document(written.to_json())
    size = written.page.stat().st_size / 1e6
    output.show(written.headline, f"Written to {written.page} ({size:.1f} MB) and {written.markdown}.")
    if settings.open_page:
        import webbrowser

        webbrowser.open(written.page.resolve().as_uri())
