"""Does a private step do what its plan says? One call for a pipeline that is not ours.

    found = verify(step, plan)            "ε at least 6.4, claimed 8.00: consistent"

`step` takes records and returns a noisy sum. Records are rows [n, d] of a tensor. The gradient of a record in the
tiny module `CanaryModule(d)` is the record itself: whatever clips, sums and adds noise per record can be driven, an
Opacus optimiser or a loop of one's own (`examples/opacus_audit.py`). Each row is one canary, longer than the clip
norm and orthogonal to all others; half of them are members, by fair coins of the system's generator.

Who samples is part of what is verified. With `samples_itself` the step is given all members every time and draws on
its own; else it is given what the plan's sampler draws, and its own sampler stays untested.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reticent.auditing.attacks.one_run.draws import draws_of
from reticent.auditing.attacks.one_run.gradient_canaries import CONFIDENCE, MeasuredEpsilon, measure_trace
from reticent.core.arrays import Flags, Floats
from reticent.core.errors import UsageError
from reticent.core.evidence.canary_trace import CanaryKey, TraceMemory
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.runs.training.measuring import measure_plan
from reticent.training.plans.plan import DpSgd
from reticent.training.private_step import PrivateStep

Step = Callable[[Tensor], Tensor]
_LENGTH = 8.0  # of a record, in clip norms: a step that does not clip is found out


class CanaryModule(nn.Module):
    """A weight vector [d] whose loss on a record is their inner product: the gradient is the record."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dimension, 1, bias=False)
        nn.init.zeros_(self.layer.weight)

    def forward(self, records: Tensor) -> Tensor:
        """One loss per record [n] of records [n, d]."""
        losses: Tensor = self.layer(records).squeeze(-1)
        return losses


def verify(
    step: Step | PrivateStep,
    plan: DpSgd,
    *,
    canaries: int = 1000,
    samples_itself: bool = False,
    confidence: float = CONFIDENCE,
    randomness: Randomness | None = None,
) -> MeasuredEpsilon:
    """Measure a lower bound on ε of a step function that claims to follow `plan`, in `plan.steps` calls of it.

    `step` maps records [n, d], possibly none, to a noisy sum [d] that is not normalised. A `PrivateStep` that ran
    with `audit=N` is measured by what it released.

    Guarantee: a step that is the plan's is refuted, or exceeds its ε, with chance at most 1 − confidence.

    >>> import torch
    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=100, batch=50, epochs=5)
    >>> def forgets_to_clip(records):
    ...     return records.sum(0) + torch.randn(records.shape[1]) * plan.noise_multiplier
    >>> reticent.verify(forgets_to_clip, plan, canaries=500).verdict
    'refuted'
    """
    _check_kinds(step, plan)
    if plan.neighbours is not Neighbours.ADD_REMOVE:
        raise UsageError("canaries are added or removed", found=f"a plan for neighbours '{plan.neighbours.value}'")
    if plan.clip_quantile is not None:
        raise UsageError(
            "a step is verified at one clip norm",
            found="a plan whose norm follows a quantile",
            hint="verify it with a fixed norm: a plan without clip_quantile",
        )
    if isinstance(step, PrivateStep):
        return measure_plan(step.trace, plan, confidence=confidence)
    source = randomness or Randomness.system()
    key = CanaryKey.toss(canaries, source.child("coins"))
    records = torch.eye(canaries) * (_LENGTH * plan.clip_norm)  # [N, d], d = N
    seen = TraceMemory()
    for takes_part in _all_every_time(plan, canaries) if samples_itself else _drawn(plan, canaries, source, seen):
        released = step(records[torch.from_numpy(takes_part & key.is_member)])
        seen.append(_noisy_sum(released, canaries) / plan.clip_norm)
    return measure_trace(
        seen.trace(key),
        plan.event,
        deviation=plan.noise_multiplier,
        delta=plan.delta,
        strategy=plan.strategy,
        confidence=confidence,
    )


def _drawn(plan: DpSgd, canaries: int, source: Randomness, seen: TraceMemory) -> Iterator[Flags]:
    """Which of the canaries [N] take part in each step of the plan, drawn as its sampler draws units."""
    size, draws = plan.sampler.steps_per_round, draws_of(plan.event)
    rounds = (source.child(f"sample {number}") for number in range(plan.steps // size))
    if not plan.sampler.is_correlated:
        for child in rounds:
            yield from draws.made_up((size, canaries), child)
        return
    places = source.child("places").integers(size, canaries)
    seen.place(places)
    for child in rounds:
        (drawn,) = draws.made_up((1, canaries), child)  # once a cycle, for the step of its place
        yield from (drawn & (places == step) for step in range(size))


def _all_every_time(plan: DpSgd, canaries: int) -> Iterator[Flags]:
    """Every canary [N] in every step."""
    if plan.sampler.is_correlated:
        raise UsageError(
            "with correlated noise, a step that hides the positions of its units cannot be measured",
            hint="leave samples_itself out",
        )
    return (np.ones(canaries, dtype=np.bool_) for _ in range(plan.steps))


def noisy_sum_of_update(before: Tensor, after: Tensor, *, learning_rate: float, normaliser: float) -> Tensor:
    """The noisy sum by which plain SGD without momentum moved weights [d]: (before − after) / rate × normaliser."""
    if not learning_rate > 0.0 or not normaliser > 0.0:
        raise ValueError("the learning rate and what the sum was divided by must be positive")
    return (before - after).detach().flatten() * (normaliser / learning_rate)


def _check_kinds(step: Any, plan: Any) -> None:
    """Refuse what is no step and no plan: what fails first would say it in words of its own."""
    if not isinstance(plan, DpSgd):
        raise UsageError(
            "a step is verified against a plan",
            found=type(plan).__name__,
            expected="DpSgd, such as reticent.DpSgd.for_target(…)",
        )
    if not isinstance(step, PrivateStep) and not callable(step):
        raise UsageError(
            "the step must be a function or a PrivateStep",
            found=type(step).__name__,
            expected="records [n, d] in, their noisy sum [d] out",
        )


def _noisy_sum(released: Any, dimension: int) -> Floats:
    if not isinstance(released, Tensor):
        raise UsageError(
            "the step must return a torch tensor", found=type(released).__name__, expected=f"shape ({dimension},)"
        )
    values = released.detach().flatten()
    if values.shape != (dimension,) or not bool(torch.isfinite(values).all()):
        raise UsageError(
            "the step must return a finite noisy sum, one number for each weight",
            found=f"{tuple(released.shape)}",
            expected=f"({dimension},)",
        )
    return np.asarray(values.double().cpu().numpy())
