"""The curves of a report, from the documents that an audit left: ROC, extraction by sampling, bits leaked, budget.

Each calls what `reticent.auditing` and `reticent.accounting` offer; nothing here is a method of its own.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from reticent.accounting.bounds.ceiling import is_comparable
from reticent.accounting.bounds.leakage import leakage_of_guarantee
from reticent.auditing.attacks.lazy.emission import log_chance_in_samples
from reticent.auditing.attacks.lazy.risk_map import GENERATED
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.core.document import number_from_json
from reticent.core.guarantee import Guarantee, Notion
from reticent.core.statistics.proportion import Share
from reticent.ledger.durable import SqliteLedger
from reticent.ledger.fixed_point import amount_up
from reticent.reporting.report import BudgetUse, LeakagePoint, Series

_SAMPLES: Final = tuple(10.0**power for power in np.arange(0.0, 12.25, 0.25).tolist())
_LENGTHS: Final = (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)
_CURVE_POINTS: Final = 400


def roc_curves(document: dict[str, Any]) -> tuple[Series, ...]:
    """One curve for each attack of membership.json: true- against false-positive rate at every threshold."""
    is_member = np.array(document["is_member"], dtype=bool)
    curves = []
    for name, values in document["scores"].items():
        scores = np.array([number_from_json(value) for value in values])
        thresholds = np.unique(scores)[::-1]
        members, others = np.sort(scores[is_member]), np.sort(scores[~is_member])
        found = 1.0 - np.searchsorted(members, thresholds, side="left") / len(members)
        accused = 1.0 - np.searchsorted(others, thresholds, side="left") / len(others)
        kept = _thinned(len(thresholds))
        x, y = (tuple(rates[kept].tolist()) for rates in (accused, found))
        curves.append(Series(name, x, y, n=len(scores)))
    return tuple(curves)


def _thinned(count: int) -> list[int]:
    """At most so many places of a curve, the ends among them."""
    if count <= _CURVE_POINTS:
        return list(range(count))
    return sorted({round(place) for place in np.geomspace(1, count, _CURVE_POINTS).tolist()} - {count} | {0})


def extraction_curves(document: dict[str, Any], *, confidence: float) -> tuple[Series, ...]:
    """Share of the risk map's distinct texts that appear with chance 1/2 or more in so many samples.

    The intervals of all drawn points of one curve hold together (Bonferroni).
    """
    curves = []
    each = shared_confidence(confidence, len(_SAMPLES))
    for group in document["groups"]:
        if not group["ids"] or group["name"] == GENERATED:  # what the model said by itself was emitted
            continue
        ranks = group.get("rank", range(len(group["ids"])))  # an older map has none: each record counts
        first = np.unique(ranks, return_index=True)[1]  # records of one text share its rank
        emission = np.array([number_from_json(value) for value in group["emission"]])[first]
        owners = np.array(group["owners"])[first].tolist()
        n = len(emission)
        shares = [
            Share.of((log_chance_in_samples(emission, draws) >= np.log(0.5)).tolist(), owners) for draws in _SAMPLES
        ]
        ends = [share.interval(confidence=each) for share in shares]
        curves.append(
            Series(
                group["name"],
                _SAMPLES,
                tuple(share.hits / n for share in shares),
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
                n,
            )
        )
    return tuple(curves)


def leakage_points(guarantee: Guarantee | None) -> tuple[tuple[LeakagePoint, ...], str]:
    """Bits that may leak of secrets of many lengths, and the reason where the guarantee gives no such bound."""
    if guarantee is None:
        return (), "nothing was proved of this run"
    if not is_comparable(guarantee) or guarantee.notion is not Notion.DIFFERENTIAL_PRIVACY:
        return (), f"{guarantee.notion.value} does not hold for every secret that stands in the text"
    if not np.isfinite(guarantee.epsilon):
        return (), "the guarantee's ε is unbounded"
    found = [leakage_of_guarantee(guarantee, float(bits)) for bits in _LENGTHS]
    points = [
        LeakagePoint(secret_bits=one.secret_bits, most=one.least, traditional=one.traditional) for one in found
    ]
    return tuple(points), ""


def budget_use(path: Path) -> BudgetUse:
    """What the ledger of a run says was spent by when."""
    with SqliteLedger.open(path) as ledger:
        totals = dict.fromkeys(ledger.accounts, 0)
        courses: dict[str, list[tuple[float, float]]] = {account: [] for account in totals}
        first: datetime.datetime | None = None
        count = 0
        for row in ledger.rows():
            time = datetime.datetime.fromisoformat(row.time)
            first = first or time
            count += 1
            for account, units in row.units.items():
                totals[account] += units
                courses[account].append(((time - first).total_seconds(), amount_up(totals[account])))
        curves = tuple(_course(account, points) for account, points in courses.items())
        started = "" if first is None else first.isoformat(timespec="seconds")
        return BudgetUse(ledger.budget.measure, ledger.budget.limit, curves, count, started)


def _course(account: str, points: Sequence[tuple[float, float]]) -> Series:
    places = np.unique(
        np.linspace(0, len(points) - 1, min(len(points), _CURVE_POINTS)).round().astype(int)
    ).tolist()
    kept = [points[place] for place in places]
    return Series(account, tuple(x for x, _ in kept), tuple(y for _, y in kept))
