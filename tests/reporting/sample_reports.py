"""Reports made by hand, with every section filled or none."""

import math
from dataclasses import replace

from reticent.core.finding import Comparison, Finding
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import Access
from reticent.reporting.report import (
    BudgetUse,
    CanaryExposure,
    GateLine,
    LeakagePoint,
    Origin,
    PlanLine,
    PolicyRate,
    RecordFacts,
    Report,
    RiskGroup,
    RiskMap,
    RiskPoint,
    RunReport,
    Series,
    UpdatePhrase,
    Utility,
)


def finding(metric="auc", **changes) -> Finding:
    """A finding that beats its null unless changed."""
    chosen = {
        "attack": "loss",
        "metric": metric,
        "value": 0.7,
        "low": 0.62,
        "high": 0.78,
        "confidence": 0.95,
        "n": 300,
        "measure": "what was counted",
        "unit": Unit.RECORD,
        "access": Access.LOGPROBS,
        "null": 0.5,
    }
    return Finding(**(chosen | changes))


def guarantee(**changes) -> Guarantee:
    """(2, 1e-5)-DP for one record unless changed."""
    chosen = {
        "mechanism": "DP-SGD",
        "notion": Notion.DIFFERENTIAL_PRIVACY,
        "unit": Unit.RECORD,
        "neighbours": Neighbours.ADD_REMOVE,
        "epsilon": 2.0,
        "delta": 1e-5,
        "covers": "one record",
        "assumes": ("noise comes from a generator the adversary cannot predict",),
    }
    return Guarantee(**(chosen | changes))


def origin() -> Origin:
    return Origin(
        command="reticent audit MODEL --train train.jsonl",
        started="2024-01-01T00:00:00+00:00",
        finished="2024-01-01T00:01:00+00:00",
        seed=7,
        versions={"reticent": "1"},
        fingerprints={"model": "abc"},
        sources=("findings.json", "run.json"),
    )


def bare_run(name="bare", **changes) -> RunReport:
    """A run that measured nothing and says why."""
    absent = dict.fromkeys(("risk", "roc", "exposure", "extraction", "leakage", "budget"), "nobody asked for it")
    return replace(RunReport(name=name, kind="audit", model="a model", origin=origin(), absent=absent), **changes)


def point(place: int, **changes) -> RiskPoint:
    chosen = {
        "id": f"record-{place}",
        "tokens": 20,
        "emission": -30.0 - place,
        "log_chance": -15.0 - place,
        "calibrated": -place / 10.0,
        "rank": place + 1,
    }
    return RiskPoint(**(chosen | changes))


def risk_map() -> RiskMap:
    """Forty records of either side; the first training record stands out in both directions."""
    facts = RecordFacts(copies=3, kinds=("phone",), masked="•••: •• <phone>.")
    worst = point(99, id="worst-record", emission=-5.0, log_chance=-0.1, calibrated=-90.0, rank=0, facts=facts)
    training = RiskGroup("training", (worst, *(point(place) for place in range(39))))
    held_out = RiskGroup("held-out", tuple(point(place, id=f"other-{place}") for place in range(40)))
    return RiskMap((training, held_out), 1_000_000, "a model", "its base")


def full_run(name="full", **changes) -> RunReport:
    """A run with something in every section."""
    promise = guarantee()
    measured = (
        finding(),
        finding("tpr_at_fpr_0.01", value=0.2, low=0.0, high=1.0, null=0.01, void="too few to tell"),
        finding("exposure", value=9.0, low=5.0, high=13.0, null=1.44, unit=Unit.SECRET, n=6),
        finding("odd_new_metric", value=3.0, low=2.0, high=math.inf, null=None),
    )
    run = RunReport(
        name=name,
        kind="audit",
        model="a model",
        base="its base",
        origin=origin(),
        findings=measured,
        comparisons=tuple(
            Comparison(one, promise, 0.75, 1.0)
            if one.metric == "auc"
            else Comparison(one, promise, None, reason="no ceiling for its metric")
            for one in measured
        ),
        guarantee=promise,
        confidence=0.95,
        utility=(Utility(name="held-out perplexity", value=3.2, low=2.9, high=3.6, n=10),),
        plan=(PlanLine(attack="codes", needs="canaries", n=0, seconds=0.0, skipped="no canaries"),),
        gate=(
            GateLine(
                option="--require", limit="auc<=0.6", end="high", outcome="exceeded", fails=True, by=("loss",)
            ),
        ),
        notes=("4 records were left out.",),
        risk_map=risk_map(),
        roc=(Series("loss", (0.01, 0.1, 1.0), (0.2, 0.6, 1.0), n=300),),
        exposures=(CanaryExposure(canary="canary-0", value=9.0, low=8.0, high=10.0, bits=19.93),),
        exposure_null=1.44,
        extraction=(Series("training", (1.0, 1000.0), (0.0, 0.4), (0.0, 0.3), (0.1, 0.5), 40),),
        leakage=tuple(LeakagePoint(secret_bits=b, most=b / 2, traditional=2.0 * b) for b in (8.0, 16.0, 32.0)),
        budget=BudgetUse("steps", 30.0, (Series("model", (0.0, 2.0), (1.0, 21.0)),), 21, "2024-01-01T00:00:00"),
        policies=(
            PolicyRate(policy="patterns", what="recall", value=0.9, low=0.8, high=0.95, confidence=0.95, trials=50),
        ),
        update=(
            UpdatePhrase(update="1", number=0, bits=30.0, score=5.0, is_above_null=True, records=("record-1",)),
        ),
    )
    return replace(run, **changes)


def report(*runs: RunReport) -> Report:
    return Report(runs or (full_run(),), "2024-01-02T00:00+00:00", "1.0")
