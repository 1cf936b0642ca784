"""Rényi divergence of one Poisson-sampled Gaussian step (DP-SGD) at any real order above 1.

With noise σ, rate q, N_m = N(m, σ²) and M_m = (1 − q) N_0 + q N_m, the two worlds of a step are

    add or remove one:  M_1 against N_0, both directions; the greater counts
    replace one:        M_1 against M_−1 (the pair is its own mirror image)

The first pair dominates by Mironov, Talwar and Zhang 2019 (arXiv 1908.10530, theorems 4 and 5); the second is the
pair that dp-accounting's replace-one privacy loss distribution rests on (dominating pairs: Zhu, Dong and Wang 2022;
substitution under Poisson sampling: Lebeda, Regehr, Kamath and Steinke 2024).

Every order is computed by the trapezoidal rule, which converges exponentially for such integrands: they are
analytic, and at most e^{y²/2σ²} times their real size, for |y| ≤ πσ²/2, so that with spacing t the error is below
exp(−π²σ²(1/t − 1/8)). The usual series for fractional orders alternates in sign; adding absolute values, as
dp-accounting does, is valid but up to 10 % loose at small orders.

The privacy loss distribution is made from δ(ε) of a step (`hockey_stick`). A plain Gaussian samples everybody.

Not here: composition (`curve`, `pld`), sampling without replacement, shuffling.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

import numpy as np

from reticent.accounting.loss_sums import Losses, joined
from reticent.accounting.prices.hockey_stick import Direction, loss_range, step_delta
from reticent.accounting.prices.price import MOST_CELLS, LossDistribution, Price, distance
from reticent.core.arrays import Floats
from reticent.core.divergence import log_moment
from reticent.core.event import Gaussian, SampledGaussian, SampledGroup
from reticent.core.guarantee import Neighbours

_Logs = Callable[[Floats], tuple[Floats, Floats]]
_Side = tuple[Callable[[Floats], Floats], tuple[float, float]]

_LOG_ERROR = 65.0  # the rule's error is e^-65 of the whole; the excess over 1 that matters is rarely below e^-30
_REACH = 14.0  # standard deviations on either side of a mean: e^-98 of its mass is left out
_UNDERFLOW = -650.0  # logarithms below this are not trusted to survive exp
_DROP = 90.0  # parts of the integrand e^-90 below its peak are not summed


def _sides(event: SampledGaussian, neighbours: Neighbours) -> list[_Side]:
    """δ(ε) and the range of losses of one step: of removing and of adding one unit, or of replacing one."""
    ways = (Direction.REMOVE, Direction.ADD) if neighbours is Neighbours.ADD_REMOVE else (Direction.REPLACE,)
    noise, rate = event.noise_multiplier, event.sampling_rate
    return [
        (
            partial(step_delta, direction=way, noise_multiplier=noise, sampling_rate=rate),
            loss_range(way, noise_multiplier=noise, sampling_rate=rate),
        )
        for way in ways
    ]


def _losses(event: SampledGaussian, neighbours: Neighbours, spacing: float) -> tuple[tuple[Losses, ...], int]:
    sides = _sides(event, neighbours)
    cells = sum(math.ceil(high / spacing) - math.floor(low / spacing) + 1 for _, (low, high) in sides)
    return tuple(joined(deltas, limits, spacing=spacing) for deltas, limits in sides), cells


def _least_spacing(event: SampledGaussian, neighbours: Neighbours) -> float:
    return max(high - low for _, (low, high) in _sides(event, neighbours)) / MOST_CELLS


def _of_everybody(event: Gaussian) -> SampledGaussian:
    return SampledGaussian(event.noise_multiplier, 1.0)


@lru_cache(maxsize=1 << 16)
def sampled_gaussian_epsilon(
    noise_multiplier: float, sampling_rate: float, *, order: float, neighbours: Neighbours
) -> float:
    """D_a of one step in nats at any order in (1, ∞].

    Guarantee: equals the divergence of the dominating pair to a relative error of about 1e-9 (checked against
    arbitrary-precision arithmetic), in the greater of both directions.
    """
    _check(noise_multiplier, sampling_rate, order)
    if order == math.inf:
        return math.inf
    if sampling_rate == 1.0:
        return order * distance(neighbours) ** 2 / (2.0 * noise_multiplier**2)
    upper, lower = 1.0, None if neighbours is Neighbours.ADD_REMOVE else -1.0
    # The other direction is never greater: by theorem 5 when adding or removing, by symmetry when replacing.
    moment = _moment(upper, lower, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, order=order)
    return moment / (order - 1.0)


def _check(noise_multiplier: float, sampling_rate: float, order: float) -> None:
    if not 0.0 < noise_multiplier < math.inf:
        raise ValueError(f"noise_multiplier must be positive and finite, found {noise_multiplier}")
    if not 0.0 < sampling_rate <= 1.0:
        raise ValueError(f"sampling_rate must be in (0, 1], found {sampling_rate}")
    if not order > 1.0:
        raise ValueError(f"a Rényi order must be above 1, found {order}")


def _moment(
    upper: float,
    lower: float | None,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    order: float,
) -> float:
    """log I_a between mixtures; a world is given by its unit's mean, None where the unit is not in it."""

    def logs(x: Floats) -> tuple[Floats, Floats]:
        centre = -0.5 * (x / noise_multiplier) ** 2  # [n], up to the constant of the density
        return (
            centre + _log_ratio(x, upper, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate),
            centre + _log_ratio(x, lower, noise_multiplier=noise_multiplier, sampling_rate=sampling_rate),
        )

    x, spacing = _nodes(logs, _means(upper, lower), noise_multiplier=noise_multiplier, order=order)
    log_weight = math.log(spacing / (noise_multiplier * math.sqrt(2.0 * math.pi)))
    log_p, log_q = (world + log_weight for world in logs(x))
    powers = order * log_p + (1.0 - order) * log_q
    plain = float(np.logaddexp.reduce(powers))
    if plain > math.log(2.0):
        return plain
    # Near 1 the moment is summed centred. Where Q itself underflows, its terms come from logarithms.
    far = log_q < _UNDERFLOW
    excess = math.expm1(float(log_moment(log_p[~far], log_q[~far], order))) if not far.all() else 0.0
    excess += float((np.exp(powers[far]) - order * np.exp(log_p[far])).sum())
    return math.log1p(max(0.0, excess))


