"""DP-SGD as one object in a training loop of one's own.

    plan = DpSgd.for_target(epsilon=8, delta=1e-5, units=len(corpus), batch=64, epochs=3)
    with PrivateStep(model, plan, ledger="run.db") as step:
        for batch in step.batches(corpus):         # Poisson samples: no loader, no shuffling
            step.accumulate(batch)                 # clipped per-record gradients, summed
            step.update(optimizer)                 # charge the ledger, add noise, move the weights

The order is the guarantee, and what would break it is refused: a batch that the plan's sampler did not draw, one
that is added twice, an update without a batch, more steps than the ledger has left. Underneath is what
`reticent train` runs (`gradients.source`). With `audit=N` and a plan of `plan.audited(N)`, N gradient canaries are
among the units, and `trace` holds what the released sums show along them.
"""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reticent.core.corpus import Corpus
from reticent.core.errors import UsageError
from reticent.core.evidence.canary_trace import CanaryKey, CanaryTrace, TraceMemory
from reticent.core.ledger import Ledger
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.training.batches import TokenArray, Units, encode_texts
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.levels import LevelMemory
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation, PrivateGradients
from reticent.training.plans.plan import DpSgd


class PrivateBatch:
    """The units that one step drew. Its content is for `PrivateStep.accumulate`; `repr` shows nothing of it."""

    def __init__(self, groups: list[list[TokenArray]]) -> None:
        self._groups = groups

    def __repr__(self) -> str:
        return "PrivateBatch()"


class PrivateStep:
    """Takes the steps of a plan on a module, each charged to the ledger before its noise exists.

    `model` is one from `load_model`, or a module of your own. `ledger` is an open ledger, or the path of an
    SQLite ledger, which is created on first use. Use the step as a context manager.

    Guarantee: all updates on one ledger are together what `plan.guarantee()` proves.

    >>> import torch
    >>> corpus, model = reticent.open_corpus("mails.jsonl").load(), reticent.load_model("embedded")
    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=len(corpus), batch=20, epochs=1)
    >>> optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-3)
    >>> with reticent.PrivateStep(model, plan, ledger="loop.db") as step:
    ...     for batch in step.batches(corpus, max_length=24):
    ...         step.accumulate(batch)
    ...         step.update(optimizer)
    """

    def __init__(
        self,
        model: nn.Module | HuggingFaceModel,
        plan: DpSgd,
        *,
        ledger: Ledger | Path | str,
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
        self._encoder = model if isinstance(model, HuggingFaceModel) else None
        self._module = model.module if isinstance(model, HuggingFaceModel) else model
        self._plan = plan
        self._randomness = randomness or Randomness.system()
        self._computation = computation or Computation()
        self._observed = TraceMemory()
        self._key = CanaryKey.toss(audit, Randomness.system()) if audit else None
        self._levels = LevelMemory(plan.records) if plan.individual else None
        self._source: PrivateGradients | None = None
        self._drawn: PrivateBatch | None = None
        self._total: dict[str, Tensor] | None = None
        # By name from the start: while the engine is attached nothing requires gradients.
        self._parameters = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        self._owns_ledger = isinstance(ledger, str | Path)
        self._ledger = _ledger_at(Path(ledger), plan) if isinstance(ledger, str | Path) else ledger

    def __enter__(self) -> "PrivateStep":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._source is not None:
            self._source.__exit__(kind, error, trace)
        self._source = None
        if self._owns_ledger and isinstance(self._ledger, SqliteLedger):
            self._ledger.close()

    def batches(self, texts: Units | Corpus, *, max_length: int | None = None) -> Iterator[PrivateBatch]:
        """A random batch of the corpus for each step that the ledger has left; texts are truncated to `max_length`.

        A module of your own reads no text: give it `Units` of tokens instead of a corpus.
        """
        units = texts if isinstance(texts, Units) else self._encoded(texts, max_length)
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
            levels=self._levels,
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
    def clip_norm(self) -> float:
        """The clip norm of the next step; it moves where the plan has a `clip_quantile`, and may be told."""
        return self._plan.clip_norm if self._source is None else self._source.clip_norm

    @property
    def trace(self) -> CanaryTrace:
        """The released sums along each canary, and the canaries' coins. For the operator only."""
        if self._key is None:
            raise UsageError("this run has no canaries", hint="PrivateStep(..., audit=1000)")
        return self._observed.trace(self._key)

    @property
    def individual_epsilons(self) -> NDArray[np.float64]:
        """ε of each unit [n] by its own gradients, with a plan that is `individual`. For the operator only.

        Guarantee: as `IndividualPrice.epsilons`, when all steps of the plan were taken by this object.
        """
        if self._levels is None or self._source is None or self._source.position < self._plan.steps:
            raise UsageError(
                "single records are accounted for at the end of a run",
                hint="DpSgd.for_target(..., individual=True)",
            )
        return self._plan.individual_price().epsilons(self._levels.counts(self._plan.steps))

    def _encoded(self, corpus: Corpus, max_length: int | None) -> Units:
        if self._encoder is None:
            raise UsageError("this module reads no text", hint="give step.batches the Units of its tokens")
        tokens = encode_texts(self._encoder, corpus, max_length=max_length)
        return Units(tokens, self._plan.unit, texts_per_unit=self._plan.texts_per_unit)

    def _canaries(self) -> GradientCanaries | None:
        if self._key is None:
            return None
        clip_norm = self._plan.clip_norm
        return GradientCanaries(self._module, self._key, clip_norm=clip_norm, observer=self._observed)


def _ledger_at(path: Path, plan: DpSgd) -> SqliteLedger:
    """The ledger of this plan at a path; made where there is none, refused where it is another plan's."""
    name = plan.ledger_name("a training loop of one's own")
    if path.exists():
        return SqliteLedger.open(path, identity=name)
    return SqliteLedger.create(path, plan.budget(), accounts=[TRAINING_ACCOUNT], identity=name)
