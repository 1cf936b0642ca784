"""DP-SGD as one object in a training loop of one's own.

    plan = DpSgd.for_target(epsilon=8, delta=1e-5, units=len(corpus), batch=64, epochs=3)
    with PrivateStep(model, plan, ledger="run.db") as step:
        for batch in step.batches(corpus):         # Poisson samples: no loader, no shuffling
            step.accumulate(batch)                 # clipped per-record gradients, summed
            step.update(optimizer)                 # charge the ledger, add noise, move the weights
        step.release("model")                      # weights, tokenizer, and the guarantee bound to them

The order is the guarantee, and what would break it is refused: a batch that the plan's sampler did not draw, one
that is added twice, one that is left out, an update without a batch, more steps than the ledger has left.
Underneath is what `reticent train` runs (`gradients.source`). With `audit=N` and a plan of `plan.audited(N)`, N
gradient canaries are among the units, and `trace` holds what the released sums show along them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reticent.core.corpus import Corpus, Record
from reticent.core.errors import BudgetExhausted, LedgerError, UsageError
from reticent.core.evidence.canary_trace import CanaryKey, CanaryTrace, TraceMemory
from reticent.core.evidence.certificate import Certificate
from reticent.core.guarantee import Guarantee
from reticent.core.ledger import Ledger
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.training.batches import TokenArray, Units, encode_texts
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.levels import LevelMemory
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation, PrivateGradients
from reticent.training.gradients.tape import is_attached
from reticent.training.plans.plan import DpSgd
from reticent.training.release import release_model

UPDATES_ALONE: Final = (
    "nothing but the updates of the private step, and what can be computed from them, moved the weights"
)


class PrivateBatch:
    """The units that one step drew. Its content is for `PrivateStep.accumulate`; `repr` shows nothing of it."""

    def __init__(self, groups: list[list[TokenArray]]) -> None:
        self._groups = groups

    def __repr__(self) -> str:
        return "PrivateBatch()"


class PrivateStep:
    """Takes the steps of a plan on a module, each charged to the ledger before its noise exists.

    `model` is one from `load_model`, or a module of your own. `ledger` is an open ledger, or the path of an
    SQLite ledger, which is created on first use. Use the step as a context manager, or `close` it: until then
    nothing else can train the model.

    Guarantee: all updates on one ledger are together what `plan.guarantee()` proves.

    >>> import torch
    >>> corpus, model = reticent.open_corpus("mails.jsonl").load(), reticent.load_model("embedded")
    >>> plan = reticent.DpSgd.for_target(epsilon=8, delta=1e-3, units=len(corpus), batch=20, epochs=1)
    >>> optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-3)
    >>> with reticent.PrivateStep(model, plan, ledger="loop.db") as step:
    ...     for batch in step.batches(corpus, max_length=24):
    ...         step.accumulate(batch)
    ...         step.update(optimizer)
    ...     step.release("released").name
    'released'
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
        if is_attached(self._module):
            raise UsageError(
                "another private step is attached to this model",
                hint="leave the with block of that step, or close() it, first",
            )
        self._plan = plan
        self._randomness = randomness or Randomness.system()
        self._computation = computation or Computation()
        self._observed = TraceMemory()
        self._key = CanaryKey.toss(audit, Randomness.system()) if audit else None
        self._levels = LevelMemory(plan.records) if plan.individual else None
        self._source: PrivateGradients | None = None
        self._drawn: PrivateBatch | None = None
        self._total: dict[str, Tensor] | None = None
        self._is_released = True  # whether what was drawn last has moved the weights
        self._updates = 0
        # By name from the start: while the engine is attached nothing requires gradients.
        self._parameters = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        self._owns_ledger = isinstance(ledger, str | Path)
        self._ledger = _ledger_at(Path(ledger), plan) if isinstance(ledger, str | Path) else ledger

    def __enter__(self) -> "PrivateStep":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the model, which others may train from here on, and of a ledger that was opened here."""
        if self._source is not None:
            self._source.__exit__(None, None, None)
        self._source = None
        if self._owns_ledger and isinstance(self._ledger, SqliteLedger):
            self._ledger.close()

    def batches(self, texts: Units | Corpus, *, max_length: int | None = None) -> Iterator[PrivateBatch]:
        """A random batch of the corpus for each step that the ledger has left; texts are truncated to `max_length`.

        A module of your own reads no text: give it `Units` of tokens instead of a corpus. Each batch must be
        released by `update` before the next is drawn. Raises BudgetExhausted where no step is left at the start.
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
        if self._source.position >= self._source.steps:
            self._source = None
            raise BudgetExhausted(
                f"the ledger has paid for all {self._plan.steps} steps of this plan, so nothing is left to train: "
                "use the weights that they made, or begin with another ledger, whose guarantee adds to this one's"
            )
        self._source.__enter__()
        while self._source is not None and self._source.position < self._source.steps:
            if not self._is_released:
                raise UsageError(
                    "the last sample was not released, and leaving it out would not be the plan's sampling",
                    hint="call step.accumulate(batch) and step.update(optimizer) for every batch",
                )
            self._drawn, self._total, self._is_released = PrivateBatch(self._source.draw()), None, False
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
        self._check_optimizer(optimizer)
        total, self._total = self._total, None
        released = self._source.release(total)
        self._is_released, self._updates = True, self._updates + 1
        for name, gradient in released.items():
            parameter = self._parameters[name]
            parameter.grad = gradient.to(device=parameter.device, dtype=parameter.dtype)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def release(self, folder: Path | str) -> Path:
        """Write the weights, the tokenizer of a loaded model and `guarantee.json` to a new folder, before closing.

        `reticent.audit(folder, …)` compares with that guarantee. It is that of the whole plan, which also holds for
        every intermediate model; that the model had not seen the text before is among its assumptions. A module
        without `save_pretrained` is written as model.safetensors.

        Guarantee: what the ledger promises of all updates that it paid for, bound to the files and the last charge.
        """
        place = Path(folder)
        if self._source is None or self._updates == 0:
            raise UsageError(
                "there is nothing to release: this step has moved no weights, or is closed",
                hint="call step.release(folder) after the loop, inside the with block",
            )
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise UsageError("a model is released to a new folder", found=f"{place}, which is there and not empty")
        model = self._module if self._encoder is None else self._encoder
        return release_model(model, place, certificate=Certificate(self._promised(), ledger=self._ledger.head()))

    def _promised(self) -> Guarantee:
        """What the ledger was made for, which must be about this plan's event."""
        found, plan = self._ledger.budget.guarantee, self._plan
        is_ours = found.basis is not None and found.basis.event == plan.event
        if not is_ours or (found.unit, found.neighbours, found.delta) != (plan.unit, plan.neighbours, plan.delta):
            raise LedgerError(
                "the ledger promises something else than the plan proves", hint="make it with plan.budget()"
            )
        return found

    def _check_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Refuse, before anything is charged, an optimiser that would not move parameters of this model."""
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        missing = sum(id(parameter) not in held for parameter in self._parameters.values())
        if missing:
            raise UsageError(
                "the optimiser does not hold all parameters that this step trains",
                found=f"{missing} of {len(self._parameters)} missing",
                hint="make it from the parameters of this model; freeze what is not to move before making the step",
            )

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
        tokens = encode_texts(self._encoder, _records_of(corpus), max_length=max_length)
        return Units(tokens, self._plan.unit, texts_per_unit=self._plan.texts_per_unit)

    def _canaries(self) -> GradientCanaries | None:
        if self._key is None:
            return None
        clip_norm = self._plan.clip_norm
        return GradientCanaries(self._module, self._key, clip_norm=clip_norm, observer=self._observed)


def _records_of(given: object) -> list[Record]:
    """The records of what a step is asked to draw from; a file's name, or texts alone, is refused."""
    records = [] if isinstance(given, str | Path) or not isinstance(given, Iterable) else list(given)
    if not records or not all(isinstance(record, Record) for record in records):
        raise UsageError(
            "a step draws from a corpus",
            found=type(given).__name__,
            expected="a Corpus, or Units of tokens",
            hint='reticent.open_corpus("mails.jsonl").load() reads a file; texts of your own are '
            "reticent.Corpus(reticent.Record(str(n), text) for n, text in enumerate(texts))",
        )
    return records


def _ledger_at(path: Path, plan: DpSgd) -> SqliteLedger:
    """The ledger of this plan at a path; made where there is none, refused where it is another plan's."""
    name = plan.ledger_name("a training loop of one's own")
    if path.exists():
        return SqliteLedger.open(path, identity=name)
    budget = plan.budget()
    proved = replace(budget.guarantee, assumes=(*budget.guarantee.assumes, UPDATES_ALONE))
    return SqliteLedger.create(path, replace(budget, guarantee=proved), accounts=[TRAINING_ACCOUNT], identity=name)
