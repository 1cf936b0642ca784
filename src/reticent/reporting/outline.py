"""The order of a report: the first screen, the charts, the tables, what is missing, how to repeat it."""

from reticent.reporting.content import Section
from reticent.reporting.first_screen import guarantees, limits, side_by_side, verdicts
from reticent.reporting.measured_sections import CHARTS
from reticent.reporting.record_sections import (
    findings_section,
    policies_section,
    records_section,
    reproduce_section,
    untested_section,
    update_section,
)
from reticent.reporting.report import Report


def sections(report: Report) -> tuple[Section, ...]:
    """Every section, in the order in which it is read."""
    beside = side_by_side(report)
    return (
        *(() if beside is None else (beside,)),
        verdicts(report),
        limits(report),
        guarantees(report),
        *(draw(report) for draw in CHARTS),
        records_section(report),
        policies_section(report),
        update_section(report),
        findings_section(report),
        untested_section(report),
        reproduce_section(report),
    )


def headline(report: Report) -> str:
    """One sentence for the head of the page."""
    refuted = sum(len(run.refuted) for run in report.runs)
    passed = sum(line.is_passed for run in report.runs for line in run.gate)
    above = sum(one.beats_null for run in report.runs for one in run.findings)
    count = sum(len(run.findings) for run in report.runs)
    void = sum(bool(one.void) for run in report.runs for one in run.findings)
    if refuted:
        return f"A guarantee is refuted by {refuted} of {count} findings."
    if count == 0:
        return "No attack was run: this report holds what was proved and spent, and nothing that was measured."
    gate = f" {passed} of the limits {'is' if passed == 1 else 'are'} passed." if passed else ""
    return f"{above} of {count} findings lie above chance; {void} {'is' if void == 1 else 'are'} void.{gate}"


def title(report: Report) -> str:
    """What the page is called."""
    names = [run.name for run in report.runs]
    return names[0] if len(names) == 1 else f"{len(names)} runs: {', '.join(names)}"
