"""The largest mixing weight λ whose divergence stays under a cap: a fixed number of secant steps in logarithms.

Every divergence here has an excess E(λ) = I_a − 1 that is convex in λ with E(0) = 0, since I_a is jointly convex
and both arguments are affine in λ. So log E against log λ is increasing with slope at least 1, and about 2 near 0.
The secant in those logarithms, kept inside a bracket that the slope gives for free, needs three to eight steps to
the last digit. Their number is fixed, since time must not depend on private rows. A last step back by the whole
remaining error, safe as the slope is at least 1, makes the result never pass its cap but for rounding; the charge
is computed afresh in any case.
"""

import math
from collections.abc import Callable

import numpy as np

from reticent.accounting.mixing_charge import common_share
from reticent.accounting.mixing_excess import (
    Halves,
    Pull,
    forward_excess,
    is_polynomial,
    symmetric_divergence,
)
from reticent.core.model import Floats

Excess = Callable[[Floats], Floats]

STEPS = 8
_HALVINGS = 64  # of 700 nats: to the last digit
_STEEP = 1400.0
_TINY = 1e-300
_NEARLY_ONE = 1.0 - 2.0**-40  # a component may have chances that underflow to 0, where λ = 1 is infinite


def solve(excess: Excess, target: Floats, *, upper: Floats, guess: Floats, steps: int = STEPS) -> Floats:
    """Largest λ ≤ `upper` with excess(λ) ≤ target, elementwise [k]. The number of evaluations is steps + 2."""
    goal = np.log(np.maximum(target, _TINY))

    def gap(x: Floats) -> Floats:
        return np.asarray(np.clip(np.log(np.maximum(excess(np.exp(x)), _TINY)) - goal, -_STEEP, _STEEP))

    high = np.log(upper)
    last, at_last = high, gap(high)
    fits = at_last <= 0.0
    low = high - np.maximum(at_last, 0.0)  # below the root, since the slope is at least 1
    x = np.clip(np.log(np.maximum(guess, _TINY)), low, high)
    value = gap(x)
    slope = np.full_like(x, 2.0)
    for _ in range(steps):
        low = np.maximum(low, np.where(value > 0.0, x - value, x))
        high = np.where(value > 0.0, np.minimum(high, x), high)
        with np.errstate(invalid="ignore", divide="ignore"):
            secant = (value - at_last) / (x - last)
        slope = np.where((np.abs(x - last) > 1e-12) & (secant >= 1.0), secant, slope)
        new = x - value / slope
        # A secant that leaves the bracket is replaced by its middle; one that is right within rounding stays.
        new = np.where((new < low - 1e-12) | (new > high + 1e-12), 0.5 * (low + high), np.clip(new, low, high))
        last, at_last = x, value
        x, value = new, gap(new)
    best = np.maximum(low, np.where(value > 0.0, x - value, x))
    return np.where(fits, upper, np.minimum(np.exp(best), upper))


def filtered_weights(pull: Pull, caps: Floats, *, parts: int, weight_limit: float) -> Floats:
    """SubMix-F: the largest λ_i ≤ λmax [k] whose charge (`filtered_pmf_charges`) is at most its cap [k]."""
    share = common_share(parts, weight_limit)
    scale = parts * share  # θ = λ/(k w)
    if pull.order == math.inf:
        return np.minimum(scale * _ratio_weights(pull, caps), weight_limit)
    target = np.expm1(np.minimum((pull.order - 1.0) * caps, 700.0)) / share
    theta = _pulled_weights(pull, target, upper=weight_limit / scale)
    return np.minimum(theta * scale, weight_limit)


def radius_weights(pull: Pull, radius: float) -> Floats:
    """PMixED: the largest λ_i ≤ 1 [k] with D_a^sym(λ h_i + (1−λ) r ‖ r) ≤ `radius`, for a finite order."""
    count = pull.parts
    target = np.full(count, math.expm1(min((pull.order - 1.0) * radius, 700.0)))
    weights = _pulled_weights(pull, target, upper=_NEARLY_ONE)
    return np.where(pull.excess(np.ones(count)) <= target, 1.0, weights)


