"""The charts of a report, a section each: risk map, ROC, exposure, extraction, bits leaked, budget.

A run without such data is left out; what was not measured is one list at the end of the page.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

from reticent.core.guarantee import Unit
from reticent.core.metric import AUC, EXPOSURE
from reticent.core.printing.numbers import MISSING, Scale, interval, one_in, rounded_count, shown
from reticent.reporting.actions import outstanding
from reticent.reporting.content import Block, Cell, Chart, Heading, Section, Table, cell, table
from reticent.reporting.report import Report, RunReport, Series, named
from reticent.reporting.sections.figures import (
    budget_figure,
    exposure_figure,
    extraction_figure,
    leakage_figure,
    risk_figure,
    roc_figure,
)

_TABLE_ROWS: Final = 60  # of the data under a chart; the run directory has them all


def for_every_run(
    report: Report,
    key: str,
    draw: Callable[[RunReport, str], Block | None],
) -> tuple[Block, ...]:
    """What `draw` makes of each run that has such data, under the run's name where there are several."""
    blocks: list[Block] = []
    for place, run in enumerate(report.runs):
        drawn = draw(run, f"{key}-{place}")
        if drawn is not None:
            blocks += [Heading(run.name), drawn] if len(report.runs) > 1 else [drawn]
    return tuple(blocks)


def risk_section(report: Report) -> Section:
    """Which records a lazy attacker would get, and which of those the model has memorised."""
    lead = (
        "Every point is a record. Further right: more likely to be emitted by the model. Further up: better known "
        "to this model than to its base model, summed over the text. Rings mark the texts most at risk."
    )
    return Section("risk", "Risk map", lead, for_every_run(report, "risk", _risk_chart))


def _risk_chart(run: RunReport, key: str) -> Chart | None:
    if run.risk_map is None:
        return None
    training = run.risk_map.group("training")
    if training is None or not training.points:
        return None
    samples, stands_out = run.risk_map.samples, outstanding(run.risk_map)
    seen = sum(point.log_chance >= math.log(0.5) for point in training.points)
    beyond = "Without held-out records, there is nothing to stand out from."
    if stands_out is not None:
        beyond = (
            f"Standing out from held-out records: {sum(stands_out(point) for point in training.points):,}; one in "
            "twenty does so by chance."
        )
    summary = (
        f"Scatter plot of {len(training.points):,} training records. {seen:,} of them are at least 50 % likely to "
        f"appear in {rounded_count(samples)} samples. {beyond}"
    )
    worst = training.worst(_TABLE_ROWS)
    rows = [
        (
            cell(point.id),
            cell(copies),
            cell(point.tokens),
            Cell(one_in(point.log_chance), point.log_chance),
            Cell(f"{shown(point.calibrated)} nats", point.calibrated),
        )
        for point, copies in worst
    ]
    columns = ("record", "copies", "tokens", f"chance in {rounded_count(samples)} samples", "loss minus base loss")
    title = f"The {len(rows):,} texts most at risk, of {len(training.points):,} records"
    data = table(title, columns, rows)
    return Chart(
        key,
        f"Risk map, {named(run.risk_map.model)} against {named(run.risk_map.reference)}",
        summary,
        risk_figure(run.risk_map),
        data,
    )


def roc_section(report: Report) -> Section:
    """Membership inference: ROC curves."""
    lead = (
        "True-positive rate against false-positive rate, on logarithmic axes: what matters is the left side, where "
        "few non-members are wrongly called members. Each curve is from one sample; the intervals are under All "
        "findings."
    )
    return Section("roc", "Membership", lead, for_every_run(report, "roc", _roc_chart))


def _roc_chart(run: RunReport, key: str) -> Chart | None:
    if not run.roc:
        return None
    # The curves are over records; an attack may also have an area over owners.
    areas = {one.attack: one for one in run.findings if one.metric == AUC.name and one.unit is Unit.RECORD}
    rows = []
    for curve in run.roc:
        area = areas.get(curve.name)
        at = [_rate_at(curve, rate) for rate in (0.01, 0.1)]
        rows.append(
            (
                cell(curve.name),
                Cell(MISSING) if area is None else Cell(shown(area.value), area.value),
                cell(MISSING if area is None else interval(area.low, area.high)),
                *(Cell(shown(value, Scale.SHARE), value) for value in at),
                Cell(MISSING) if curve.n is None else cell(curve.n),
            )
        )
    columns = ("attack", "AUC", "interval", "TPR at 1 % FPR", "TPR at 10 % FPR", "n")
    best = max(run.roc, key=lambda curve: _rate_at(curve, 0.1))
    n = "" if best.n is None else f" (n = {best.n:,})"
    summary = (
        f"Attacks with a curve: {len(run.roc)}. At 10 % false positives the best, {best.name}, finds "
        f"{shown(_rate_at(best, 0.1), Scale.SHARE)} of the members in this sample{n}."
    )
    return Chart(key, "ROC curves", summary, roc_figure(run.roc), table("Attacks", columns, rows))


def _rate_at(curve: Series, rate: float) -> float:
    """The greatest y whose x is at most `rate`."""
    return max((y for x, y in zip(curve.x, curve.y, strict=True) if x <= rate), default=0.0)


def exposure_section(report: Report) -> Section:
    """Planted secrets."""
    lead = (
        "How far a planted secret ranks ahead of the other values it could have had, in bits: 1 bit halves the "
        "guesses that an attacker needs. Without memorisation the mean is about 1.44 bits."
    )
    return Section(
        "exposure",
        "Exposure of planted secrets",
        lead,
        for_every_run(report, "exposure", _exposure_chart),
    )


