"""The same report as Markdown: for repositories, reviews and terminals; a chart is its summary and its data."""

from reticent.core.printing.safe_text import fenced
from reticent.core.printing.safe_text import for_markdown as _text
from reticent.reporting.content import Absent, Block, Card, Chart, Heading, Lines, Table
from reticent.reporting.outline import headline, sections, title
from reticent.reporting.report import Report


def render_markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# reticent: {_text(title(report))}", "", f"**{_text(headline(report))}**", ""]
    for section in sections(report):
        lines += [f"## {_text(section.title)}", "", _text(section.lead), ""]
        for block in section.blocks:
            lines += [*_block(block), ""]
    lines.append(f"Written {report.written} by reticent {report.version}. No finding proves that nothing leaks.")
    return "\n".join(lines) + "\n"


def _block(block: Block) -> list[str]:
    match block:
        case Heading():
            return [f"### {_text(block.text)}"]
        case Card():
            lines = [f"### {_text(block.question)}", ""]
            for one in block.verdicts:
                run = f"**{_text(one.run)}**: " if one.run else ""
                said = " ".join(part for part in (one.detail, one.proved) if part)
                lines.append(f"- {run}**{_text(one.lead)}** ({_text(one.tag)}) {_text(said)}")
            return lines
        case Absent():
            return [f"*{_text(block.what)}{': ' * bool(block.said)}{_text(block.said)}.* {_text(block.why)}."]
        case Lines():
            return (
                fenced(block.items, language="sh")
                if block.is_code
                else [f"- {_text(item)}" for item in block.items]
            )
        case Chart():
            return [f"**{_text(block.title)}.** {_text(block.summary)}", "", *_table(block.table)]
        case Table():
            return _table(block)


def _table(block: Table) -> list[str]:
    rule = ["--:" if block.is_numeric(place) else ":--" for place in range(len(block.columns))]
    rows = [_row([cell.text for cell in row]) for row in block.rows]
    note = ["", _text(block.note)] if block.note else []
    return [f"*{_text(block.caption)}*", "", _row(block.columns), f"| {' | '.join(rule)} |", *rows, *note]


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"
