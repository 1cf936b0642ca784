"""Per-record gradients of a model, clipped and summed, at nearly the price of plain training.

    with PerRecordGradients(module, clip_norm=1.0) as engine:
        for micro_batch in batch.split(16):
            engine.accumulate(micro_batch)
        step = engine.take()                      # ClippedSum: gradients by name, norms [B]

One forward, one backward for activations alone, norms from what both left behind, then one weighted product per
parameter (book-keeping: Bu et al. 2023; see `contribution`, `layer_rules`, `tape`). The first batch is computed a
second time, record by record, by plain autograd, and a model for which the two disagree is refused (`self_check`).

No noise, no normaliser, no optimiser: those are the plan's. While attached, the model's parameters do not require
gradients, so a backward of one's own finds none, and freed memory stays with the process (`kept_memory`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

import torch
from torch import Tensor, nn

from reticent.core.errors import UsageError
from reticent.training.gradients.clipping import ClippedSum, clip_factors
from reticent.training.gradients.contribution import Contribution, GramCache, ParameterGradient
from reticent.training.gradients.kept_memory import give_back, keep_freed_memory
from reticent.training.gradients.record_loss import TokenBatch, record_losses
from reticent.training.gradients.self_check import CHECKED_RECORDS, Unclipped, compare_with_plain_autograd
from reticent.training.gradients.tape import Tape, exact_products

Losses = Callable[[nn.Module, TokenBatch], Tensor]


class PerRecordGradients:
    """Attaches to a module on entry and leaves it as it was on exit.

    `losses` gives one loss per record [B]. `compute_dtype` runs forward and backward under autocast; norms and
    sums stay in float32. `is_checked` False leaves out the self check: for measurements only. `recomputes` keeps
    the activations of no block and computes them again, twice: the same sums in less memory and more time.
    `is_bounded` makes norms and sums in float64, so that their rounding has a proved bound (`rounding_bound`).
    """

    def __init__(
        self,
        module: nn.Module,
        clip_norm: float,
        *,
        losses: Losses = record_losses,
        compute_dtype: torch.dtype | None = None,
        is_checked: bool = True,
        recomputes: bool = False,
        is_bounded: bool = False,
    ) -> None:
        if not 0.0 < clip_norm < math.inf:
            raise UsageError("clip_norm bounds what one record can do", found=clip_norm, expected="0 < C < inf")
        self._module = module
        self._clip_norm = clip_norm
        self._losses = losses
        self._compute_dtype = compute_dtype
        self._awaits_check = is_checked
        self._recomputes = recomputes
        self._is_bounded = is_bounded
        self._tape: Tape | None = None
        self._sums: dict[str, Tensor] = {}
        self._norms: list[Tensor] = []

    def __enter__(self) -> "PerRecordGradients":
        if self._tape is not None:
            raise UsageError("the engine is attached already")
        self._tape = Tape(self._module, recomputes=self._recomputes, is_bounded=self._is_bounded)
        keep_freed_memory()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sums, self._norms = {}, []
        if self._tape is not None:
            self._tape.detach()
            self._tape = None
            give_back()

    def clip_to(self, clip_norm: float) -> None:
        """Clip to another norm from here on; not in the middle of a sum, whose records share one."""
        if self._norms:
            raise UsageError("the clip norm of a sum cannot change", hint="take the sum first")
        if not 0.0 < clip_norm < math.inf:
            raise UsageError("clip_norm bounds what one record can do", found=clip_norm, expected="0 < C < inf")
        self._clip_norm = clip_norm

    def accumulate(self, batch: TokenBatch) -> Tensor:
        """Add the clipped gradients of a (micro-)batch to the running sum; its norms [B] before clipping.

        Guarantee: each record moves the running sum by at most `clip_norm`, and by at most its own limit where the
        batch has limits, however many others are in the batch and however the batch is split; an empty batch adds
        nothing.
        """
        tape = self._attached()
        if not len(batch):
            return torch.zeros(0)
        if self._awaits_check:
            self._check(batch)
        try:
            squares, losses = self._pass(batch, self._clip_norm, into=self._sums)
        finally:
            tape.reset()
        norms = _norms(squares, losses)
        self._norms.append(norms)
        return norms

    def norms(self, batch: TokenBatch) -> Tensor:
        """Norms [B] of a batch's gradients in float64, added to nothing; not finite where a gradient is not."""
        try:
            squares, _ = self._squares(batch)
        finally:
            self._attached().reset()
        return squares.sqrt()

    def accumulate_given(self, name: str, rows: Tensor, uses: Sequence[Contribution]) -> Tensor:
        """Add units whose gradients are given, as uses of some rows [R] of one matrix, to the running sum.

        `uses` are those of a matrix [R, q] that holds these rows alone. Returns the norms [B] before clipping.

        Guarantee: each moves the running sum by at most `clip_norm`: norms, factors and sums are those of records.
        """
        parameter = self._attached().parameters[name]
        gradient = ParameterGradient(torch.Size((len(rows), parameter.shape[1])))
        with exact_products(parameter.device):
            for use in uses:
                gradient.add(use)
            gradient.arrange()
            norms = gradient.squared_norms(GramCache()).sqrt().float()
            summed = gradient.clipped_sum(clip_factors(norms, self._clip_norm))  # [R, q]
        if name not in self._sums:
            self._sums[name] = _zeros(parameter, torch.float32)
        total = self._sums[name]
        # Rows alone, and in place: a wider copy of a whole matrix costs more than all of its canaries.
        total.index_add_(0, rows.to(total.device), summed.to(total))
        self._norms.append(norms)
        return norms

    @property
    def is_full_precision(self) -> bool:
        """Whether forward and backward are computed in float32 or better, products included."""
        tape = self._attached()
        weights = {parameter.dtype for parameter in tape.module.parameters()}
        is_narrowed = self._compute_dtype is not None or torch.get_float32_matmul_precision() != "highest"
        return not is_narrowed and weights <= {torch.float32, torch.float64}

    def try_out(
        self, batch: TokenBatch, *, among: Sequence[int], clip_norm: float
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared norms [B] in float64 of a batch, and the clipped sum of some of its records, added to nothing."""
        chosen = torch.zeros(len(batch), device=batch.inputs.device)
        chosen[list(among)] = 1.0
        sums: dict[str, Tensor] = {}
        try:
            squares, _ = self._pass(batch, clip_norm, into=sums, weights=chosen)
        finally:
            self._attached().reset()
        return squares, sums

    def take(self) -> ClippedSum:
        """The sum over all batches since the last call, zeros where there was none; starts a new one."""
        tape = self._attached()
        gradients = {}
        for name, parameter in tape.parameters.items():
            found = self._sums.get(name)
            is_wide = self._is_bounded or parameter.dtype is torch.float64
            dtype = torch.float64 if is_wide else torch.float32
            gradients[name] = _zeros(parameter, dtype) if found is None else found.to(dtype)
        norms = torch.cat(self._norms) if self._norms else torch.zeros(0)
        self._sums, self._norms = {}, []
        return ClippedSum(gradients, norms)

    def clipped_sum(self, batch: TokenBatch) -> ClippedSum:
        """`accumulate` and `take` in one."""
        self.accumulate(batch)
        return self.take()

    def _attached(self) -> Tape:
        if self._tape is None:
            raise UsageError("the engine is not attached", hint="use it in a with statement")
        return self._tape

    def _pass(
        self, batch: TokenBatch, clip_norm: float, *, into: dict[str, Tensor], weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Squared norms [B] in float64 and losses [B] of a batch, its clipped sum added to `into`.

        Micro-batches are added up in float64, so that the rounding of a step does not grow with their number.
        """
        squares, losses = self._squares(batch)
        factors = clip_factors(_norms(squares, losses), clip_norm, batch.limits)
        factors = factors if weights is None else factors * weights
        for name, summed in self._attached().clipped_sums(factors):
            into[name] = into[name].double().add_(summed) if name in into else summed
        return squares, losses

    def _squares(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Squared norms [B] in float64 and losses [B] of a batch; the tape holds what its sums need."""
        tape = self._attached()
        tape.reset()
        device, dtype = batch.inputs.device.type, self._compute_dtype
        with torch.enable_grad(), torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            losses = self._losses(self._module, batch)
        if losses.shape != (len(batch),):
            shape = tuple(losses.shape)
            raise UsageError("one loss per record is needed", found=shape, expected=f"({len(batch)},)")
        return tape.backward(losses, rows_per_record=batch.rows_per_record), losses.detach()

    def _check(self, batch: TokenBatch) -> None:
        """Compare a few records with plain autograd, until a batch was large enough to show mixing."""
        tape, before = self._attached(), self._compute_dtype
        modes = {layer: layer.training for layer in self._module.modules()}
        lengths = batch.tokens.tolist()
        order = sorted(range(len(batch)), key=lambda record: lengths[record])
        few = batch.select(sorted({order[-1], order[0], order[len(order) // 2]})[:CHECKED_RECORDS])
        few = replace(few, limits=None)
        self._module.eval()  # no dropout: both computations must be of the same function
        self._compute_dtype = None
        try:
            sums: dict[str, Tensor] = {}
            squares, losses = self._pass(few, math.inf, into=sums)
            tape.reset()
            with tape.plain():
                ours = Unclipped(losses, squares.sqrt(), sums)
                compare_with_plain_autograd(self._module, self._losses, few, ours=ours, parameters=tape.parameters)
        finally:
            tape.reset()
            self._compute_dtype = before
            for layer, mode in modes.items():
                layer.training = mode
        self._awaits_check = len(few) < 2


def _norms(squares: Tensor, losses: Tensor) -> Tensor:
    """Norms [B] in the precision that sums are made in."""
    return squares.sqrt().to(torch.float64 if losses.dtype is torch.float64 else torch.float32)


def _zeros(parameter: nn.Parameter, dtype: torch.dtype) -> Tensor:
    """Whole, where the parameter itself is sharded."""
    return torch.zeros(parameter.shape, dtype=dtype, device=parameter.device)
