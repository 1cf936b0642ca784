"""Membership by shadow models: the target's score compared with those of models trained with and without the text.

    LiRA online    log N(φ; μ_in, σ_in) − log N(φ; μ_out, σ_out)                       Carlini et al. 2022
    RMIA           share of population texts z with  p(x|θ)/p(x) ≥ γ · p(z|θ)/p(z)      Zarifzadeh et al. 2024

φ is any score in which higher means more member-like; `shadow_scores` takes the mean log-probability per token.
RMIA takes log-probabilities: of a text, the logarithm of the geometric mean of its tokens' probabilities, so that
long texts do not count for more. p(x) is the mean over shadows: (p_in + p_out)/2 online, and offline ((1 + a)
p_out + 1 − a)/2, where a = 1 (p(x) = p_out) suits texts, whose probabilities lie far below 1.

Two Gaussians of different width cross twice, so online LiRA as published calls a text a non-member when it is
remembered *too* well (narrow "in"), or a member when it is remembered hardly at all (wide "in"). Here φ is held at
the turning point of the parabola, which makes the score non-decreasing in φ; where the shadows say that training
lowers φ the text has no usable signal and scores 0.

Training shadows is not done here: give trained models, or matrices of their scores.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.auditing.attacks.membership.scores import LossScore
from reticent.auditing.attacks.membership.target_scores import TargetScores
from reticent.core.arrays import Floats
from reticent.core.model import LanguageModel

_FEW_SHADOWS = 16  # per side: below, all texts share one variance (Carlini et al., figure 9)
_LEAST_DEVIATION = 1e-6


def shadow_scores(models: Sequence[LanguageModel], texts: Sequence[str]) -> Floats:
    """Mean log-probability per token of each text under each model, [S, n]; −∞ for texts without tokens."""
    if not models:
        raise ValueError("shadow attacks need at least one shadow model")
    return np.stack([LossScore().score(TargetScores(texts, model)) for model in models])


def lira_online(scores: ArrayLike, shadows: ArrayLike, trained_on: ArrayLike) -> Floats:
    """Log-likelihood ratio [n] of target scores [n], given shadow scores [S, n] and who saw what [S, n]."""
    phi, matrix = _checked(scores, shadows)
    was_in = _checked_membership(trained_on, matrix)
    inside, outside = (_moments(matrix, mask) for mask in (was_in, ~was_in))
    result = np.array([_log_ratio(*row) for row in zip(phi, *inside, *outside, strict=True)])
    return _last_without_score(result, phi)


def rmia(
    scores: ArrayLike,
    shadows: ArrayLike,
    *,
    population: tuple[ArrayLike, ArrayLike],
    trained_on: ArrayLike | None = None,
    gamma: float = 1.0,
    offset: float = 1.0,
) -> Floats:
    """Share [n] of the population that each text's likelihood ratio beats by the factor `gamma`.

    `scores` [n] and `shadows` [S, n] are log-probabilities; `population` is the same pair, [m] and [S, m], of texts
    in nobody's training data. `trained_on` [S, n] makes it online; `offset` is the paper's a, for offline. Class
    probabilities call for γ of 1 to 2; geometric means over tokens differ by less, hence 1.
    """
    if gamma <= 0.0 or not 0.0 <= offset <= 1.0:
        raise ValueError("RMIA needs gamma > 0 and an offset in [0, 1]")
    log_p, matrix = _checked(scores, shadows)
    log_z, matrix_z = _checked(*population)
    was_in = None if trained_on is None else _checked_membership(trained_on, matrix)
    # Population texts are outside everywhere: their p(z) is the mean over all shadows, offline corrected like p(x).
    ratios = np.maximum(log_p, _FLOOR) - _log_marginal(matrix, was_in, offset)
    ratios_z = np.sort(
        np.maximum(log_z, _FLOOR) - _log_marginal(matrix_z, None, 1.0 if was_in is not None else offset)
    )
    beaten = np.searchsorted(ratios_z, ratios - math.log(gamma) + 1e-12, side="right")
    return _last_without_score(beaten / len(ratios_z), log_p)


_FLOOR = -1e6  # stands for −∞ in arithmetic


def _log_marginal(matrix: Floats, was_in: NDArray[np.bool_] | None, offset: float) -> Floats:
    """log p(x) [n] from shadow log-probabilities [S, n]."""
    if was_in is None:
        outside = _log_mean_exp(matrix, np.ones(matrix.shape, dtype=bool))
        if offset == 1.0:
            return outside
        return np.asarray(np.logaddexp(math.log1p(offset) + outside, math.log1p(-offset)) - math.log(2.0))
    both = np.logaddexp(_log_mean_exp(matrix, was_in), _log_mean_exp(matrix, ~was_in))
    return np.asarray(both - math.log(2.0))


def _log_mean_exp(matrix: Floats, mask: NDArray[np.bool_]) -> Floats:
    """log of the mean of exp over the masked rows of each column, [n]."""
    kept = np.where(mask, matrix, -np.inf)
    top = kept.max(axis=0)
    return np.asarray(top + np.log(np.exp(kept - top).sum(axis=0)) - np.log(mask.sum(axis=0)))


def _moments(matrix: Floats, mask: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean and deviation [n] of the masked shadow scores of each text; one deviation for all with few shadows."""
    counts = mask.sum(axis=0)
    mean = np.where(mask, matrix, 0.0).sum(axis=0) / counts
    squares = np.where(mask, (matrix - mean) ** 2, 0.0).sum(axis=0)
    pooled = math.sqrt(squares.sum() / max(1, int((counts - 1).sum())))
    if counts.min() < _FEW_SHADOWS:
        return mean, np.full(len(mean), max(pooled, _LEAST_DEVIATION))
    return mean, np.maximum(np.sqrt(squares / (counts - 1)), max(1e-3 * pooled, _LEAST_DEVIATION))


