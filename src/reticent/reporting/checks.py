"""What a build checks of a run: every limit of its gate, and that no finding refutes its guarantee.

The same decisions as the exit code, as values that JUnit (`junit`) and SARIF (`sarif`) are written from.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from reticent.core.finding import Comparison
from reticent.core.metric import shown_interval, shown_value
from reticent.reporting.report import GateLine, RunReport


class Rule(StrEnum):
    """What was checked; SARIF names its rules by these."""

    REQUIREMENT = "requirement"
    ALARM = "alarm"
    GUARANTEE = "guarantee"
    LEAK = "leak"


@dataclass(frozen=True, slots=True)
class Check:
    """One decision on a run and the sentence that explains it."""

    rule: Rule
    name: str
    fails: bool
    said: str


def checks(run: RunReport) -> tuple[Check, ...]:
    """The limits of the run in their order, then its guarantee, where findings were set beside one."""
    decided = [_limit(run, line) for line in run.gate]
    if run.comparisons:
        refuting = "; ".join(_refuting(one) for one in run.refuted)
        said = f"The guarantee does not hold as stated: {refuting}." if refuting else "No finding refutes it."
        decided.append(Check(Rule.GUARANTEE, "the guarantee is not refuted", bool(refuting), said))
    return tuple(decided)


def _limit(run: RunReport, line: GateLine) -> Check:
    rule = Rule.REQUIREMENT if line.option == "--require" else Rule.ALARM
    said = f"{line.option} {line.limit}: {line.outcome}"
    metric = re.split("[<>]", line.limit)[0]
    ends = [
        f"{one.attack} {shown_interval(one.metric, one.low, one.high)}"
        for one in run.findings
        if one.metric == metric and one.attack in line.by and not one.void
    ]
    behind = "; ".join(ends) or line.reason
    return Check(rule, f"{line.option} {line.limit}", line.fails, f"{said}{f' ({behind})' * bool(behind)}.")


def _refuting(one: Comparison) -> str:
    least = shown_value(one.finding.metric, one.finding.refuting_low, side="down")
    most = shown_value(one.finding.metric, one.ceiling, side="up")
    return f"{one.finding.attack} measured {one.finding.metric} of at least {least} where at most {most} was proved"
