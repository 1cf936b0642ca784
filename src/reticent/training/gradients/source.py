"""Where a step's gradient comes from: an ordinary batch, or a noisy clipped sum that was charged first.

A source knows how many steps there are, how many are taken, and makes the next one. The private one does, in this
order and no other:

    draw a sample → clip and sum → **charge the ledger, durably** → add noise → divide by a public constant

Nothing noisy exists before its charge is on disk, so a crash at any moment loses budget and never privacy. A step
that was charged and lost is never repeated: the ledger decides how many are left, not the checkpoint. Noise is
fresh for every charge; where an experiment draws it from a seed, the charge's own number is part of that seed, so
no noise is ever laid over two different sums.

Through the layout of micro-batches one record may change how others are rounded, by no more than the noise has room
for: `gradients.rounding` tests it, at the start and again as the weights move. Where the plan asks for proof, every
unit is computed by itself, and what is left, the rounding of norms and sums, has a bound (`rounding_bound`).

Private steps are taken without dropout: its masks depend on how a batch is laid out, so one record more would
change what all the others contribute, by several times the clip norm.

Where noise is correlated (`gradients.correlated`), what the last steps added is remembered. A checkpoint of an
unfinished run then holds tensors that nobody else may read; `state` gives them beside its JSON values.

Where the clip norm follows a quantile (`plans.adaptive_norm`), a noisy count is released beside the gradient, under
the same charge, and moves the norm of the next step. That norm is post-processing: a checkpoint tells it.

What an empty sample releases is noise alone, as the proof has it. Losses and batch sizes are as private as the
batch: they go to the operator's screen and into no file.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from reticent.core.errors import ConfigError, LedgerError, ModelError, UsageError
from reticent.core.ledger import Ledger, Receipt
from reticent.core.randomness import Randomness
from reticent.core.ranges import NORM
from reticent.training.batches import Limits, TokenArray, Units, micro_batches, own_size_batches
from reticent.training.checkpoint import receipt_state, restored_receipt
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.clipping import NonFiniteGradient, add_noise, short_count
from reticent.training.gradients.correlated import NoiseMemory
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.levels import LevelLog, OwnLevels
from reticent.training.gradients.recomputation import Recomputation
from reticent.training.gradients.record_loss import TokenBatch, record_losses, token_losses
from reticent.training.gradients.rounding import SHARE, Readable, RoundingTest
from reticent.training.gradients.rounding_bound import Rounding
from reticent.training.plans.plan import MEASURE, ROUNDING_ROOM, SEEDED, DpSgd, PlainPlan
from reticent.training.plans.sampler import Indices
from reticent.training.update_rules import Phase

TRAINING_ACCOUNT: Final = "training"
"""The account of a ledger that a training run charges."""
_PLACES: Final = "places"
_CLIP_NORM: Final = "clip_norm"
_COUNT: Final = "count"
_STEPS_PER_TEST: Final = 256  # rounding is tested again after so many steps


@dataclass(frozen=True, slots=True)
class Gradient:
    """What moves the weights in one step, and what the operator may see of it: mean loss and tokens."""

    values: dict[str, Tensor]
    loss: float | None  # None where the batch was empty
    tokens: int
    phase: Phase | None = None  # None: the run has one

    def __repr__(self) -> str:
        return f"Gradient({len(self.values)} parameters)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """How gradients are computed: padded tokens in memory at once, and the precision of forward and backward.

    `recomputes` computes the activations of blocks again instead of keeping them (`gradients.recomputation`).
    """

    token_budget: int = 4096
    dtype: torch.dtype | None = None  # None: as the weights are; norms, sums and noise are float32 at least
    recomputes: bool = False

    def __post_init__(self) -> None:
        if self.token_budget < 1:
            raise ConfigError("the token budget must be positive", found=self.token_budget)


class GradientSource(Protocol):
    """Where a training run gets its gradients from, step by step.

    Used as a context: it may attach to the module.
    """

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        ...

    @property
    def position(self) -> int:
        """Steps that are taken, or spent: the next one has this number."""
        ...

    def next(self) -> Gradient:
        """The gradient of the next step."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold to go on from here: JSON values, and tensors that nobody else may read."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state; one that does not belong here is refused."""
        ...

    def __enter__(self) -> "GradientSource": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class PlainGradients:
    """The mean loss per token of a shuffled batch, differentiated as usual. No protection at all."""

    def __init__(self, module: nn.Module, units: Units, plan: PlainPlan, *, computation: Computation) -> None:
        _check_units(units, plan.units)
        self._module = module
        self.units = units
        self.plan = plan
        self._sampler = plan.sampler
        self._computation = computation
        self._position = 0
        self._recomputation: Recomputation | None = None

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.plan.steps

    @property
    def position(self) -> int:
        """Steps that were taken."""
        return self._position

    def next(self) -> Gradient:
        """The gradient of the next batch; a loss that is not finite raises a ModelError."""
        self._module.train()
        parameters = {name: p for name, p in self._module.named_parameters() if p.requires_grad}
        drawn = self._sampler.batch_at(self._position).tolist()
        groups = self.units.gather(drawn, Randomness.seeded(self.plan.seed).child(f"texts {self._position}"))
        tokens = sum(len(text) for group in groups for text in group)
        total, loss = {name: torch.zeros_like(p) for name, p in parameters.items()}, 0.0
        device, dtype = _device(self._module), self._computation.dtype
        budget = self._computation.token_budget
        for batch in micro_batches(groups, self.units.start_token, token_budget=budget, device=str(device)):
            with torch.enable_grad(), torch.autocast(device.type, dtype=dtype, enabled=dtype is not None):
                divisors = torch.full(batch.inputs.shape[:1], max(1, tokens), device=device)  # [R]
                mean = token_losses(self._module, batch, divisors=divisors).sum()
            found = torch.autograd.grad(mean, list(parameters.values()), allow_unused=True)
            for (_, summed), gradient in zip(total.items(), found, strict=True):
                if gradient is not None:
                    summed.add_(gradient)
            loss += float(mean.detach())
        if not math.isfinite(loss):
            raise ModelError(
                "training diverged: the loss is not finite",
                found=f"step {self._position + 1} of {self.steps}",
                hint="lower the learning rate, or compute in float32; the last checkpoint is intact",
            )
        self._position += 1
        return Gradient(total, loss, tokens)

    def state(self) -> dict[str, Any]:
        """How many steps were taken; which batches come next follows from that and the plan's seed."""
        return {"position": self._position}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on after so many steps."""
        self._position = int(state["position"])

    def __enter__(self) -> "PlainGradients":
        self._recomputation = Recomputation(self._module) if self._computation.recomputes else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recomputation is not None:
            self._recomputation.detach()


class PrivateGradients:
    """DP-SGD's noisy, normalised sums, each charged to the ledger before it exists.

    Guarantee: all gradients that all sources on one ledger ever give are together what `plan.guarantee()` proves,
    across crashes, restarts and processes.
    """

    def __init__(
        self,
        module: nn.Module,
        units: Units,
        plan: DpSgd,
        *,
        ledger: Ledger,
        randomness: Randomness,
        computation: Computation,
        canaries: GradientCanaries | None = None,
        levels: LevelLog | None = None,
    ) -> None:
        """`canaries` are the plan's last units: drawn, clipped, summed and noised like records.

        `levels` keeps what each record was clipped to, where the plan accounts for each by itself.
        """
        _check_units(units, plan.records)
        _check_ledger(ledger, plan, randomness)
        _check_canaries(canaries, plan.canaries)
        self._module = module
        self._units = units
        self.plan = plan
        self._ledger = ledger
        self._randomness = randomness
        self._computation = computation
        self._canaries = canaries
        self._drawn_canaries: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._levels = _own_levels(plan, levels)
        self._limits: Limits | None = None  # of the units that were drawn
        self._clip_norm = plan.clip_norm  # of the next step
        self._count: Tensor | None = None  # of short gradients in the sum that is next released
        self._receipt: Receipt | None = None
        # The steps of a round are drawn together and kept here alone: a run that ends loses them.
        self._round: tuple[Indices, ...] = ()
        self._left = 0  # charged steps of the round that are still to come
        self._place = 0
        self._memory = NoiseMemory(plan.strategy) if plan.sampler.is_correlated else None
        self._places: Indices | None = None  # of the units in a cycle
        self._meter = _LossMeter()
        self._tested_at: int | None = None
        self._tested_norm = math.inf
        self._packs_closely = False
        self._engine = PerRecordGradients(
            module,
            plan.clip_norm,
            losses=self._meter,
            compute_dtype=computation.dtype,
            recomputes=computation.recomputes,
            is_bounded=plan.rounding is Rounding.PROVED,
        )

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.plan.steps

    @property
    def position(self) -> int:
        """Steps that were charged, whether or not their weights survived, without those of this round to come."""
        return round(self._ledger.spent()[TRAINING_ACCOUNT]) - self._left

    @property
    def clip_norm(self) -> float:
        """The clip norm of the next step. It follows from what was released, and may be told."""
        return self._clip_norm

    def next(self) -> Gradient:
        """Draw, clip, sum, charge, add noise, normalise: the order is the guarantee."""
        groups = self.draw()
        values = self.release(self.clipped_sum(groups))
        return Gradient(values, self._meter.mean(), sum(len(text) for group in groups for text in group))

    def release(self, total: dict[str, Tensor]) -> dict[str, Tensor]:
        """The noisy mean of a step, from its clipped sum.

        Guarantee: no noise exists before its charge is on disk.
        """
        whole, count = self._total(total), self._whole_count()
        receipt = self._charged()
        values = self._noisy_mean(whole, receipt)
        if count is not None:
            self._clip_to(self._next_norm(count, receipt))
        return self._as_weights(values)

    def _whole_count(self) -> Tensor | None:
        """The count of the whole step that belongs to the sum, once; None where the clip norm is fixed."""
        if self.plan.clip_quantile is None:
            return None
        if self._count is None:
            raise UsageError("a sum is released once", hint="call clipped_sum for every step")
        count, self._count = self._total({_COUNT: self._count})[_COUNT], None
        return count

    def _next_norm(self, count: Tensor, receipt: Receipt) -> float:
        """The clip norm that the count with fresh noise leads to. Only after its charge, whose receipt says so."""
        fresh = self._randomness.child(f"count {self._charge_of(receipt)}")
        noisy = add_noise({_COUNT: count}, self.plan.count_deviation, fresh)[_COUNT]
        return self.plan.next_clip_norm(self._clip_norm, float(noisy))

    def _clip_to(self, clip_norm: float) -> None:
        self._clip_norm = clip_norm
        self._engine.clip_to(clip_norm)

    def _charge_of(self, receipt: Receipt) -> str:
        """The number of this step's charge, and its place where a charge is for several."""
        return f"{receipt.sequence}" + (f" {self._place}" if self._place else "")

    def _charged(self) -> Receipt:
        """The receipt of the round that this step belongs to, which its first step charges whole."""
        size = self.plan.sampler.steps_per_round
        if self._left == 0:
            self._receipt = self._ledger.charge({TRAINING_ACCOUNT: float(size)}, self.plan.round_event)
            self._left = size
        self._place = size - self._left
        self._left -= 1
        assert self._receipt is not None
        return self._receipt

    def clipped_sum(self, groups: list[list[TokenArray]]) -> dict[str, Tensor]:
        """The clipped sum of these units.

        Guarantee: one unit more moves it by at most the clip norm × (1 + ROUNDING_ROOM): as far as rounding behaves
        on these units as on the made-up ones of `gradients.rounding`, or by proof where the plan asks for it.
        """
        self._module.eval()  # no dropout: a record may change no other record's contribution
        if self.plan.rounding is Rounding.TESTED:
            self._test_rounding()
        self._meter.clear()
        for batch in self._batches(groups):
            self._accumulate(batch)
        if self._canaries is not None:
            self._canaries.add(self._engine, self._drawn_canaries)
        found = self._engine.take()
        if self.plan.clip_quantile is not None:
            self._count = short_count(found.norms, self._clip_norm)
        return found.gradients

    def draw(self) -> list[list[TokenArray]]:
        """The texts of the units that take part in this step."""
        if self._levels is not None:
            self._module.eval()
            self._levels.measure(self.position, self._norm_of)
        return self._units.texts_at(self._draw_places())

    def _norm_of(self, unit: int) -> float:
        """The norm of one unit's gradient, computed by itself; infinite where it has none."""
        (texts,) = self._units.gather([unit], self._randomness)
        tokens = [text.tolist() for text in texts]
        batch = TokenBatch.of_groups([tokens], self._units.start_token, device=str(_device(self._module)))
        try:
            return float(self._engine.norms(batch))
        except NonFiniteGradient:
            return math.inf

    def _draw_places(self) -> list[list[int]]:
        """The places of those texts, unit by unit."""
        source = self._randomness.child(f"sample {self.position}")
        if self._left == 0:
            self._round = self._next_round(source)
        drawn = self._round[-self._left]
        self._drawn_canaries = drawn[drawn >= len(self._units)] - len(self._units)
        records = drawn[drawn < len(self._units)]
        self._limits = None if self._levels is None else self._levels.limits(records)
        return self._units.choose(records.tolist(), source)

    def _next_round(self, source: Randomness) -> tuple[Indices, ...]:
        sampler = self.plan.sampler
        if sampler.bands is None:
            return sampler.draw_round(source)
        if self._places is None:  # once for a run, and again where the noise of earlier steps is forgotten
            self._places = sampler.places(self._randomness.child(f"places {self.position}"))
            if self._canaries is not None:
                self._canaries.place(self._places[len(self._units) :])
        return sampler.draw_round(source, self._places)

    def _batches(self, groups: list[list[TokenArray]]) -> Iterator[TokenBatch]:
        """The sample in micro-batches in which no record rounds another one differently."""
        is_proved = self.plan.rounding is Rounding.PROVED
        if is_proved or self._packs_closely:
            yield from micro_batches(
                groups,
                self._units.start_token,
                token_budget=1 if is_proved else self._computation.token_budget,  # 1: one by one
                device=str(_device(self._module)),
                limits=self._limits,
            )
            return
        read, budget = self._rounding.readable, self._computation.token_budget
        for batch in own_size_batches(
            groups,
            read.start_token,
            token_budget=budget,
            longest=read.longest,
            device=read.device,
            limits=self._limits,
        ):
            count = len(batch)
            while not self._rounding.allows(batch.split(count)[0]):
                count //= 2
            yield from batch.split(count)

    def _test_rounding(self) -> None:
        """Decide how batches are laid out, now and then; the weights are public and the test reads no text."""
        is_recent = self._tested_at is not None and self.position < self._tested_at + _STEPS_PER_TEST
        if is_recent and self._clip_norm >= self._tested_norm:
            return
        self._tested_at = self.position
        # A test holds for greater norms as well: one that may fall is tested further down, so that a test lasts.
        moves = self.plan.clip_quantile is not None
        self._tested_norm = self._clip_norm / 2 if moves else self._clip_norm
        limit = ROUNDING_ROOM / (SHARE * max(1.0, self.plan.normaliser))  # canaries are not computed in batches
        readable = Readable.by(self._module, self._units.start_token)
        self._rounding = RoundingTest(self._engine, readable, self._tested_norm, limit, reads_norms=moves)
        self._packs_closely = self._rounding.allows_close_packing()

    def _total(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The clipped sum of the whole step, from that of this process: the same where it is alone."""
        return gradients

    def _noisy_mean(self, total: dict[str, Tensor], receipt: Receipt) -> dict[str, Tensor]:
        """The total with fresh noise, normalised. Only after its charge, whose receipt says so."""
        fresh = self._randomness.child(f"noise {self._charge_of(receipt)}")
        if self._memory is not None:
            self._memory.begin(self.position - 1)  # the step that was just charged
        noisy = add_noise(total, self.plan.deviation_at(self._clip_norm), fresh, past=self._memory)
        if self._canaries is not None:
            self._canaries.read(noisy)
        return {name: gradient / self.plan.normaliser for name, gradient in noisy.items()}

    def _as_weights(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the optimiser reads: in float32, or in float64 where the weights are."""
        if self.plan.rounding is Rounding.TESTED:
            return values  # never wider than the weights
        kept = {name: parameter.dtype for name, parameter in self._module.named_parameters()}
        return {
            name: value if kept[name] is torch.float64 else value.to(torch.float32)
            for name, value in values.items()
        }

    def _accumulate(self, batch: TokenBatch) -> None:
        """Add a batch to the sum. A unit whose gradient is not finite contributes nothing, and nobody is told.

        To stop the run instead would tell the world something about one record.
        """
        try:
            self._engine.accumulate(batch)
        except NonFiniteGradient:
            for single in batch.split(1):
                with suppress(NonFiniteGradient):
                    self._engine.accumulate(single)

    def state(self) -> dict[str, Any]:
        """The ledger's place at the last step: a checkpoint must not be newer than its ledger.

        While steps are left also the noise that they will be correlated with, and the places of units in a cycle.
        A clip norm that moves is in it as well.
        """
        state = receipt_state(self._receipt)
        if self.plan.clip_quantile is not None:
            return state | {_CLIP_NORM: self._clip_norm}
        if self._memory is None or self._places is None or self.position >= self.steps:
            return state
        return state | self._memory.state() | {_PLACES: torch.from_numpy(self._places)}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint whose last charge stands in the ledger; what was charged since stays spent."""
        self._receipt = restored_receipt(state, self._ledger) or self._receipt
        if self.plan.clip_quantile is not None:
            NORM.require("the clip norm of the checkpoint", found := float(state[_CLIP_NORM]))
            self._clip_to(found)
        if self._memory is None:
            return
        kept = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        # With the noise of earlier steps units must stay where they were: else two of their columns overlap.
        self._places = kept[_PLACES].numpy() if self._memory.restore(kept) else None

    def __enter__(self) -> "PrivateGradients":
        self._engine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.__exit__(kind, error, trace)


class _LossMeter:
    """The per-record losses that the engine differentiates, and their mean for the operator's screen."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._sum, self._count = 0.0, 0

    def __call__(self, module: nn.Module, batch: TokenBatch) -> Tensor:
        losses = record_losses(module, batch)  # [B]
        self._sum += float(losses.detach().sum())
        self._count += int((batch.tokens > 0).sum())
        return losses

    def mean(self) -> float | None:
        return self._sum / self._count if self._count else None


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


def _own_levels(plan: DpSgd, log: LevelLog | None) -> OwnLevels | None:
    """The levels of the records, where the plan accounts for each by itself."""
    if plan.individual != (log is not None):
        raise UsageError("levels are kept where the plan accounts for each record, and nowhere else")
    if log is None:
        return None
    epoch = max(1, round(1.0 / plan.sampler.rate))
    return OwnLevels(plan.records, plan.clip_norm, epoch=epoch, log=log)


def _check_units(units: Units, planned: int) -> None:
    if len(units) != planned:
        raise UsageError(
            "the plan was made for another corpus",
            found=f"{len(units)} units",
            expected=f"{planned}",
            hint="make the plan from the number of records or owners of this corpus",
        )


def _check_canaries(canaries: GradientCanaries | None, planned: int) -> None:
    if (0 if canaries is None else len(canaries)) != planned:
        raise UsageError(
            "the plan was made for another number of canaries",
            found=0 if canaries is None else len(canaries),
            expected=f"{planned}",
            hint="make the plan with `plan.audited(canaries)`",
        )


def _check_ledger(ledger: Ledger, plan: DpSgd, randomness: Randomness) -> None:
    """Refuse a ledger that meters something else, and a seed that its guarantee does not confess."""
    budget = ledger.budget
    if budget.measure != MEASURE or budget.limit != plan.steps or tuple(ledger.accounts) != (TRAINING_ACCOUNT,):
        raise LedgerError(
            "the ledger does not meter this plan",
            found=f"{budget.limit:g} {budget.measure}",
            expected=f"{plan.steps} {MEASURE} on the account '{TRAINING_ACCOUNT}'",
            hint="open the ledger of this run",
        )
    if not randomness.protects and SEEDED not in budget.guarantee.assumes:
        raise UsageError(
            "noise from a seed protects nothing",
            hint="use Randomness.system(), or plan.budget(is_seeded=True) for an experiment that says so",
        )
