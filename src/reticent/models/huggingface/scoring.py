"""Log-probabilities of given tokens, from logits, in bounded memory.

    log p(x_t | x_<t) = log_softmax(logits_{t−1})[x_t]

computed as x − max − log Σ exp(x − max) in float32 (float64 for float64 models), which is never above 0, for the
chosen token alone and a few rows at a time. Long rows are read in pieces through the cache, so that the logits of
one forward stay within `batching.LOGIT_BYTES`.
"""

from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.errors import ModelError
from reticent.models.huggingface.batching import LOGIT_BYTES
from reticent.models.huggingface.stream import Stream

T = TypeVar("T", bound=np.floating)

_PIECE: Final = 2**21  # logits per log-softmax: a piece that stays in a processor's cache


def exact_log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Log-pmfs [..., V] in float64, on the CPU where the device has no float64."""
    rows = logits.float().cpu() if logits.device.type == "mps" else logits
    return torch.log_softmax(rows.double(), dim=-1)


def target_log_probs(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """log-softmax of `logits` [n, t, V] at `targets` [n, t], as [n, t]; float32 at least."""
    rows = logits.reshape(-1, logits.shape[-1])
    chosen = targets.reshape(-1)
    precision = torch.float64 if rows.dtype == torch.float64 else torch.float32
    step = max(1, _PIECE // rows.shape[1])
    pieces = [
        torch.nn.functional.cross_entropy(piece.to(precision), wanted, reduction="none")
        for piece, wanted in zip(torch.split(rows, step), torch.split(chosen, step), strict=True)
    ]
    return -torch.cat(pieces).reshape(targets.shape)


def score(stream: Stream, inputs: torch.Tensor, targets: torch.Tensor, *, vocabulary_size: int) -> Floats:
    """log p of `targets` [n, T], each after the inputs [n, T] up to its column, as a float64 [n, T] array."""
    at_once = max(1, LOGIT_BYTES // (4 * vocabulary_size * inputs.shape[0]))
    scored = []
    for start in range(0, inputs.shape[1], at_once):
        columns = slice(start, start + at_once)
        logits = stream.advance(inputs[:, columns], is_last=start + at_once >= inputs.shape[1])
        scored.append(target_log_probs(logits, targets[:, columns]))
    result: Floats = torch.cat(scored, dim=1).cpu().double().numpy()
    return finite(result)


def finite(log_probs: NDArray[T]) -> NDArray[T]:
    """The array itself, refused where the model computed NaN: a score that is not one must not travel on."""
    if np.isnan(log_probs).any():
        raise ModelError(
            "the model computes log-probabilities that are not numbers",
            hint="load it with dtype 'float32'; if that does not help, its weights are damaged",
        )
    return log_probs


def public_is_finite(log_probs: NDArray[T]) -> NDArray[T]:
    """Look-ups [..., 1 + rows, V] themselves, refused where the public row is not made of numbers.

    A private row that is broken is left as it is: to refuse it would tell something of that part. Mechanisms put
    the public row in its place.
    """
    finite(log_probs[..., 0, :])
    return log_probs
