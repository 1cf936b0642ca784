"""One self-contained HTML page: no network, opens from disk, light and dark, prints, reads well without a mouse.

Charts are inline SVG (`drawing`), so no library stands in the page; a policy in its head forbids every request, so
that the page can neither fetch nor send anything. Whatever comes from a run is escaped.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from reticent.core.printing.safe_text import for_terminal
from reticent.reporting.content import Absent, Block, Card, Chart, Heading, Lines, Section, Strip, Table
from reticent.reporting.formats.links import flagged, linked
from reticent.reporting.formats.svg import draw
from reticent.reporting.outline import sections, title, verdict_lines, verdict_tone
from reticent.reporting.report import Report

_TEMPLATES: Final = Path(__file__).parent / "templates"
_KINDS: Final[dict[type[Any], str]] = {
    Chart: "chart",
    Table: "table",
    Absent: "absent",
    Lines: "lines",
    Card: "card",
    Heading: "heading",
}


def render_page(report: Report) -> str:
    """The page as one string."""
    return render_sections(
        title(report),
        sections(report),
        verdict=verdict_lines(report),
        tone=verdict_tone(report),
        footer=f"Written {report.written} by reticent {report.version}.",
        kind="one" if len(report.runs) == 1 else "several",
    )


def render_sections(
    heading: str,
    shown: Sequence[Section],
    *,
    verdict: Sequence[str],
    tone: str,
    footer: str,
    kind: str = "one",
    refresh: int | None = None,
) -> str:
    """Sections below a verdict, in the design of the report.

    With `refresh` the page loads itself again after so many seconds. It then has no script, and follows the
    system's light or dark colours.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["flagged"] = flagged
    environment.filters["linked"] = linked if any(one.key == "glossary" for one in shown) else flagged
    return environment.get_template("page.html").render(
        title=heading,
        verdict=verdict,
        verdict_tone=tone,
        sections=shown,
        footer=footer,
        page_kind=kind,
        kind=kind_of,
        place=place_on,
        draw_figure=draw,
        refresh=refresh,
        style=_trusted("page.css"),
        script="" if refresh else _trusted("page.js"),
    )


def kind_of(block: Block) -> str:
    """Which macro of the template draws a block."""
    return _KINDS[type(block)]


def place_on(strip: Strip, value: float) -> float:
    """Where a value stands on the axis, in per cent, kept on it."""
    share = (value - strip.start) / (strip.end - strip.start)
    return round(100.0 * min(1.0, max(0.0, share)), 2)


def _shown(value: Any) -> Any:
    """Text from a run without characters that hide or reorder it; the template escapes markup."""
    return for_terminal(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _trusted(name: str) -> Markup:
    """A file of ours, as it is."""
    return Markup((_TEMPLATES / name).read_text(encoding="utf8"))  # noqa: S704
