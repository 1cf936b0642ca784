"""Slow, obvious versions of what the accounting package computes: arbitrary precision and enumeration.

Nothing here is imported by the product. Distributions are plain arrays; mechanisms are rows of a matrix.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache

import mpmath as mp
import numpy as np

from reticent.core.arrays import Floats

_FAR = 120  # e^-120 = 1e-52: what is so small beside something else, even 100,000 times over, shows in no 40 digits


def sampled_gaussian_divergence(noise: float, rate: float, order: float, *, backward: bool = False) -> float:
    """D_a of one sampled Gaussian step with 40 digits: the binomial sum where it applies, an integral elsewhere."""
    with mp.workdps(40):
        sigma, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)
        if order == int(order) and not backward:
            n = int(order)
            terms = (
                mp.binomial(n, k) * (1 - q) ** (n - k) * q**k * mp.exp((k * k - k) / (2 * sigma**2))
                for k in range(n + 1)
            )
            return float(mp.log(mp.fsum(terms)) / (a - 1))
        power = 1 - a if backward else a
        x, ahead = nodes(noise, order), log_ratios(noise, rate, order)
        return float(mp.log(integral(x, sigma, (power * log for log in ahead))) / (a - 1))


@cache
def replace_one_divergence(noise: float, rate: float, order: float) -> float:
    """D_a((1 − q) N_0 + q N_1 ‖ (1 − q) N_0 + q N_−1) with 40 digits."""
    with mp.workdps(40):
        sigma, a = mp.mpf(noise), mp.mpf(order)
        x, ahead = nodes(noise, order), log_ratios(noise, rate, order)  # and at −x those of a record at −1
        logs = (a * one + (1 - a) * other for one, other in zip(ahead, reversed(ahead), strict=True))
        return float(mp.log(integral(x, sigma, logs)) / (a - 1))


@cache
def nodes(noise: float, order: float) -> tuple[mp.mpf, ...]:
    """Points at which to sum a smooth function that falls like a Gaussian outside [−order, order].

    As many on either side of 0, in ascending order.

    The error of the sum is about exp(−π²σ²/step), e^-69 of the whole: see `prices.sampled_gaussian`.
    """
    step = mp.mpf(min(noise, noise**2)) / 7
    count = int((order + 13 * noise) / step) + 1
    return tuple(step * i for i in range(-count, count + 1))


@cache
def log_ratios(noise: float, rate: float, order: float) -> tuple[mp.mpf, ...]:
    """log of ((1 − q) N_0 + q N_1) / N_0 at every node, with 40 digits; both divergences above need them."""
    with mp.workdps(40):
        q, square = mp.mpf(rate), mp.mpf(noise) ** 2
        log_in, log_out = mp.log(q), mp.log(1 - q) if rate < 1 else -mp.inf
        low, high = log_out - log_in - _FAR, log_out - log_in + _FAR  # beyond, one of the two Gaussians is nothing

        def log_ratio(z: mp.mpf) -> mp.mpf:
            if z < low:
                return log_out
            return log_in + z if z > high else mp.log(1 - q + q * mp.exp(z))

        factor, shift = 1 / square, 1 / (2 * square)
        return tuple(log_ratio(x * factor - shift) for x in nodes(noise, order))


def integral(x: Sequence[mp.mpf], sigma: mp.mpf, logs: Iterable[mp.mpf]) -> mp.mpf:
    """∫ N_0(x) f(x) dx, of log f at equally spaced points."""
    factor = 1 / (2 * sigma**2)
    exponents = [log - each * each * factor for each, log in zip(x, logs, strict=True)]
    least = max(exponents) - _FAR
    terms = (mp.exp(exponent) for exponent in exponents if exponent > least)
    return (x[1] - x[0]) * mp.fsum(terms) / (sigma * mp.sqrt(2 * mp.pi))


def replace_one_in_plane(noise: float, rate: float, order: float, *, angle: float, length: float) -> float:
    """D_a of (1−q) N(0) + q N(g) against (1−q) N(0) + q N(g') in the plane, |g| = 1, |g'| = `length` at `angle`."""
    step = noise / 8.0
    axis = np.arange(-8.0 * noise - order, 8.0 * noise + order, step)
    x, y = np.meshgrid(axis, axis)

    def density(centre_x: float, centre_y: float) -> Floats:
        square = (x - centre_x) ** 2 + (y - centre_y) ** 2
        return np.exp(-square / (2.0 * noise**2)) / (2.0 * math.pi * noise**2) * step**2

    p = (1 - rate) * density(0.0, 0.0) + rate * density(1.0, 0.0)
    q = (1 - rate) * density(0.0, 0.0) + rate * density(length * math.cos(angle), length * math.sin(angle))
    kept = (p > 1e-290) & (q > 1e-290)
    return float(np.log(np.sum(p[kept] ** order * q[kept] ** (1 - order))) / (order - 1))


def divergence(p: Floats, q: Floats, order: float) -> float:
    """D_a of two pmfs by the definition; the greater direction."""
    if order == math.inf:
        return float(max(np.log(p / q).max(), np.log(q / p).max()))
    forward = math.log(np.sum(p**order * q ** (1 - order)))
    backward = math.log(np.sum(q**order * p ** (1 - order)))
    return max(forward, backward) / (order - 1)


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """δ(ε) of two pmfs by the definition; the greater direction."""
    grown = math.exp(epsilon)
    return float(max(np.maximum(p - grown * q, 0).sum(), np.maximum(q - grown * p, 0).sum()))


def roc(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Exact ROC curve of the best test of p (members) against q: corners (fpr, tpr), by Neyman and Pearson."""
    order = np.argsort(-(p / q), kind="stable")
    return np.concatenate([[0.0], np.cumsum(q[order])]), np.concatenate([[0.0], np.cumsum(p[order])])


def random_pair(generator: np.random.Generator, size: int, *, spread: float) -> tuple[Floats, Floats]:
    """Two random pmfs with full support, more alike the smaller `spread` is."""
    base = generator.normal(size=size)
    rows = np.stack([base, base + spread * generator.normal(size=size)])
    weights = np.exp(rows)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[0], weights[1]
