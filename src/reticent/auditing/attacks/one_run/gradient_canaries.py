"""ε from below by the gradient canaries of one run: the strongest adversary, who sees every released sum.

Two scores of a canary, from its projections x_t on the released sums (`core.evidence.canary_trace`):

    likelihood     the exact log-likelihood ratio of the plan's sampler (`draws`)
    differences    log max_t |x_{t+1} − x_t| / median over canaries: noise that was used twice cancels

The first is what the plan allows at most, and finds too little noise, wrong clipping, and members that are drawn
too often. The second finds nothing in a sound run; it has a fifth of the error. Each is turned into ε by
`metrics.one_run_family`, which holds for every score. Beside it stand two bounds that need no orthogonal
directions and no family: `one_run` (Steinke et al. 2023) and `one_run_curve` (Mahloujifar et al. 2024).

The plan is refuted in one of two ways: its ε, by right guesses, or its declared mechanism (`mechanism`), whatever
its ε is. One error covers both, split over all tests: a measured ε above the claim *is* a refutation. It is small
(`CONFIDENCE`), since nobody should be accused because of one run in twenty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from reticent.accounting.pld import pld_epsilon
from reticent.auditing.attacks.membership.findings import MembershipSetting, epsilon_finding
from reticent.auditing.attacks.one_run.draws import draws_of, matched, steps_of
from reticent.auditing.attacks.one_run.mechanism import FAULTS, mechanism_p_values
from reticent.auditing.metrics.one_run import EpsilonBound, one_run_epsilon
from reticent.auditing.metrics.one_run_curve import one_run_epsilon_by_curve
from reticent.auditing.metrics.one_run_family import (
    ORTHOGONAL,
    FamilyBound,
    one_run_epsilon_by_family,
    plan_family,
)
from reticent.core.arrays import Floats
from reticent.core.document import number_to_json
from reticent.core.errors import UsageError
from reticent.core.event import Repeated
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.finding import Finding
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.model import Access
from reticent.core.printing.numbers import at_most, per_cent, shown
from reticent.core.randomness import Randomness

CONFIDENCE: Final = 0.999
_SHARE: Final = {"likelihood": 0.8, "differences": 0.2}  # of the error of ε
_SHARE_OF_EPSILON: Final = 0.6  # of the whole error; the rest is split over the tests of the mechanism
_FEWEST: Final = 20  # canaries: with fewer, not even certain guesses refute anything at the usual δ


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEpsilon:
    """What one run's canaries say: at least `epsilon` at `delta` with `confidence`, where `claimed` was proved.

    `by_score` holds the plan's own test for each score, `by_count` and `by_curve` the bounds without a family,
    `mechanism` the p-value of each fault of the declared mechanism that was tested.
    `epsilon` is that of the noisiest plan of this kind that the releases do not rule out. Once the plan is
    refuted nothing says that the mechanism is of this kind: then `by_count` alone bounds its ε.
    """

    epsilon: float
    claimed: float
    delta: float
    confidence: float
    steps: int
    canaries: int
    by_score: dict[str, FamilyBound]
    by_count: EpsilonBound
    by_curve: EpsilonBound
    mechanism: dict[str, float]

    @property
    def is_refuted(self) -> bool:
        """Whether the plan, as claimed, cannot have made these releases."""
        return self.refutes_epsilon or bool(self.faults)

    @property
    def refutes_epsilon(self) -> bool:
        """Whether members were told apart from non-members more often than the claimed ε allows."""
        return any(found.refutes_plan for found in self.by_score.values())

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the declared mechanism, by the tests that refute it."""
        error = (1.0 - _SHARE_OF_EPSILON) * (1.0 - self.confidence) / len(FAULTS)
        return tuple(name for name, p_value in self.mechanism.items() if p_value <= error)

    @property
    def verdict(self) -> str:
        """The comparison in a word; a finding never confirms."""
        return "refuted" if self.is_refuted else "consistent"

    def finding(self, unit: Unit) -> Finding:
        """The lower bound as a finding: its adversary sees every released step."""
        worst = min(found.p_value for found in self.by_score.values())
        bound = EpsilonBound(
            epsilon=self.epsilon,
            delta=self.delta,
            confidence=self.confidence,
            n=self.canaries,
            method="one run, plan",
            assumes=ORTHOGONAL,
        )
        said = f"probability of so many correct guesses under the plan as claimed: p = {worst:.2g}"
        if self.is_refuted:
            said += f"; for a mechanism of another kind ε is at least {shown(self.by_count.epsilon, side='down')}"
        declared = f"the declared mechanism is refuted: {', '.join(self.faults)}" if self.faults else ""
        setting = MembershipSetting(
            attack="gradient canaries",
            access=Access.STEPS,
            unit=unit,
            confidence=self.confidence,
            notes=tuple(filter(None, (said, declared, f"the plan as claimed: {self.verdict}"))),
        )
        return epsilon_finding(bound, setting=setting)

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {
            "schema_version": 1,
            "epsilon": self.epsilon,
            "claimed": number_to_json(self.claimed),
            "delta": self.delta,
            "confidence": self.confidence,
            "verdict": self.verdict,
            "canaries": self.canaries,
            "steps": self.steps,
            "p_values": {name: found.p_value for name, found in self.by_score.items()},
            "mechanism": self.mechanism,
            "faults": list(self.faults),
            "one_run": self.by_count.epsilon,
            "one_run_by_curve": self.by_curve.epsilon,
        }

    def __str__(self) -> str:
        least, claimed = shown(self.epsilon, side="down"), at_most(self.claimed)
        basis = (
            f"(δ = {self.delta:g}, {per_cent(self.confidence)} confidence, {self.canaries} canaries, "
            f"{self.steps} steps)"
        )
        sure = "if it is of another kind, no lower bound on its ε was found"
        if self.by_count.epsilon > 0.0:
            sure = f"whatever the mechanism is, ε is at least {shown(self.by_count.epsilon, side='down')}"
        if self.refutes_epsilon:
            found = f"; found: {', '.join(self.faults)}" if self.faults else ""
            return (
                f"refuted: no plan of this kind with ε below {least} releases this, claimed {claimed}{found}; "
                f"{sure} {basis}"
            )
        if self.faults:
            return (
                f"refuted: the declared mechanism did not release this: {', '.join(self.faults)}; the claimed ε of "
                f"{claimed} rests on it; {sure} {basis}"
            )
        return f"ε at least {least}, claimed {claimed}: {self.verdict} {basis}"


