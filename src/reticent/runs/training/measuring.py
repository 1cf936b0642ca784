"""What the gradient canaries of a private run measured, from the files that it left."""

from pathlib import Path
from typing import Final

from reticent.accounting.bounds.ceiling import compare_with_guarantee
from reticent.auditing.attacks.one_run.draws import steps_of
from reticent.auditing.attacks.one_run.gradient_canaries import CONFIDENCE, MeasuredEpsilon, measure_trace
from reticent.core.document import write_document
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.guarantee import Guarantee
from reticent.runs.directory import RunDirectory
from reticent.training.plans.plan import DpSgd, noise_deviation

SCHEMA_VERSION: Final = 1


def record_measured(run: Path, plan: DpSgd, guarantee: Guarantee | None) -> MeasuredEpsilon | None:
    """Measure the run and write what was found, beside what was proved, to its findings.json.

    None where a crash lost steps.
    """
    trace = CanaryTrace.read(run)
    if len(trace.projections) < steps_of(plan.event)[0]:
        return None
    measured = measure_plan(trace, plan)
    if guarantee is None:
        return measured
    finding = measured.finding(guarantee.unit)
    beside = compare_with_guarantee(finding, guarantee)
    document = {
        "schema_version": SCHEMA_VERSION,
        "confidence": measured.confidence,
        "findings": [finding.to_json()],
        "comparisons": [{"finding": 0, **beside.to_json()}],
    }
    write_document(RunDirectory(run).findings, document)
    return measured


def measure_plan(trace: CanaryTrace, plan: DpSgd, *, confidence: float = CONFIDENCE) -> MeasuredEpsilon:
    """ε from below at the plan's δ by what its released sums show along canaries."""
    deviation = noise_deviation(plan.noise_multiplier, 1.0)
    return measure_trace(
        trace, plan.event, deviation=deviation, delta=plan.delta, strategy=plan.strategy, confidence=confidence
    )