def _exposure_chart(run: RunReport, key: str) -> Chart | None:
    if not run.exposures:
        return None
    rows = [
        (
            cell(one.canary),
            Cell(shown(one.value, Scale.BITS), one.value),
            cell(interval(one.low, one.high, Scale.BITS)),
            Cell(shown(one.bits, Scale.BITS, digits=4), one.bits),
        )
        for one in run.exposures
    ]
    mean = sum(one.value for one in run.exposures) / len(run.exposures)
    has_interval = any(one.metric == EXPOSURE.name and not one.void for one in run.findings)
    with_interval = "; the interval of the mean is under All findings" if has_interval else ""
    summary = (
        f"Planted secrets: {len(rows)}. Their mean exposure is {shown(mean, Scale.BITS)}, of at most "
        f"{shown(max(one.bits for one in run.exposures), Scale.BITS)}{with_interval}."
    )
    data = table("Planted secrets", ("secret", "exposure", "interval", "of"), rows)
    return Chart(
        key, "Exposure compared with its null", summary, exposure_figure(run.exposures, run.exposure_null), data
    )


def extraction_section(report: Report) -> Section:
    """Records emitted against samples drawn."""
    lead = (
        "The share of records that are at least 50 % likely to appear in that many samples. The held-out curve, if "
        "there is one, shows the same for text that the model never saw. Bands are intervals."
    )
    return Section(
        "extraction",
        "Extraction",
        lead,
        for_every_run(report, "extraction", _extraction_chart),
    )


def _extraction_chart(run: RunReport, key: str) -> Chart | None:
    if not run.extraction:
        return None
    columns = ("records", "samples", "emitted", "interval", "n")
    rows = [
        (
            cell(curve.name),
            Cell(rounded_count(x), x),
            Cell(shown(y, Scale.SHARE), y),
            cell(interval(curve.low[place], curve.high[place], Scale.SHARE) if curve.low else MISSING),
            Cell(MISSING) if curve.n is None else cell(curve.n),
        )
        for curve in run.extraction
        for place, (x, y) in enumerate(zip(curve.x, curve.y, strict=True))
        if math.isclose(math.log10(x) % 3.0, 0.0, abs_tol=1e-9)
    ]
    ends = "; ".join(
        f"{curve.name}: {shown(curve.y[-1], Scale.SHARE)} in {rounded_count(curve.x[-1])} samples"
        for curve in run.extraction
    )
    return Chart(
        key,
        "Records emitted by sampling",
        f"Share of records emitted. {ends}.",
        extraction_figure(run.extraction),
        table("Records emitted", columns, rows),
    )


def leakage_section(report: Report) -> Section:
    """Bits of a secret that may leak."""
    lead = (
        "From the guarantee: the most bits of a secret that anyone who sees the model can learn, by length of the "
        "secret, if it is in one protected unit. The further below the diagonal, the more is protected."
    )
    return Section(
        "leakage",
        "Bits leaked by secret length",
        lead,
        for_every_run(report, "leakage", _leakage_chart),
    )


def _leakage_chart(run: RunReport, key: str) -> Chart | None:
    if not run.leakage:
        return None
    rows = [
        (
            Cell(shown(one.secret_bits, Scale.BITS), one.secret_bits),
            Cell(shown(one.most, Scale.BITS, side="up"), one.most),
            Cell(shown(one.secret_bits - one.most, Scale.BITS, side="down"), one.secret_bits - one.most),
        )
        for one in run.leakage
    ]
    middle = run.leakage[len(run.leakage) // 2]
    summary = (
        f"At most {shown(middle.most, Scale.BITS, side='up')} of a secret of "
        f"{shown(middle.secret_bits, Scale.BITS)} leak."
    )
    columns = ("secret", "leaks at most", "stays hidden at least")
    return Chart(
        key, "Proved bound on leaked bits", summary, leakage_figure(run.leakage), table("Bounds", columns, rows)
    )


def budget_section(report: Report) -> Section:
    """What was spent by when."""
    lead = "What the ledger charged, always before anything was released, and the limit that it cannot exceed."
    return Section(
        "budget",
        "Budget over time",
        lead,
        for_every_run(report, "budget", _budget_chart),
    )


def _budget_chart(run: RunReport, key: str) -> Chart | None:
    use = run.budget
    if use is None or not any(curve.x for curve in use.accounts):
        return None
    spent = {curve.name: (curve.y[-1] if curve.y else 0.0) for curve in use.accounts}
    rows = [
        (
            cell(name),
            Cell(shown(value, digits=6), value),
            Cell(shown(use.limit, digits=6), use.limit),
            Cell(shown(value / use.limit, Scale.SHARE), value / use.limit),
        )
        for name, value in spent.items()
    ]
    most = max(spent.values())
    summary = (
        f"Charges since {use.started}: {use.rows:,}. The account with the highest spend used "
        f"{shown(most, digits=6)} of {shown(use.limit, digits=6)} ({use.measure})."
    )
    data: Table = table("Accounts", ("account", f"spent ({use.measure})", "limit", "share"), rows)
    return Chart(key, "Charges in the ledger", summary, budget_figure(use), data)


CHARTS: Final[Sequence[Callable[[Report], Section]]] = (
    risk_section,
    roc_section,
    exposure_section,
    extraction_section,
    leakage_section,
    budget_section,
)
