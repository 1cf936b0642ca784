"""The options of a gate, shared by `audit` and `report`: limits that decide the exit code, and files for builds."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from reticent.core.document import write_atomically
from reticent.runs.settings.declaration import Settings, option

if TYPE_CHECKING:
    from reticent.reporting.report import Report
    from reticent.runs.audit.gate import Limit

_GATE: Final = "Gate"


class GateOptions(Settings):
    """Limits, and where their outcomes are written for build servers and code hosts."""

    require: tuple[str, ...] = option(
        'Release gate: exit with 1 unless the whole interval satisfies "METRIC<=NUMBER" (or <). Repeatable.',
        default=(),
        metavar="LIMIT",
        panel=_GATE,
    )
    fail_if: tuple[str, ...] = option(
        'Alarm: exit with 1 if the whole interval satisfies "METRIC>NUMBER" (or >=). Repeatable.',
        default=(),
        metavar="LIMIT",
        panel=_GATE,
    )
    junit: Path | None = option(
        "Also write the outcome of every limit as JUnit XML, for build servers.",
        default=None,
        metavar="FILE",
        panel=_GATE,
        in_file=False,
    )
    sarif: Path | None = option(
        "Also write limits and leaks as SARIF 2.1.0, for code hosts.",
        default=None,
        metavar="FILE",
        panel=_GATE,
        in_file=False,
    )

    @property
    def is_gate(self) -> bool:
        """Whether limits were set, or their outcome was asked for."""
        return bool(self.require or self.fail_if or self.junit or self.sarif)

    def limits(self) -> "list[Limit]":
        """The limits of the gate, requirements first."""
        from reticent.runs.audit.gate import LimitKind, parse_limit

        by_kind = ((LimitKind.REQUIRE, self.require), (LimitKind.FAIL_IF, self.fail_if))
        return [parse_limit(expression, kind) for kind, expressions in by_kind for expression in expressions]

    def write_gate(self, report: "Report") -> None:
        """Write the files that were asked for."""
        from reticent.reporting.formats.junit import render_junit
        from reticent.reporting.formats.sarif import render_sarif

        for path, render in ((self.junit, render_junit), (self.sarif, render_sarif)):
            if path is not None:
                write_atomically(path, render(report).encode("utf8"))
