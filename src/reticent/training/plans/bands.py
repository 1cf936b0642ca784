"""Correlated noise: banded matrix factorisation (BandMF), by the first column of a Toeplitz matrix.

    noise = C⁻¹z      C lower triangular with c_0 … c_{b−1} on its b bands, Σ c_j² = 1, z independent Gaussians
    y_t = (z_t − Σ_{j≥1} c_j y_{t−j}) / c_0

What moves the weights is the sum of all gradients so far, so noise that a step adds should be taken back by the
next ones. The coefficients make the mean square of the noise in those sums least,

    error(c)² = Σ_t (T − t) s_t² / T · Σ c_j²,       s the series of 1 / ((1 − x) · c(x))

starting from (1 − x)^{−1/2}, cut after b terms. One band is independent noise. Releasing C·gradients + z is the
same as releasing gradients + C⁻¹z. A unit moves it by a column of C at each step it takes part in: by 1 at most,
and where these steps are b apart the columns do not overlap. So a run costs what its cycles of b steps cost as
sampled Gaussians (Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to
private training", on amplification by sampling).
"""

import math
from functools import cache
from typing import Final

import numpy as np

from reticent.core.arrays import Floats
from reticent.core.errors import ConfigError

_HEADROOM: Final = 1e-9  # by which a column is shorter than 1: rounding must not lengthen it


@cache
def coefficients(bands: int, steps: int) -> tuple[float, ...]:
    """c_0 … c_{b−1} of the matrix for so many steps.

    Guarantee: the square root of the sum of their squares is at most 1, and c_0 is positive.
    """
    if not 1 <= bands <= steps:
        raise ConfigError("noise can be correlated over at least 1 step and at most all steps", found=bands)
    if bands == 1:
        return (1.0,)
    from scipy.optimize import minimize

    def objective(rest: Floats) -> float:
        return math.log(_error(np.array([1.0, *rest]), steps))

    found = minimize(objective, _root(bands)[1:])
    column = np.array([1.0, *found.x])
    return tuple((column / (np.linalg.norm(column) * (1.0 + _HEADROOM))).tolist())


def prefix_error(bands: int, steps: int) -> float:
    """Root mean square, over steps, of the noise in the sum of all gradients so far, for z of deviation 1."""
    if bands == 1:  # in closed form: a run may have hundreds of millions of steps
        return math.sqrt(0.5 * (steps + 1))
    return _error(np.array(coefficients(bands, steps)), steps)


def noise_of_a_step(bands: int, steps: int) -> float:
    """Root mean square of the noise on a single gradient, for z of deviation 1."""
    if bands == 1:
        return 1.0
    series = _inverse(np.array(coefficients(bands, steps)), steps)
    return math.sqrt(float(np.sum((steps - np.arange(steps)) * series**2)) / steps)


def _error(column: Floats, steps: int) -> float:
    sums = np.cumsum(_inverse(column, steps))  # [steps]
    return math.sqrt(float(np.sum((steps - np.arange(steps)) * sums**2)) / steps) * float(np.linalg.norm(column))


def _inverse(column: Floats, steps: int) -> Floats:
    """The first column [steps] of the inverse of the Toeplitz matrix with this first column."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], column, np.eye(1, steps)[0]), dtype=np.float64)


def _root(bands: int) -> Floats:
    """The first coefficients of (1 − x)^{−1/2}."""
    return np.cumprod(np.array([1.0, *((2 * j - 1) / (2 * j) for j in range(1, bands))]))
