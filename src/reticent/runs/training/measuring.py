"""What the gradient canaries of a private run measured, from the files that it left."""

from pathlib import Path

from reticent.audit.attacks.one_run.gradient_canaries import MeasuredEpsilon, measure_trace
from reticent.core.canary_trace import CanaryTrace
from reticent.runs.training.course import AnyPlan
from reticent.training.plans.plan import DpSgd, noise_deviation


def measure_run(run: Path, plan: AnyPlan, *, confidence: float = 0.95) -> MeasuredEpsilon | None:
    """ε from below by the run's canaries at the plan's δ; None where the plan has none."""
    if not isinstance(plan, DpSgd) or not plan.canaries:
        return None
    return measure_plan(CanaryTrace.read(run), plan, confidence=confidence)


def measure_plan(trace: CanaryTrace, plan: DpSgd, *, confidence: float = 0.95) -> MeasuredEpsilon:
    """ε from below at the plan's δ by what its released sums show along canaries."""
    deviation = noise_deviation(plan.noise_multiplier, 1.0)
    return measure_trace(trace, plan.event, deviation=deviation, delta=plan.delta, confidence=confidence)
