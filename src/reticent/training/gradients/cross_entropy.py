"""Cross entropy of every token, whose gradient is made beside the loss while the logits are in the cache.

    loss = log Σ_v exp z_v − z_y          gradient = softmax(z) − onehot(y)

torch's own keeps log-probabilities for the backward and then needs two more arrays of their size: three arrays
[tokens, vocabulary], the peak of a training step where the vocabulary is large. Here it is two: the gradient of the
losses by themselves is kept, and the backward weighs it. The logits themselves are free before the backward.

What it does not do: second derivatives, and devices other than processors, where torch's own is used.
"""

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_BLOCK: Final = 1 << 17  # logits at once: half a megabyte of float32


def cross_entropy(logits: Tensor, targets: Tensor, *, ignored: int) -> Tensor:
    """Losses [N] of targets [N] by logits [N, V]; 0 where a target is `ignored`.

    A row's loss and gradient depend on that row alone, to the last bit.
    """
    if logits.device.type != "cpu" or not (torch.is_grad_enabled() and logits.requires_grad):
        return functional.cross_entropy(logits, targets, ignore_index=ignored, reduction="none")
    losses: Tensor = _CrossEntropy.apply(logits, targets, ignored)  # type: ignore[no-untyped-call]
    return losses


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
        is_scored = targets != ignored  # [N]
        places = targets.masked_fill(~is_scored, 0).unsqueeze(1)  # [N, 1]
        gradient, losses = torch.empty_like(logits), logits.new_empty(len(logits))
        step = max(1, _BLOCK // logits.shape[1])
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            block, softmax = logits[rows], gradient[rows]
            torch.softmax(block, 1, out=softmax)
            # log Σ exp z = max z − log max softmax; the difference of logits comes first, as it is the larger part.
            difference = block.amax(1) - block.gather(1, places[rows]).squeeze(1)
            losses[rows] = difference - softmax.amax(1).log()
        gradient.scatter_add_(1, places, gradient.new_full((1, 1), -1.0).expand_as(places))
        ctx.save_for_backward(gradient, is_scored)
        return losses.masked_fill_(~is_scored, 0.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None, None]:
        gradient, is_scored = ctx.saved_tensors
        return (
            gradient * weights.masked_fill(~is_scored, 0.0).unsqueeze(1),
            None,
            None,
        )  # kept for a second backward
