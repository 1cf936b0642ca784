"""Does the engine see what autograd sees? A few records of the first batch, each alone, by plain autograd.

It finds what no look at the layers can: a weight that is used outside of its layer's call (`F.linear(x, w)`), a
layer whose rule is wrong, a tie without its cross term, a loss that depends on the other records of the batch, a
forward that mixes records. It compares numbers on one batch; it is a safeguard, not a proof.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from reticent.core.errors import ModelError
from reticent.training.gradients.record_loss import TokenBatch

CHECKED_RECORDS: Final = 3
# Relative difference that rounding may cause. A gradient that is zero in theory (the bias of attention keys) is
# rounding alone, so differences are also allowed this share of the whole gradient:
_TOLERANCE: Final = {torch.float64: 1e-6, torch.float32: 1e-3}
_HALF_TOLERANCE: Final = 0.1
_SHARE_OF_WHOLE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Unclipped:
    """What the engine computed without clipping: losses [B], norms [B], and sums by name."""

    losses: Tensor
    norms: Tensor
    sums: dict[str, Tensor]


def compare_with_plain_autograd(
    module: nn.Module,
    losses_of: Callable[[nn.Module, TokenBatch], Tensor],
    batch: TokenBatch,
    *,
    ours: Unclipped,
    parameters: dict[str, nn.Parameter],
) -> None:
    """Raise ModelError, naming parameters, where the engine and one-record-at-a-time autograd differ."""
    dtype = next(iter(parameters.values())).dtype
    tolerance = _TOLERANCE.get(dtype, _HALF_TOLERANCE)
    sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    norms = []
    for record in range(len(batch)):
        with torch.enable_grad():
            loss = losses_of(module, batch.select([record])).sum()
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        if not _is_close(float(ours.losses[record]), float(loss.detach()), tolerance):
            raise ModelError(
                "a record's loss depends on the other records of its batch",
                hint="use record_losses, never the model's own batch-mean loss; replace layers that mix records",
            )
        square = 0.0
        for name, gradient in zip(parameters, found, strict=True):
            if gradient is not None:
                sums[name] += gradient
                square += float(gradient.double().square().sum())
        norms.append(square**0.5)
    _compare_sums(ours.sums, sums, tolerance)
    if not all(_is_close(float(a), b, tolerance) for a, b in zip(ours.norms, norms, strict=True)):
        raise ModelError(
            "per-record gradient norms differ from those of plain autograd, though their sum agrees",
            hint="a layer mixes records in a way the per-record rules do not know; freeze or replace it",
        )


def _compare_sums(ours: dict[str, Tensor], truth: dict[str, Tensor], tolerance: float) -> None:
    whole = sum(float(gradient.square().sum()) for gradient in truth.values()) ** 0.5
    wrong = []
    for name, expected in truth.items():
        found = ours[name].double() if name in ours else torch.zeros_like(expected)
        allowed = tolerance * (float(expected.norm()) + _SHARE_OF_WHOLE * whole) + torch.finfo(torch.float32).tiny
        if not float((found - expected).norm()) <= allowed:
            wrong.append(name)
    if wrong:
        raise ModelError(
            "per-record gradients differ from plain autograd",
            found=", ".join(wrong[:8]) + (f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""),
            hint="either a weight is used outside of its layer's call, as in F.linear(x, weight): call the layer, "
            "tie the modules' weights, or freeze the parameter; or a layer mixes records: replace it",
        )


def _is_close(found: float, expected: float, tolerance: float) -> bool:
    return abs(found - expected) <= tolerance * abs(expected) + 1e-12
