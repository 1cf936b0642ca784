"""The gate of an audit: `--fail-if "tpr_at_fpr_0.01>0.05"` makes the exit code 1 when a limit is passed.

    limit = metric comparison number          comparison: >  >=  <  <=

A limit is passed only when the **whole interval** passes it: `>` and `>=` look at the low end ("measured at
least"), `<` and `<=` at the high end. A point value may pass a limit by chance; the low end does so at the stated
rate. Of several attacks that measure one metric any may pass it.

A value that passes without its interval is called undecided, so that nobody takes few targets for little leakage.
The gate fails closed: a metric that nobody knows, that no planned attack measures, or that was measured but is void
is an error and never a passed gate.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reticent.core.document import number_to_json
from reticent.core.errors import ConfigError
from reticent.core.finding import Finding

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_LIMIT: Final = re.compile(r"\s*([a-z][a-z0-9_.+-]*)\s*(>=|<=|>|<)\s*(\S+)\s*")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_RATE: Final = re.compile(r"tpr_at_fpr_(\d+(?:\.\d+)?(?:e-?\d+)?)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A metric, a comparison and a number."""

    metric: str
    comparison: str
    number: float

    @property
    def end(self) -> str:
        """Which end of the interval is compared: the one that the rest of the interval lies behind."""
        return "low" if self.comparison.startswith(">") else "high"

    def is_passed_by(self, finding: Finding) -> bool:
        """Whether the whole interval of the finding passes the limit; a void finding passes none."""
        return self._holds(finding, finding.low if self.end == "low" else finding.high)

    def is_undecided_by(self, finding: Finding) -> bool:
        """Whether the value passes the limit and the interval does not: too few targets to tell."""
        return self._holds(finding, finding.value) and not self.is_passed_by(finding)

    def _holds(self, finding: Finding, measured: float) -> bool:
        if finding.void or finding.metric != self.metric:
            return False
        return _COMPARISONS[self.comparison](measured, self.number)

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.number:g}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """A limit with the findings that passed it, and those whose value alone did."""

    limit: Limit
    passed_by: tuple[Finding, ...]
    undecided: tuple[Finding, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether the limit was passed, which fails the gate."""
        return bool(self.passed_by)

    def to_json(self) -> dict[str, Any]:
        """For findings.json."""
        return {
            "limit": str(self.limit),
            "end": self.limit.end,
            "passed": self.is_passed,
            "by": [
                {"attack": finding.attack, self.limit.end: number_to_json(getattr(finding, self.limit.end))}
                for finding in self.passed_by
            ],
            "undecided": [finding.attack for finding in self.undecided],
        }


def parse_limit(expression: str) -> Limit:
    """The limit that an expression states; anything but metric, comparison, number is an error."""
    found = _LIMIT.fullmatch(expression)
    if found is None:
        raise ConfigError(
            "a limit is a metric, a comparison and a number",
            found=repr(expression),
            expected="such as tpr_at_fpr_0.01>0.05, with >, >=, < or <=",
        )
    metric, comparison, number = found.groups()
    if _NUMBER.fullmatch(number) is None or not math.isfinite(float(number)):
        raise ConfigError(f"the limit of {metric} is no finite number", found=repr(number))
    return Limit(metric, comparison, float(number))


def asked_rates(limits: Iterable[Limit]) -> tuple[float, ...]:
    """False-positive rates that limits name, so that an audit measures at them."""
    named = [found[1] for limit in limits if (found := _RATE.fullmatch(limit.metric))]
    # A rate written in another way (0.010) would name a metric that nobody measures.
    return tuple(rate for text in named if 0.0 < (rate := float(text)) < 1.0 and f"{rate:g}" == text)


def check_known(limits: Iterable[Limit], known: Sequence[str]) -> None:
    """Refuse limits on metrics that the planned attacks do not measure, before any work is done."""
    for limit in limits:
        if limit.metric not in known:
            raise ConfigError(
                f"--fail-if names a metric that this audit does not measure: {limit.metric}",
                expected=f"one of {', '.join(sorted(known))}" if known else "an attack that can run",
                hint="check the name, and in the plan why attacks are skipped",
            )


def check_gate(limits: Sequence[Limit], findings: Sequence[Finding]) -> tuple[GateResult, ...]:
    """Each limit against the findings; a limit that could not be tested is an error."""
    check_known(limits, sorted({finding.metric for finding in findings}))
    results = []
    for limit in limits:
        there = [finding for finding in findings if finding.metric == limit.metric]
        if all(finding.void for finding in there):
            raise ConfigError(
                f"--fail-if {limit}: every measurement of this metric is void, so the gate cannot be tested",
                found=there[0].void,
            )
        passed = tuple(finding for finding in there if limit.is_passed_by(finding))
        undecided = tuple(finding for finding in there if limit.is_undecided_by(finding))
        results.append(GateResult(limit, passed, undecided))
    return tuple(results)