def _pulled_weights(pull: Pull, target: Floats, *, upper: float) -> Floats:
    """Largest θ ≤ upper [k] with both excesses of `pull` at most the target [k].

    At a whole order I_a(G‖r) − 1 is a polynomial in θ of the moments Σ r u^j: its root costs no pass over the
    vocabulary. It is where the search for the other direction, which is smooth below it, begins.
    """
    if not is_polynomial(pull.order):
        guess = np.sqrt(target / (0.5 * pull.order * (pull.order - 1.0) * np.maximum(pull.chi_square, _TINY)))
        return solve(pull.rough_excess, target, guess=guess, upper=np.full_like(target, upper), steps=2 * STEPS)
    moments = pull.moments()  # [a − 1, k]
    low, high = np.full_like(target, math.log(upper) - 700.0), np.full_like(target, math.log(upper))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = forward_excess(moments, np.exp(middle)) <= target
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    whole = forward_excess(moments, np.full_like(target, upper)) <= target
    forward = np.where(whole, upper, np.exp(low))
    return solve(pull.reverse_excess, target, guess=forward, upper=forward, steps=_steps(upper))


def _steps(upper: float) -> int:
    """Enough for 1e-9 of the reverse direction, nearly a square for small θ: public numbers alone decide."""
    return 3 if upper <= 0.15 else 5 if upper <= 0.5 else STEPS


def half_weights(first: Floats, second: Floats, public: Floats, *, order: float, leakage: float) -> Floats:
    """SubMix: the largest λ_i ≤ 1 [k] with D_a^sym between λ h_π + (1−λ) r and λ h_π' + (1−λ) r at most `leakage`.

    `first` and `second` [k, V] are the pmfs of the halves, `public` [V] that of the public model.
    """
    if order == math.inf:
        return _half_ratio_weights(first / public - 1.0, second / public - 1.0, leakage)
    halves = Halves(first, second, public, order)

    def by_logarithms(weights: Floats) -> Floats:
        share = weights[:, None]
        p, q = public + share * (first - public), public + share * (second - public)
        return np.asarray(np.expm1((order - 1.0) * symmetric_divergence(p, q, order)))

    target = np.full(len(first), math.expm1(min((order - 1.0) * leakage, 700.0)))
    guess = np.sqrt(target / (0.5 * order * (order - 1.0) * np.maximum(halves.chi_square, _TINY)))
    excess = halves.excess if is_polynomial(order) else by_logarithms
    weights = solve(excess, target, guess=guess, upper=np.full_like(target, _NEARLY_ONE), steps=3 * STEPS)
    whole = symmetric_divergence(first, second, order) <= leakage
    return np.where(whole, 1.0, weights)


def _ratio_weights(pull: Pull, caps: Floats) -> Floats:
    """Order ∞: largest θ with 1 + θ u in [e^−cap, e^cap] for every u."""
    least, greatest = pull.extremes()
    with np.errstate(divide="ignore", over="ignore"):
        above = np.where(greatest > 0, np.expm1(caps) / np.maximum(greatest, _TINY), np.inf)
        below = np.where(least < 0, -np.expm1(-caps) / np.maximum(-least, _TINY), np.inf)
    return np.asarray(np.minimum(above, below))


def _half_ratio_weights(u: Floats, v: Floats, leakage: float) -> Floats:
    """Order ∞: largest λ ≤ 1 with (1+λu)/(1+λv) in [e^−β, e^β], so λ (u − e^β v) ≤ e^β − 1, and exchanged."""
    grown = math.exp(leakage)
    steepest = np.maximum((u - grown * v).max(axis=-1), (v - grown * u).max(axis=-1))
    return np.asarray(np.minimum(math.expm1(leakage) / np.maximum(steepest, _TINY), 1.0))
