"""One self-contained HTML page: no network, opens from disk, light and dark, prints, reads well without a mouse.

Charts are inline SVG (`drawing`), so no library stands in the page; a policy in its head forbids every request, so
that the page can neither fetch nor send anything. Whatever comes from a run is escaped.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from reticent.core.printing.safe_text import for_terminal
from reticent.reporting.content import Absent, Block, Card, Chart, Heading, Lines, Section, Strip, Table
from reticent.reporting.formats.svg import draw
from reticent.reporting.outline import sections, title, verdict_lines, verdict_tone
from reticent.reporting.report import Report
from reticent.reporting.sections.glossary import anchor_of

_TEMPLATES: Final = Path(__file__).parent / "templates"
_KINDS: Final[dict[type[Any], str]] = {
    Chart: "chart",
    Table: "table",
    Absent: "absent",
    Lines: "lines",
    Card: "card",
    Heading: "heading",
}
# How the words of a page, in any number, name a term; the longer before the shorter.
_SPELLED: Final = {
    "false-positive rate": r"false-positive rates?|false positives?",
    "proved at most": r"ceilings?",
    "perplexity": r"perplexit(?:y|ies)",
    "exposure": r"exposures?",
    "interval": r"intervals?|[Cc]onfidence",
    "canary": r"[Cc]anar(?:y|ies)|planted (?:secret|code|number)s?",
    "member": r"members?",
    "bits": r"bits?",
    "AUC": r"AUC",
    "ε (epsilon)": "ε",
    "δ (delta)": "δ",
}
# A flag is code, with the method that it names, and never broken across lines; a word of the glossary is a link,
# once in a paragraph.
_FLAG: Final = re.compile(r"(?<![\w-])(?P<flag>--method [a-z-]*[a-z]|--[a-z][a-z-]*[a-z])")
_TERMS: Final = "|".join(f"(?P<t{place}>{spelled})" for place, spelled in enumerate(_SPELLED.values()))
_MARKED: Final = re.compile(rf"{_FLAG.pattern}|(?<![\w-])(?:{_TERMS})(?![\w-])")


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


def flagged(text: str) -> Markup:
    """The text with its flags as code."""
    return _marked(text, _FLAG)


def linked(text: str) -> Markup:
    """The text with its flags as code, and the first use of each word of the glossary as a link to it."""
    return _marked(text, _MARKED)


def _marked(text: str, pattern: re.Pattern[str]) -> Markup:
    pieces, last, seen = [], 0, set[str]()
    text = for_terminal(str(text))
    for found in pattern.finditer(text):
        kind, word = found.lastgroup or "", escape(found.group())
        if kind in seen:
            continue
        pieces.append(escape(text[last : found.start()]))
        if kind == "flag":
            pieces.append(Markup("<code>{}</code>").format(word))
        else:
            seen.add(kind)
            anchor = anchor_of(list(_SPELLED)[int(kind[1:])])
            pieces.append(Markup('<a class="term" href="#{}">{}</a>').format(anchor, word))
        last = found.end()
    return Markup("").join([*pieces, escape(text[last:])])