def measure_trace(
    trace: CanaryTrace,
    event: Repeated,
    *,
    deviation: float,
    delta: float,
    strategy: tuple[float, ...] = (1.0,),
    confidence: float = CONFIDENCE,
    randomness: Randomness | None = None,
) -> MeasuredEpsilon:
    """ε at `delta` from below for a run that was priced as `event` and released this trace.

    `deviation` is that of the fresh noise on a projection, in clip norms; `strategy` correlates it over steps.

    Guarantee: an honest run exceeds its own ε, or is refuted, with chance at most 1 − confidence, over coins,
    samples and noise.
    """
    draws, (fewest, most) = draws_of(event), steps_of(event)
    steps, canaries = trace.projections.shape
    if canaries < _FEWEST or not fewest <= steps <= most:
        raise UsageError(
            "too little was observed to measure ε",
            found=f"{canaries} canaries in {steps} steps",
            expected=f"at least {_FEWEST} canaries and {fewest} to {most} steps",
        )
    if len(strategy) > 1:
        trace = matched(trace, strategy)
    family = plan_family(event)
    scores = {
        "likelihood": draws.log_ratios(trace.projections, deviation),
        "differences": step_differences(trace.projections),
    }
    found = {
        name: one_run_epsilon_by_family(
            values,
            trace.is_member,
            family=family,
            delta=delta,
            confidence=1.0 - _SHARE[name] * _SHARE_OF_EPSILON * (1.0 - confidence),
            randomness=randomness,
        )
        for name, values in scores.items()
        if name == "likelihood" or len(trace.projections) > 1
    }
    likelihoods = scores["likelihood"]

    def without_family(estimate: Callable[..., EpsilonBound]) -> EpsilonBound:
        return estimate(likelihoods, trace.is_member, delta=delta, confidence=confidence, randomness=randomness)

    claimed = pld_epsilon(event, delta=delta, neighbours=Neighbours.ADD_REMOVE)
    return MeasuredEpsilon(
        epsilon=max(one.bound.epsilon for one in found.values()),
        claimed=claimed,
        delta=delta,
        confidence=confidence,
        steps=steps,
        canaries=canaries,
        by_score=found,
        by_count=without_family(one_run_epsilon),
        by_curve=without_family(one_run_epsilon_by_curve),
        mechanism=mechanism_p_values(
            trace,
            draws=draws,
            deviation=deviation,
            randomness=(randomness or Randomness.seeded(0)).child("made-up draws"),
        ),
    )


def step_differences(projections: Floats) -> Floats:
    """How far each canary [N] jumps between two steps [T, N] where the others stand still, around the median."""
    if len(projections) < 2:
        return np.zeros(projections.shape[1])
    jumps = np.abs(np.diff(projections, axis=0))  # [T − 1, N]
    usual = np.maximum(np.median(jumps, axis=1, keepdims=True), 1e-9)
    largest = np.log((jumps / usual).max(0) + 1e-9)
    return np.asarray(largest - np.median(largest))
