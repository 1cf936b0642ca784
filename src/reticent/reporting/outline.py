"""The order of a report: the first screen, the charts, the tables, what is missing, how to repeat it."""

from collections import Counter
from collections.abc import Sequence

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
from reticent.reporting.report import GateLine, Report


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
    limits = [line for run in report.runs for line in run.gate]
    failed = [line for line in limits if line.fails]
    above = sum(one.beats_null for run in report.runs for one in run.findings)
    count = sum(len(run.findings) for run in report.runs)
    void = sum(bool(one.void) for run in report.runs for one in run.findings)
    if refuted:
        return f"A guarantee is refuted by {refuted} of {count} findings.{_gate(failed, limits)}"
    if count == 0:
        return f"No attack was run, so nothing here says what leaks.{_gate(failed, limits)}"
    lie = "lies" if above == 1 else "lie"
    said = f"{above} of {count} findings {lie} above chance; {void} {'is' if void == 1 else 'are'} void."
    return f"{said}{_gate(failed, limits)}"


def _gate(failed: Sequence[GateLine], limits: Sequence[GateLine]) -> str:
    """The limits that failed the gate, by outcome; nothing where none did."""
    if not failed:
        return ""
    counts = Counter(line.outcome for line in failed)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f" {len(failed)} of {len(limits)} limits failed ({outcomes})."


def title(report: Report) -> str:
    """What the page is called."""
    names = [run.name for run in report.runs]
    return names[0] if len(names) == 1 else f"{len(names)} runs: {', '.join(names)}"
