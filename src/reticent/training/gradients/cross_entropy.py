"""Cross entropy of every token, whose gradient is made beside the loss while the logits are in the cache.

    loss = log Σ_v exp z_v − z_y          gradient = softmax(z) − onehot(y)

torch's own keeps log-probabilities for the backward and then needs two more arrays of their size: three arrays
[tokens, vocabulary], the peak of a training step where the vocabulary is large. Here it is two, the logits and the
gradient of the losses, which are weighed as they are made: where what comes back is one for every loss, that
gradient is handed on as it is. The logits themselves are free before the backward.

What it does not do: second derivatives, and devices other than processors, where torch's own is used.
"""

from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_BLOCK: Final = 1 << 17  # logits at once: half a megabyte of float32


def cross_entropy(logits: Tensor, targets: Tensor, *, ignored: int, weights: Tensor | None = None) -> Tensor:
    """Losses [N] of targets [N] by logits [N, V], each times its weight [N] if there are any; 0 where `ignored`.

    A row's loss and gradient depend on that row alone, to the last bit. Weights get no gradient.
    """
    if logits.device.type != "cpu" or not (torch.is_grad_enabled() and logits.requires_grad):
        losses = functional.cross_entropy(logits, targets, ignore_index=ignored, reduction="none")
        return losses if weights is None else losses * weights
    weighed: Tensor = _CrossEntropy.apply(logits, targets, ignored, weights)  # type: ignore[no-untyped-call]
    return weighed


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, ignored: int, weights: Tensor | None) -> Tensor:
        is_scored = targets != ignored  # [N]
        places = targets.masked_fill(~is_scored, 0).unsqueeze(1)  # [N, 1]
        shares = logits.new_ones(len(logits)) if weights is None else weights.to(logits)
        shares = shares.masked_fill(~is_scored, 0.0).unsqueeze(1)  # [N, 1]
        minus_one = logits.new_full((1, 1), -1.0)
        gradient, losses = torch.empty_like(logits), logits.new_empty(len(logits))
        step = max(1, _BLOCK // logits.shape[1])
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            block, softmax = logits[rows], gradient[rows]
            torch.softmax(block, 1, out=softmax)
            # log Σ exp z = max z − log max softmax; the difference of logits comes first, as it is the larger part.
            difference = block.amax(1) - block.gather(1, places[rows]).squeeze(1)
            losses[rows] = difference - softmax.amax(1).log()
            softmax.scatter_add_(1, places[rows], minus_one.expand(len(softmax), 1)).mul_(shares[rows])
        ctx.save_for_backward(gradient)
        return losses.masked_fill_(~is_scored, 0.0).mul_(shares.squeeze(1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, factors: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        # Kept for a second backward, so that it is never weighed in place.
        weighed = gradient if bool((factors == 1.0).all()) else gradient * factors.unsqueeze(1)
        return weighed, None, None, None
