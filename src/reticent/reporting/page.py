"""One self-contained HTML page: no network, opens from disk, light and dark, prints, reads well without a mouse.

The charting library stands in the page once, with its data beside it as JSON; a policy in the page's head forbids
every request, so that the page can neither fetch nor send anything. Whatever comes from a run is escaped.
"""

import json
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from reticent.core.extras import optional_imports
from reticent.core.safe_text import for_json, for_terminal
from reticent.reporting.content import Absent, Block, Card, Chart, Heading, Lines, Section, Strip, Table
from reticent.reporting.first_screen import promise
from reticent.reporting.outline import headline, sections, title
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
    with optional_imports("the HTML report"):
        from plotly.offline import get_plotlyjs

    parts = sections(report)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        title=title(report),
        headline=headline(report),
        report=report,
        sections=parts,
        promise=promise,
        kind=kind_of,
        place=place_on,
        figures=_script_json(_figures(parts)),
        style=_trusted("page.css"),
        script=_trusted("page.js"),
        library=Markup(get_plotlyjs()),  # noqa: S704
    )


def kind_of(block: Block) -> str:
    """Which macro of the template draws a block."""
    return _KINDS[type(block)]


def place_on(strip: Strip, value: float) -> float:
    """Where a value stands on the axis, in per cent, kept on it."""
    share = (value - strip.start) / (strip.end - strip.start)
    return round(100.0 * min(1.0, max(0.0, share)), 2)


def _figures(parts: tuple[Section, ...]) -> dict[str, Any]:
    charts = [block for section in parts for block in section.blocks if isinstance(block, Chart)]
    return {chart.key: chart.figure | {"height": chart.height} for chart in charts}


def _shown(value: Any) -> Any:
    """Text from a run without characters that hide or reorder it; the template escapes markup."""
    return for_terminal(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, hence is markup as it stands."""
    text = for_json(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for mark, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(mark, escape)
    return Markup(text)  # noqa: S704


def _trusted(name: str) -> Markup:
    """A file of ours, as it is."""
    return Markup((_TEMPLATES / name).read_text(encoding="utf8"))  # noqa: S704
