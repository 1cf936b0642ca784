"""Measured against proved: for every metric one axis, with each run's interval, the null and the ceiling on it.

ε from below has a mark for each level of access that it was measured at, all on the axis of the proved ε.
"""

import math
from collections.abc import Sequence
from typing import Final

from reticent.core.finding import Finding
from reticent.core.metric import Question, scale_of
from reticent.core.model import Access
from reticent.core.printing.numbers import Scale, interval, shown
from reticent.reporting.content import Cell, Mark, Strip, Table, cell, table
from reticent.reporting.questions import adversary_with, answer_of, speaker
from reticent.reporting.report import RunReport

_TICKS: Final = 4
_EPSILON: Final = "epsilon"  # the key of the question


def strips(runs: Sequence[RunReport], question: Question) -> tuple[Strip, ...]:
    """An axis for each metric that answers the question, with a mark for every run that measured it."""
    spoken = [(run, finding) for run in runs if (finding := speaker(run, question)) and not finding.void]
    metrics = dict.fromkeys(finding.metric for _, finding in spoken)
    return tuple(_strip(metric, [one for one in spoken if one[1].metric == metric], runs) for metric in metrics)


def bounds_by_access(runs: Sequence[RunReport], question: Question) -> Table | None:
    """ε from below for every level of access, beside the proved ε; None where the question is another one.

    Each level includes those below it, and so does what it was shown to find.
    """
    rows: list[list[Cell]] = []
    for run in runs:
        spoken = speaker(run, question)
        if (
            question.key != _EPSILON
            or spoken is None
            or spoken.void
            or scale_of(spoken.metric) is not Scale.EPSILON
        ):
            continue  # μ has no ceiling to stand beside
        found, best = _by_access(run, spoken.metric), None
        for access in Access:
            best = max(filter(None, (best, found.get(access))), key=lambda one: one.low, default=None)
            rows.append([cell(run.name), cell(adversary_with(access)), *_bound(run, best)])
    columns = ("run", "attacker sees", "ε at least", "proved ε at most", "attack")
    note = "“No bound” means that no attack with this access measured one, not that ε is 0 there."
    return table("Lower bounds on ε, by what the attacker sees", columns, rows, note=note) if rows else None


def _bound(run: RunReport, finding: Finding | None) -> list[Cell]:
    if finding is None:
        return [cell("no bound"), cell("–"), cell("–")]
    comparison = run.comparison(finding)
    ceiling = None if comparison is None else comparison.ceiling
    proved = cell("–") if ceiling is None else Cell(shown(ceiling, Scale.EPSILON, side="up"), ceiling)
    return [Cell(shown(finding.low, Scale.EPSILON, side="down"), finding.low), proved, cell(finding.attack)]


def _by_access(run: RunReport, metric: str) -> dict[Access, Finding]:
    """The finding with the highest low end for each level of access that measured the metric."""
    mine = sorted((one for one in run.findings if one.metric == metric and not one.void), key=lambda one: one.low)
    return {one.access: one for one in mine}


def _strip(metric: str, spoken: Sequence[tuple[RunReport, Finding]], runs: Sequence[RunReport]) -> Strip:
    scale = scale_of(metric)
    marks = tuple(mark for run, finding in spoken for mark in _marks(run, finding, is_only=len(runs) == 1))
    values = [value for mark in marks for value in (mark.null, mark.low, mark.value, mark.high, mark.ceiling)]
    start, end = _ends(scale, values)
    ticks = tuple((at, shown(at, scale)) for at in round_places(start, end))
    words = spoken[0][1].measure
    return Strip(metric, words, marks, start, end, ticks)


def _marks(run: RunReport, finding: Finding, *, is_only: bool) -> list[Mark]:
    """One for the finding; of ε one for each level of access that measured it, so that the reader sees the gap."""
    name = "" if is_only else run.name
    levels = _by_access(run, finding.metric) if scale_of(finding.metric) is Scale.EPSILON else {}
    if len(levels) < 2:
        return [_mark(run, finding, name)]
    prefix = f"{name}, " if name else ""
    return [_mark(run, levels[access], prefix + adversary_with(access)) for access in sorted(levels)]


def _mark(run: RunReport, finding: Finding, label: str) -> Mark:
    scale, comparison = scale_of(finding.metric), run.comparison(finding)
    ceiling = None if comparison is None else comparison.ceiling
    words = (
        f"{shown(finding.value, scale)}, interval "
        f"{interval(finding.low, finding.high, scale)}, n = {finding.n:,}, {finding.attack}"
    )
    words += "" if finding.null is None else f"; without leakage at most {shown(finding.null, scale)} is expected"
    words += "; no proved bound" if ceiling is None else f"; proved: at most {shown(ceiling, scale, side='up')}"
    words += ", which allows everything" if comparison is not None and comparison.is_vacuous else ""
    return Mark(
        label=label,
        value=finding.value,
        low=finding.low,
        high=finding.high,
        null=finding.null,
        ceiling=ceiling,
        words=words,
        tone=answer_of(run, finding).name.lower(),
    )


def _ends(scale: Scale, values: Sequence[float | None]) -> tuple[float, float]:
    """The axis: shares and chances from 0 to 1, everything else as far as it was measured or proved."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if scale in (Scale.SHARE, Scale.CHANCE) and all(0.0 <= value <= 1.0 for value in known):
        return 0.0, 1.0
    start, end = min([0.0, *known]), max([0.0, *known])
    return start, end if end > start else start + 1.0


def round_places(start: float, end: float) -> list[float]:
    """A few round numbers between the ends."""
    rough = (end - start) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough * 0.999)
    first = math.ceil(start / step - 1e-9)
    return [round(place * step, 12) for place in range(first, math.floor(end / step + 1e-9) + 1)]