def _means(upper: float, lower: float | None) -> tuple[float, ...]:
    """Where P and Q have their bumps: also those that P^a Q^(1−a) hardly sees count in the centred sum."""
    return (0.0, upper) if lower is None else (lower, 0.0, upper)


def _log_ratio(x: Floats, mean: float | None, *, noise_multiplier: float, sampling_rate: float) -> Floats:
    """log M_m(x)/N_0(x) at points [n]; 0 for the world without the unit."""
    if mean is None:
        return np.zeros_like(x)
    exponent = (mean * x - 0.5 * mean**2) / noise_multiplier**2
    # log1p keeps the digits of a ratio that is 1 plus something of the order of a tiny rate.
    with np.errstate(over="ignore"):
        near = np.log1p(sampling_rate * np.expm1(np.minimum(exponent, 1.0)))
    far = np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + exponent)
    return np.asarray(np.where(exponent < 1.0, near, far))


def _nodes(logs: _Logs, means: tuple[float, ...], *, noise_multiplier: float, order: float) -> tuple[Floats, float]:
    """Multiples of a spacing outside which P^a Q^(1−a), P and Q are all negligible, and that spacing."""
    spacing = 1.0 / (0.125 + _LOG_ERROR / (math.pi * noise_multiplier) ** 2)
    reach = _REACH * noise_multiplier
    windows = [_peak(logs, noise_multiplier=noise_multiplier, order=order)]
    windows += [(mean - reach, mean + reach) for mean in means]
    merged: list[tuple[int, int]] = []  # windows that overlap are one; np.unique would take longer than the rest
    for first, last in sorted((math.floor(low / spacing), math.ceil(high / spacing)) for low, high in windows):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    places = np.concatenate([np.arange(first, last + 1) for first, last in merged])  # [n]
    return spacing * places.astype(np.float64), spacing


def _peak(logs: _Logs, *, noise_multiplier: float, order: float) -> tuple[float, float]:
    """Ends of the region outside which P^a Q^(1−a) is negligible beside its greatest value."""
    far = _REACH * noise_multiplier + 1.0 + 2.0 * order  # replacing one puts the peak as far out as 2a − 1
    coarse = np.arange(-far, far, noise_multiplier / 2.0)  # [n]
    log_p, log_q = logs(coarse)
    size = order * log_p + (1.0 - order) * log_q
    kept = coarse[size > size.max() - _DROP]
    return float(kept[0]) - noise_multiplier, float(kept[-1]) + noise_multiplier


SAMPLED_GAUSSIAN: Final = Price(
    SampledGaussian,
    renyi=lambda event, order, neighbours: sampled_gaussian_epsilon(
        event.noise_multiplier, event.sampling_rate, order=order, neighbours=neighbours
    ),
    distribution=LossDistribution(losses=_losses, least_spacing=_least_spacing, is_known_for_replaced=True),
    for_group=lambda event, group: SampledGroup(event.noise_multiplier, event.sampling_rate, group),
    as_sampled_gaussian=lambda event: event,
)
GAUSSIAN: Final = Price(
    Gaussian,
    renyi=lambda event, order, neighbours: SAMPLED_GAUSSIAN.renyi(_of_everybody(event), order, neighbours),
    simplest=_of_everybody,
    for_group=lambda event, group: Gaussian(event.noise_multiplier / group),
    as_sampled_gaussian=_of_everybody,
)
