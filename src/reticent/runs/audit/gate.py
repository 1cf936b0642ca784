"""The gate of an audit: limits on metrics that decide its exit code.

    limit = metric comparison number          comparison: < <= of a requirement, > >= of an alarm

    --require "auc<=0.6"    the release gate: exit code 1 unless the **whole interval** lies within, so its high end
                            decides. Too few targets fail it.
    --fail-if "auc>0.6"     the alarm: exit code 1 if the whole interval lies beyond, so that chance alone seldom
                            raises it. Too few targets never do: it cannot tell that a model is within a limit.

More of any metric means more leakage (`core.metric`), so a limit is always an upper one. `--require "auc>0.6"`
would pass exactly where the model leaks, and `auc<=60` always: both are refused.

Both have one of four outcomes: *within* and *exceeded* say where the whole interval lies, *undecided* that the
limit lies inside it, *not measured* that no usable number exists. Of several attacks that measure one metric the
worst speaks. A void measurement decides nothing and is told.

The gate fails closed. A metric that no planned attack measures is an error before the work; a required metric
that was not measured fails; an alarm that could not be tested is an error.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from reticent.core.choice import meant
from reticent.core.document import number_to_json
from reticent.core.errors import ConfigError
from reticent.core.finding import Finding
from reticent.core.metric import AUC, TPR_AT_FPR, read_metric, shown_interval

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_TURNED: Final = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}  # the same limit, said by the other option
_LIMIT: Final = re.compile(r"\s*([a-z][a-z0-9_.+-]*)\s*(>=|<=|>|<)\s*(\S+)\s*")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


class LimitKind(StrEnum):
    """What a limit is for, named as its option."""

    REQUIRE = "--require"
    FAIL_IF = "--fail-if"

    @property
    def comparisons(self) -> tuple[str, str]:
        """The comparisons that make an upper limit of it."""
        return ("<=", "<") if self is LimitKind.REQUIRE else (">", ">=")


class Outcome(StrEnum):
    """Where the interval of a metric lies."""

    WITHIN = "within"
    UNDECIDED = "undecided"
    EXCEEDED = "exceeded"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Limit:
    """A metric, a comparison and a number: what must hold (`--require`) or must not (`--fail-if`)."""

    metric: str
    comparison: str
    number: float
    kind: LimitKind = LimitKind.FAIL_IF

    @property
    def end(self) -> str:
        """The end of the interval that decides: the last one to satisfy the comparison."""
        return "low" if self.comparison.startswith(">") else "high"

    def outcome(self, finding: Finding) -> Outcome:
        """Where the whole interval of a finding of this metric lies; a void one decides nothing."""
        if finding.void or finding.metric != self.metric:
            return Outcome.NOT_MEASURED
        ends = {_COMPARISONS[self.comparison](end, self.number) for end in (finding.low, finding.high)}
        if len(ends) == 2:
            return Outcome.UNDECIDED
        return Outcome.WITHIN if ends == {self.kind is LimitKind.REQUIRE} else Outcome.EXCEEDED

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.number:g}"


@dataclass(frozen=True, slots=True)
class GateResult:
    """A limit and all findings of its metric; `missing` says why there is none, where it is known."""

    limit: Limit
    findings: tuple[Finding, ...]
    missing: str = ""

    def by(self, outcome: Outcome) -> tuple[Finding, ...]:
        """The findings with that outcome."""
        return tuple(finding for finding in self.findings if self.limit.outcome(finding) is outcome)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of a usable finding: exceeded, undecided, within."""
        worst_first = (Outcome.EXCEEDED, Outcome.UNDECIDED, Outcome.WITHIN)
        return next((each for each in worst_first if self.by(each)), Outcome.NOT_MEASURED)

    @property
    def fails(self) -> bool:
        """Whether the exit code is 1: a requirement that is not within, an alarm that is exceeded."""
        if self.limit.kind is LimitKind.REQUIRE:
            return self.outcome is not Outcome.WITHIN
        return self.outcome is Outcome.EXCEEDED

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that gave the outcome."""
        return () if self.outcome is Outcome.NOT_MEASURED else self.by(self.outcome)

    @property
    def reason(self) -> str:
        """Why nothing usable was measured; empty where something was."""
        if self.outcome is not Outcome.NOT_MEASURED:
            return ""
        void = next((finding.void for finding in self.findings), "")
        return f"every measurement is void: {void}" if void else self.missing or "no attack measured it"

    def to_json(self) -> dict[str, Any]:
        """For findings.json."""
        return {
            "option": self.limit.kind.value,
            "limit": str(self.limit),
            "end": self.limit.end,
            "outcome": self.outcome.value,
            "fails": self.fails,
            "by": [
                {"attack": one.attack, "low": number_to_json(one.low), "high": number_to_json(one.high)}
                for one in self.deciding
            ],
            "void": [finding.attack for finding in self.by(Outcome.NOT_MEASURED)],
            "reason": self.reason,
        }

    def sentence(self) -> str:
        """The outcome for the terminal, with the intervals behind it and what it means for the exit code."""
        word = self.outcome.value if self.outcome is Outcome.WITHIN else self.outcome.value.upper()
        said = f"{self.limit.kind.value} {self.limit}: {word}"
        if self.outcome is Outcome.NOT_MEASURED:
            return f"{said}: {self.reason}. A metric that was not measured does not meet a requirement."
        ends = "; ".join(f"{one.attack} {shown_interval(one.metric, one.low, one.high)}" for one in self.deciding)
        void = len(self.by(Outcome.NOT_MEASURED))
        left_out = f" {void} void {'measurement was' if void == 1 else 'measurements were'} left out." * bool(void)
        return f"{said} ({ends}).{_MEANING.get((self.limit.kind, self.outcome), '')}{left_out}"


_MEANING: Final = {
    (LimitKind.REQUIRE, Outcome.UNDECIDED): (
        " The limit lies inside the interval; a requirement needs the whole interval within. More targets narrow "
        "it."
    ),
    (LimitKind.FAIL_IF, Outcome.UNDECIDED): (
        " The limit lies inside the interval: too few targets to decide, so the exit code stays 0; "
        "--require fails here."
    ),
}


def parse_limit(expression: str, kind: LimitKind = LimitKind.FAIL_IF) -> Limit:
    """The upper limit that an expression states.

    A requirement that only a leaking model meets, an alarm that spares one, and a limit that can never fail are
    errors.
    """
    limit = read_limit(expression, kind)
    _require_upper(limit)
    measured = read_metric(limit.metric)
    greatest = None if measured is None else measured.metric.greatest
    if greatest is not None and limit.number > greatest:
        raise ConfigError(
            f"{kind.value} {limit} can never fail: {limit.metric} is at most {greatest:g}",
            hint=f'60 % is 0.6, as in "{limit.metric}{limit.comparison}0.6"' if greatest == 1.0 else None,
        )
    return limit


def _require_upper(limit: Limit) -> None:
    """Refuse a requirement that only a leaking model meets, and an alarm that only a tight one raises."""
    if limit.comparison in limit.kind.comparisons:
        return
    turned = f"{limit.metric}{_TURNED[limit.comparison]}{limit.number:g}"
    other = next(kind for kind in LimitKind if kind is not limit.kind)
    wrong = "would be met by" if limit.kind is LimitKind.REQUIRE else "would spare"
    raise ConfigError(
        f"{limit.kind.value} {limit} {wrong} a model that leaks: the higher {limit.metric}, the more leaks",
        expected=f"{limit.kind.value} with {' or '.join(limit.kind.comparisons)}",
        hint=f'{limit.kind.value} "{turned}", or {other.value} "{limit}"',
    )


def read_limit(expression: str, kind: LimitKind = LimitKind.FAIL_IF) -> Limit:
    """What an expression says, upper limit or not; anything but metric, comparison, number is an error."""
    found = _LIMIT.fullmatch(expression)
    if found is None:
        example = f"{AUC.name}<=0.6" if kind is LimitKind.REQUIRE else f"{TPR_AT_FPR.at(0.01)}>0.05"
        raise ConfigError(
            f"{kind.value} takes a metric, a comparison and a number",
            found=repr(expression),
            expected=f"such as {example}",
        )
    metric, comparison, number = found.groups()
    if _NUMBER.fullmatch(number) is None or not math.isfinite(float(number)):
        hint = "60 % is 0.6" if number.endswith("%") else None
        raise ConfigError(f"the limit of {metric} is not a finite number", found=repr(number), hint=hint)
    return Limit(metric, comparison, float(number), kind)


def asked_rates(limits: Iterable[Limit]) -> tuple[float, ...]:
    """False-positive rates that limits name, so that an audit measures at them."""
    rates = []
    for limit in limits:
        named = read_metric(limit.metric)
        if named is not None and named.metric is TPR_AT_FPR:
            (rate,) = named.numbers
            # A rate written in another way (0.010) would name a metric that nobody measures.
            rates += [rate] if 0.0 < rate < 1.0 and TPR_AT_FPR.at(rate) == limit.metric else []
    return tuple(rates)


def check_known(limits: Iterable[Limit], known: Sequence[str]) -> None:
    """Refuse limits on metrics that the planned attacks do not measure, before any work is done."""
    for limit in limits:
        if limit.metric not in known:
            near = meant(limit.metric, known) if read_metric(limit.metric) is None else None
            raise ConfigError(
                f"{limit.kind.value} names a metric that this audit does not measure: {limit.metric}",
                expected=f"one of {', '.join(sorted(known))}" if known else "an attack that can run",
                hint=near or "see in the plan why attacks are skipped",
            )


def check_gate(
    limits: Sequence[Limit], findings: Sequence[Finding], *, missing: str = ""
) -> tuple[GateResult, ...]:
    """Each limit against the findings; an alarm that could not be tested is an error.

    `missing` says why attacks did not run, for a required metric that has no finding.
    """
    check_known(
        [limit for limit in limits if limit.kind is LimitKind.FAIL_IF],
        sorted({finding.metric for finding in findings}),
    )
    results = []
    for limit in limits:
        result = GateResult(limit, tuple(one for one in findings if one.metric == limit.metric), missing)
        if limit.kind is LimitKind.FAIL_IF and result.outcome is Outcome.NOT_MEASURED:
            raise ConfigError(
                f"--fail-if {limit}: every measurement of this metric is void, so the gate cannot be tested",
                found=result.findings[0].void,
            )
        results.append(result)
    return tuple(results)
