"""The n-gram models of RDP-reconstruction, section 4.1: thousands of them trained at once on one canary of digits.

Only the parameters along the canary matter, θ [T, D] per model; the others are other branches of the tree. The loss
is −Σ_t log softmax(θ_t)[c_t], the sampling rate 1, the rate of learning 0.5/σ, θ = 0 at the start. A step is

    θ ← θ − (0.5/σ) (clip(∇) + σ C z),   z standard Gaussian [T, D]

The gradient is clipped either as **one record**, ‖∇‖ ≤ C over all T·D entries, which is what the guarantee speaks
of, or at **each position** as if it were a record of its own. Then the canary moves the sum by up to √T C, and a
bound computed for C is not proved. Both are here so that the difference can be measured.

Parameters are float32, as in the paper; what is reported of them is summed in float64. No noise here protects
anything. The problem is the same for every canary (digits may be renamed): it is all zeros here, and p0 = D^−T.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reticent.core import Randomness

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
_BLOCK: Final = 500  # models at once: θ, its gradient and the noise stay in the processor's cache


class Clipping(StrEnum):
    """What is clipped to the norm C."""

    RECORD = "the canary as one record"
    POSITION = "each position as a record"


@dataclass(frozen=True, slots=True, kw_only=True)
class DigitTraining:
    """How every model is trained on the canary of `length` digits."""

    noise_multiplier: float
    clipping: Clipping
    steps: int = 1
    length: int = 10
    digits: int = 10
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        # A step moves θ by at most (0.5/σ) C for the gradient and 0.5 C z for the noise: exp must not overflow.
        reach = self.steps * self.clip_norm * (0.5 / self.noise_multiplier + 3.5)
        if not reach < 80.0:
            raise ValueError(f"these models leave the range of float32: |θ| up to {reach:.0f}")

    @property
    def log_prior(self) -> float:
        """log p0: the chance of the canary under a model that never saw it."""
        return -self.length * math.log(self.digits)


def canary_log_probs(training: DigitTraining, count: int, *, randomness: Randomness) -> Floats:
    """log f_θ(canary) of `count` models trained independently: [count]."""
    draw = gaussian_filler(randomness)
    blocks = [min(_BLOCK, count - start) for start in range(0, count, _BLOCK)]
    return np.concatenate([_train_block(training, size, draw) for size in blocks])


def gaussian_filler(randomness: Randomness) -> Callable[[Singles], None]:
    """Fills an array with standard Gaussians, by torch: its vectorised draw costs a third of numpy's."""
    import torch

    generator = torch.Generator().manual_seed(randomness.fresh_seed())

    def fill(array: Singles) -> None:
        torch.from_numpy(array).normal_(generator=generator)

    return fill


def _train_block(training: DigitTraining, count: int, draw: Callable[[Singles], None]) -> Floats:
    """[N] of one block. Digits stand first, so that sums over them run along whole rows of models: [D, N·T]."""
    shape = (training.digits, count * training.length)
    first = np.zeros((training.digits, training.length), dtype=np.float32)
    _descent(first.copy(), first, training)
    # Before the first step all models and all positions are alike: one descent serves them all.
    theta = np.broadcast_to(-first[:, :1], shape).copy()
    noise, chances = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
    for step in range(training.steps):
        if step > 0:
            _descent(theta, chances, training)
            theta -= chances
        draw(noise)
        noise *= 0.5 * training.clip_norm  # the rate of learning 0.5/σ times σ C
        theta -= noise
    _softmax(theta, chances)
    return np.asarray(np.log(chances[0].astype(np.float64)).reshape(count, training.length).sum(axis=1))


def _descent(theta: Singles, out: Singles, training: DigitTraining) -> None:
    """Rate of learning times the clipped gradient at θ [D, N·T], into `out`."""
    _softmax(theta, out)
    out[0] -= 1.0  # now the gradient
    out *= (0.5 / training.noise_multiplier) * _clip_factors(out, training)


def _softmax(theta: Singles, out: Singles) -> None:
    """Chances of the digits [D, n] into `out`. θ stays within a few units of 0: nothing overflows."""
    np.exp(theta, out=out)
    out *= 1.0 / out.sum(axis=0)


def _clip_factors(gradient: Singles, training: DigitTraining) -> Singles:
    """By how much each column of a gradient [D, N·T] is scaled down: [N·T]."""
    squares = np.einsum("dn,dn->n", gradient, gradient)
    if training.clipping is Clipping.RECORD:
        records = squares.reshape(-1, training.length).sum(axis=1)
        squares = np.repeat(records, training.length)
    return np.asarray(1.0 / np.maximum(1.0, np.sqrt(squares) / training.clip_norm), dtype=np.float32)


def log_mean(log_values: Floats) -> float:
    """log of the mean of exp: p1 is a mean over models, and the mean of logarithms understates it."""
    return float(np.logaddexp.reduce(log_values)) - math.log(len(log_values))