def _log_ratio(phi: float, mean_in: float, sd_in: float, mean_out: float, sd_out: float) -> float:
    """Log-ratio of the two Gaussians at φ, held at the parabola's turning point."""
    phi = max(phi, _FLOOR)
    if mean_in <= mean_out:
        return 0.0
    curvature = sd_out**-2 - sd_in**-2  # of twice the log-ratio
    if abs(curvature) > 1e-9 * sd_in**-2:
        turning = (mean_out * sd_out**-2 - mean_in * sd_in**-2) / curvature
        phi = min(phi, turning) if curvature < 0.0 else max(phi, turning)
    inside = -0.5 * ((phi - mean_in) / sd_in) ** 2 - math.log(sd_in)
    return inside + 0.5 * ((phi - mean_out) / sd_out) ** 2 + math.log(sd_out)


def _checked(scores: ArrayLike, shadows: ArrayLike) -> tuple[Floats, Floats]:
    vector, matrix = np.asarray(scores, dtype=np.float64), np.asarray(shadows, dtype=np.float64)
    if vector.ndim != 1 or matrix.ndim != 2 or matrix.shape[1] != len(vector) or 0 in matrix.shape:
        raise ValueError(f"expected scores [n] and shadows [S, n], found {vector.shape} and {matrix.shape}")
    if np.isnan(vector).any() or np.isnan(matrix).any():
        raise ValueError("a score is NaN")
    return vector, np.maximum(matrix, _FLOOR)


def _as_flags(trained_on: ArrayLike, matrix: Floats) -> NDArray[np.bool_]:
    flags = np.asarray(trained_on)
    if flags.dtype != np.bool_ or flags.shape != matrix.shape:
        raise ValueError(f"who trained on what must be booleans of shape {matrix.shape}, found {flags.shape}")
    return flags


def _checked_membership(trained_on: ArrayLike, matrix: Floats) -> NDArray[np.bool_]:
    flags = _as_flags(trained_on, matrix)
    if flags.all(axis=0).any() or (~flags).all(axis=0).any():
        raise ValueError("online attacks need, for every text, a shadow that saw it and one that did not")
    return flags


def _last_without_score(result: Floats, scores: Floats) -> Floats:
    """−∞ where the target itself had nothing to score."""
    return np.where(np.isneginf(scores), -np.inf, result)
