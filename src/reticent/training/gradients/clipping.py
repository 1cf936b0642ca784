"""Clip factors, the clipped sum of a batch, its count of short gradients, noise: where DP-SGD's sensitivity lives.

    g̃ = Σ_b min(1, C / ‖g_b‖) g_b + N(0, (σC)²)            Abadi et al. 2016, algorithm 1

The sum of an add-remove neighbour differs by at most C. It is not divided by anything here: the normaliser is a
public constant of the plan, never the size of the batch that was drawn.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reticent.core.errors import ModelError
from reticent.core.noise.gaussian import Exact, on_grid
from reticent.core.randomness import Randomness
from reticent.training.gradients.correlated import NoiseMemory
from reticent.training.plans.adaptive_norm import GREATEST_VOTE

_GRID_BITS = 18  # the grid is 2^-18 of the noise: float32 holds it exactly up to 64 standard deviations
_BLOCK = 1 << 16  # entries of a gradient that get correlated noise at once, or of small gradients that share a draw
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


def clip_factors(norms: Tensor, clip_norm: float, limits: Tensor | None = None) -> Tensor:
    """min(1, C/‖g_b‖) of every record [B], in the precision of the norms; C is at most the record's limit.

    Guarantee: factor × norm never passes C nor the limit, for the rounding of the factor and of what it multiplies
    included.
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
    precision = torch.finfo(norms.dtype)
    most = clip_norm if limits is None else limits.to(norms).clamp(max=clip_norm)  # [B]
    bound = most * (1.0 - _MARGIN * precision.eps)
    return (bound / norms.clamp_min(precision.tiny)).clamp(max=1.0)


def short_count(norms: Tensor, clip_norm: float) -> Tensor:
    """How many of these units [B] have gradients shorter than the clip norm, less half of them, smoothed; float64.

    Guarantee: a unit moves it by at most ½, and a change of its norm by δ by at most δ / C.
    """
    votes = 1.0 - norms.detach().cpu().double() / clip_norm  # [B]
    return votes.clamp(-GREATEST_VOTE, GREATEST_VOTE).sum()


def add_noise(
    gradients: Mapping[str, Tensor],
    standard_deviation: float,
    randomness: Randomness,
    *,
    past: NoiseMemory | None = None,
) -> dict[str, Tensor]:
    """Gaussian noise of this standard deviation (σ × C) on every entry of every parameter.

    It is independent, unless there is a `past` that it is correlated with (`gradients.correlated`).

    The sum is made in float64 and rounded to a public grid before it is cast: a float32 sum of a float32 gradient
    and float32 noise lies on a grid of its own for every gradient, and so tells which gradients are impossible
    (Mironov 2012; Haney et al. 2022). Rounding afterwards is post-processing.

    Guarantee: with `Randomness.system()` the noise is fresh on every call and no seed can reproduce it; up to the
    resolution of float64 (2^-34 of a grid cell) what is returned is a function of gradient + noise alone.
    """
    if not standard_deviation >= 0:
        raise ValueError(f"the standard deviation must be at least 0, found {standard_deviation}")
    if standard_deviation == 0.0:
        return {name: gradient.detach().clone() for name, gradient in gradients.items()}
    grid = 2.0 ** (math.floor(math.log2(standard_deviation)) - _GRID_BITS)
    if past is not None and not past.reach:  # one band: independent noise
        past = None
    made: dict[str, Tensor] = {}
    for names in _draws(gradients) if past is None else [[name] for name in gradients]:
        some = [gradients[name] for name in names]
        flat = [gradient.detach().reshape(-1) for gradient in some]
        row = flat[0] if len(flat) == 1 else torch.cat(flat)  # [n]
        exact = (row.cpu() if row.dtype in (torch.float32, torch.float64) else row.cpu().double()).numpy()
        if past is None:
            noisy = randomness.noisy(exact, standard_deviation, grid=grid)
        else:
            noisy = _with_past(names[0], exact, standard_deviation, randomness, past, grid=grid)
        rows = torch.split(torch.from_numpy(noisy).to(row), [gradient.numel() for gradient in some])
        made |= {name: each.view_as(gradients[name]) for name, each in zip(names, rows, strict=True)}
    return made


def _draws(gradients: Mapping[str, Tensor]) -> list[list[str]]:
    """Names of gradients that share a draw: small neighbours do, since starting a draw costs more than they do."""
    draws: list[list[str]] = []
    room, kind = 0, None
    for name, gradient in gradients.items():
        if gradient.numel() > room or (gradient.dtype, gradient.device) != kind:
            draws.append([])
            room, kind = _BLOCK, (gradient.dtype, gradient.device)
        draws[-1].append(name)
        room -= gradient.numel()
    return draws


def _with_past(
    name: str, exact: Exact, standard_deviation: float, randomness: Randomness, past: NoiseMemory, *, grid: float
) -> Exact:
    """A gradient [n] with noise that is correlated with that of the steps before, rounded to the grid."""
    noisy = np.empty_like(exact)
    for start in range(0, len(exact), _BLOCK):
        block = slice(start, start + _BLOCK)
        fresh = torch.from_numpy(randomness.normal(len(exact[block]))).mul_(standard_deviation)
        noise = past.correlated(fresh, name, block, size=len(exact)).numpy()
        on_grid(noise, exact[block], 1.0, grid, noisy[block])
    return noisy
