"""Clip factors, the clipped sum of a batch, and its noise: the three places where DP-SGD's sensitivity lives.

    g̃ = Σ_b min(1, C / ‖g_b‖) g_b + N(0, (σC)²)            Abadi et al. 2016, algorithm 1

The sum of an add-remove neighbour differs by at most C. It is not divided by anything here: the normaliser is a
public constant of the plan, never the size of the batch that was drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from reticent.core.errors import ModelError
from reticent.core.randomness import Randomness

_MARGIN = 8.0  # of the machine's precision: products and sums after the clip factor are rounded too


class NonFiniteGradient(ModelError):
    """A record's gradient holds an infinity or no number; nothing of its batch was added to any sum."""


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The clipped per-record gradients of all records of a step, summed, without noise: private data still.

    `gradients` has every trainable parameter by its name; `norms` [B] are those before clipping.
    """

    gradients: dict[str, Tensor]
    norms: Tensor

    @property
    def records(self) -> int:
        """How many records were summed. As private as the batch: never a normaliser."""
        return int(self.norms.shape[0])

    def __repr__(self) -> str:
        return f"ClippedSum({len(self.gradients)} parameters, {self.records} records)"


def clip_factors(norms: Tensor, clip_norm: float) -> Tensor:
    """min(1, C/‖g_b‖) of every record [B], in the precision of the norms.

    Guarantee: factor × norm never passes C, for the rounding of the factor and of what it multiplies included.
    """
    if not clip_norm > 0:
        raise ValueError(f"clip_norm must be above 0, found {clip_norm}")
    broken = int((~torch.isfinite(norms)).sum())
    if broken:
        raise NonFiniteGradient(
            "a gradient is not finite",
            found=f"{broken} of {norms.shape[0]} records",
            hint="lower the learning rate, or compute in float32",
        )
    limits = torch.finfo(norms.dtype)
    bound = clip_norm * (1.0 - _MARGIN * limits.eps)
    return (bound / norms.clamp_min(limits.tiny)).clamp(max=1.0)


def add_noise(
    gradients: Mapping[str, Tensor], standard_deviation: float, randomness: Randomness
) -> dict[str, Tensor]:
    """Independent Gaussian noise of this standard deviation (σ × C) on every entry of every parameter.

    Guarantee: with `Randomness.system()` the noise is fresh on every call and no seed can reproduce it.
    """
    if not standard_deviation >= 0:
        raise ValueError(f"the standard deviation must be at least 0, found {standard_deviation}")
    noisy = {}
    for name, gradient in gradients.items():
        noise = torch.from_numpy(randomness.normal(tuple(gradient.shape))).mul_(standard_deviation)
        noisy[name] = gradient + noise.to(device=gradient.device, dtype=gradient.dtype)
    return noisy
