"""Exact δ(ε) of one Poisson-sampled Gaussian step for a group of κ units that come and go together.

How many of the group are drawn is Binomial(κ, q). In the worst case their contributions point the same way, and
a step is a mixture of Gaussians (Choquette-Choo et al. 2024, "Privacy amplification for matrix mechanisms"):

    with the group     P = Σ_j w_j N(j, σ²),   w_j = C(κ, j) q^j (1 − q)^{κ−j}
    without it         Q = N(0, σ²)
    loss               l(x) = log Σ_j w_j exp((j x − j²/2)/σ²), increasing and convex in x

so δ is again a difference of tails beyond the point x* with l(x*) = ε, found by Newton's method from the right.
A group of one is the ordinary sampled Gaussian (`hockey_stick`). Black-box group privacy knows nothing of the
sampling of the others and is looser.
"""

import math
from functools import partial
from typing import Final

import numpy as np

from reticent.accounting.light_imports import bdtrc, gammaln, log_ndtr, ndtr
from reticent.accounting.loss_sums import Losses, joined
from reticent.accounting.prices.hockey_stick import Direction
from reticent.accounting.prices.price import MOST_CELLS, LossDistribution, Price
from reticent.core.arrays import Floats
from reticent.core.event import Event, SampledGaussian, SampledGroup
from reticent.core.guarantee import Neighbours

_BEYOND = 1e-22  # mass that is left aside
_REACH = 9.8  # standard deviations: so much is beyond
_MOST_STEPS = 200
_MANY_PARTS = 20  # of a mixture, from which on its grid is coarser
_GREATEST_LOSS = 700.0  # e to it is still a float64; what lies above counts as an infinite loss
_BLOCK = 1 << 14  # points whose mixtures are in memory at once


def _simplest(event: SampledGroup) -> Event:
    if event.sampling_rate == 1.0:
        return SampledGaussian(event.noise_multiplier / event.group, 1.0)
    return SampledGaussian(event.noise_multiplier, event.sampling_rate) if event.group == 1 else event


def _least_spacing(event: SampledGroup, _: Neighbours) -> float:
    low, high = group_loss_range(event)
    return (high - low) / MOST_CELLS * max(1.0, event.group / _MANY_PARTS)  # each cell costs `group` terms


def _losses(event: SampledGroup, _: Neighbours, spacing: float) -> tuple[tuple[Losses, ...], int]:
    low, high = group_loss_range(event)
    removed = joined(partial(group_delta, event, direction=Direction.REMOVE), (low, high), spacing=spacing)
    added = joined(partial(group_delta, event, direction=Direction.ADD), (-high, -low), spacing=spacing)
    return (removed, added), 2 * math.ceil((high - low) / spacing + 2)


def group_delta(event: SampledGroup, epsilons: Floats, *, direction: Direction) -> Floats:
    """δ at each of `epsilons` [n] (negative ones too) of one step, as [n]; removing or adding the whole group.

    Guarantee: the hockey-stick divergence of the pair, to float64 rounding; never below 0 nor above 1.
    """
    if direction is Direction.REPLACE:
        raise ValueError("the pair of a replaced group is not known; remove and add")
    epsilon = np.asarray(epsilons, dtype=np.float64)
    # δ_QP(ε) = 1 − e^ε + e^ε δ_PQ(−ε): both sides are taken as tails, so that nothing cancels.
    at = epsilon if direction is Direction.REMOVE else -epsilon
    floor = float(event.group * math.log1p(-event.sampling_rate))  # the least loss: nobody was drawn
    x = np.full(len(at), -np.inf)
    inside = at > floor
    for start in range(0, len(at), _BLOCK):
        block = slice(start, start + _BLOCK)
        chosen = inside[block]
        x[block][chosen] = _where(event, at[block][chosen])
    if direction is Direction.REMOVE:
        result = _mixture_tail(event, x) - np.exp(epsilon + log_ndtr(-x / event.noise_multiplier))
        result = np.where(inside, result, -np.expm1(np.minimum(epsilon, floor)))  # ε ≤ floor there
    else:
        result = ndtr(x / event.noise_multiplier) - np.exp(np.minimum(epsilon, -floor)) * _mixture_head(event, x)
        result = np.where(inside, result, 0.0)
    return np.asarray(np.clip(np.where(np.isnan(result), 1.0, result), 0.0, 1.0))


def group_loss_range(event: SampledGroup) -> tuple[float, float]:
    """Least and greatest loss of removing, but for 1e-22 of the mass or what is above 700 nats.

    What lies above counts as an infinite loss, so a range that is too short only raises prices.
    """
    reach = _REACH * event.noise_multiplier
    beyond = bdtrc(np.arange(event.group + 1.0), event.group, event.sampling_rate)  # P[more than j drawn]
    most = float(np.argmax(beyond <= _BEYOND))
    low, high = _loss(event, np.array([-reach, most + reach]))[0]
    return float(low), min(float(high), _GREATEST_LOSS)


def _log_weights(event: SampledGroup) -> Floats:
    """log w_j for j = 0 … κ."""
    j = np.arange(event.group + 1.0)
    q, size = event.sampling_rate, event.group
    ways = gammaln(size + 1.0) - gammaln(j + 1.0) - gammaln(size - j + 1.0)
    return np.asarray(ways + j * math.log(q) + (size - j) * math.log1p(-q))


def _loss(event: SampledGroup, x: Floats) -> tuple[Floats, Floats]:
    """l(x) and its slope, both [n]."""
    j = np.arange(event.group + 1.0)
    terms = _log_weights(event) + (j * x[:, None] - j * j / 2.0) / event.noise_multiplier**2  # [n, κ + 1]
    top = terms.max(axis=1)
    shares = np.exp(terms - top[:, None])
    total = shares.sum(axis=1)
    return np.asarray(top + np.log(total)), np.asarray(shares @ j / total / event.noise_multiplier**2)


def _where(event: SampledGroup, losses: Floats) -> Floats:
    """x with l(x) = loss for each loss [n]: convex and increasing, so Newton from the right never passes it."""
    sigma2 = event.noise_multiplier**2
    j = np.arange(1.0, event.group + 1.0)
    # l(x) is at least each single term, so the least x at which a term alone reaches the loss is right of x*.
    alone = (losses[:, None] - _log_weights(event)[1:]) * sigma2 / j + j / 2.0
    x = alone.min(axis=1)
    for _ in range(_MOST_STEPS):
        loss, slope = _loss(event, x)
        step = (loss - losses) / slope
        x = x - step
        if not np.any(np.abs(step) > 1e-12 * (1.0 + np.abs(x))):
            break
    return np.asarray(x)


def _mixture_tail(event: SampledGroup, x: Floats) -> Floats:
    """P[X > x] under the mixture, [n]."""
    parts = enumerate(np.exp(_log_weights(event)))
    return np.asarray(sum(weight * ndtr((j - x) / event.noise_multiplier) for j, weight in parts))


def _mixture_head(event: SampledGroup, x: Floats) -> Floats:
    """P[X ≤ x] under the mixture, [n]."""
    parts = enumerate(np.exp(_log_weights(event)))
    return np.asarray(sum(weight * ndtr((x - j) / event.noise_multiplier) for j, weight in parts))


SAMPLED_GROUP: Final = Price(
    SampledGroup, distribution=LossDistribution(losses=_losses, least_spacing=_least_spacing), simplest=_simplest
)
