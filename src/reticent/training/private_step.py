"""DP-SGD as one object in a training loop of one's own.

    units = Units(encode_texts(model, corpus))
    plan = DpSgd.for_target(epsilon=8, delta=1e-5, units=len(units), batch=64, epochs=3)
    with PrivateStep(model.module, plan, ledger=ledger) as step:
        for batch in step.batches(units):          # Poisson samples: no loader, no shuffling
            step.accumulate(batch)                 # clipped per-record gradients, summed
            step.update(optimizer)                 # charge the ledger, add noise, move the weights

The order is the guarantee, and what would break it is refused: a batch that the plan's sampler did not draw, one
that is added twice, an update without a batch, more steps than the ledger has left. Underneath is what
`reticent train` runs (`gradients.source`). With `audit=N` and a plan of `plan.audited(N)`, N gradient canaries are
among the units, and `trace` holds what the released sums show along them.
"""

from collections.abc import Iterator
from types import TracebackType

import numpy as np
import torch
from torch import Tensor, nn

from reticent.core.canary_trace import CanaryKey, CanaryTrace, Floats
from reticent.core.errors import UsageError
from reticent.core.ledger import Ledger
from reticent.core.randomness import Randomness
from reticent.training.batches import TokenArray, Units
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.source import Computation, PrivateGradients
from reticent.training.plans.plan import DpSgd


class PrivateBatch:
    """The units that one step drew. Its content is for `PrivateStep.accumulate`; `repr` shows nothing of it."""

    def __init__(self, groups: list[list[TokenArray]]) -> None:
        self._groups = groups

    def __repr__(self) -> str:
        return "PrivateBatch()"


class PrivateStep:
    """Takes the steps of a plan on a module, each charged to the ledger before its noise exists.

    Guarantee: all updates on one ledger are together what `plan.guarantee()` proves.
    """

    def __init__(
        self,
        module: nn.Module,
        plan: DpSgd,
        *,
        ledger: Ledger,
        audit: int = 0,
        randomness: Randomness | None = None,
        computation: Computation | None = None,
    ) -> None:
        """`randomness` other than the system's is for experiments, and the ledger's guarantee must say so."""
        if audit != plan.canaries:
            raise UsageError(
                "the plan must count the canaries among its units",
                found=f"audit={audit}, and {plan.canaries} canaries in the plan",
                hint=f"use plan.audited({audit}) for plan, guarantee and ledger",
            )
        self._module, self._plan, self._ledger = module, plan, ledger
        self._randomness = randomness or Randomness.system()
        self._computation = computation or Computation()
        self._rows: list[Floats] = []
        self._key = CanaryKey.toss(audit, Randomness.system()) if audit else None
        self._source: PrivateGradients | None = None
        self._drawn: PrivateBatch | None = None
        self._total: dict[str, Tensor] | None = None
        # By name from the start: while the engine is attached nothing requires gradients.
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}

    def __enter__(self) -> "PrivateStep":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._source is not None:
            self._source.__exit__(kind, error, trace)
        self._source = None

    def batches(self, units: Units) -> Iterator[PrivateBatch]:
        """One Poisson sample of the units for each step that the ledger has left."""
        if self._source is not None:
            raise UsageError("the step draws from one corpus", hint="make another PrivateStep, and another ledger")
        self._source = PrivateGradients(
            self._module,
            units,
            self._plan,
            ledger=self._ledger,
            randomness=self._randomness,
            computation=self._computation,
            canaries=self._canaries(),
        )
        self._source.__enter__()
        while self._source is not None and self._source.position < self._source.steps:
            self._drawn, self._total = PrivateBatch(self._source.draw()), None
            yield self._drawn

    def accumulate(self, batch: PrivateBatch) -> None:
        """Add the clipped gradients of the drawn batch; any other batch is refused."""
        if self._source is None or batch is not self._drawn or not isinstance(batch, PrivateBatch):
            raise UsageError(
                "a private step takes the sample that it drew itself, once",
                found=type(batch).__name__,
                hint="loop over step.batches(units); a loader's batches are not Poisson samples",
            )
        self._drawn = None
        self._total = self._source.clipped_sum(batch._groups)

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Charge the ledger, add noise to the sum, divide by the plan's constant, and let the optimiser move.

        Guarantee: the charge is on disk before the noise is drawn.
        """
        if self._source is None or self._total is None:
            raise UsageError("there is nothing to update by", hint="call step.accumulate(batch) first")
        total, self._total = self._total, None
        for name, gradient in self._source.release(total).items():
            parameter = self._parameters[name]
            parameter.grad = gradient.to(device=parameter.device, dtype=parameter.dtype)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    @property
    def trace(self) -> CanaryTrace:
        """What every released sum shows along the canaries, and their coins: the operator's alone."""
        if self._key is None:
            raise UsageError("this run has no canaries", hint="PrivateStep(..., audit=1000)")
        rows = np.array(self._rows).reshape(len(self._rows), len(self._key))
        return CanaryTrace(rows, self._key.is_member)

    def _canaries(self) -> GradientCanaries | None:
        if self._key is None:
            return None
        clip_norm = self._plan.clip_norm
        return GradientCanaries(self._module, self._key, clip_norm=clip_norm, observe=self._rows.append)
