"""The largest mixing weight λ whose divergence stays under a cap: a fixed number of Newton steps in logarithms.

Every divergence here has an excess E(λ) = I_a − 1 that is convex in λ with E(0) = 0, since I_a is jointly convex
and both arguments are affine in λ. So log E against log λ is increasing with slope at least 1, and about 2 near 0;
near λ = 1 it grows like a power of 1/(1−λ). Newton's steps on log E against the logit of λ, where both ends are
nearly straight, kept inside a bracket that the slope gives for free, need two to seven steps to the last digit.
Slopes come exact from the pass that gives E (`mixing.curves.Curve`); from the second step on the two last points
and their slopes make a cubic (inverse interpolation, order 1 + √3 where Newton's is 2).
The number of steps is fixed, since time must not depend on private rows. Where the cap is a promise and not a pace,
a last step back by the whole remaining error, safe as the slope is at least 1, makes the result never pass it but
for rounding.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from reticent.accounting.mixing.charge import common_share
from reticent.accounting.mixing.curves import Curve, Halves, Pull, is_polynomial
from reticent.core.arrays import Floats

Excess = Callable[[Floats], Curve]
_Point = tuple[Floats, Floats, Floats]  # logit of λ [k], log E less its goal and their slope, [directions, k] each

_STEEP = 1400.0
_TINY = 1e-300
_LOG_TINY = math.log(_TINY)
_NEARLY_ONE = 1.0 - 2.0**-42  # stands for λ = 1, which is infinite where a component has a chance of 0


def solve(
    curve: Excess,
    goal: Floats,
    *,
    upper: Floats,
    guess: Floats,
    steps: int,
    verified: bool = True,
) -> Floats:
    """Largest λ ≤ `upper` < 1 with log excess(λ) ≤ goal, elementwise [k], after so many evaluations and steps.

    Of a curve in both directions each has its own step, and the shorter λ counts. `verified` spends one more
    evaluation on the result, to step back where it passes the goal by an error that is left; without it the goal is
    met within the square of the last step, from either side. `guess` is taken for the odds λ/(1−λ): a small λ as it
    is, and a guess above 1 stays inside.
    """
    limit = _logit(upper)
    low, high = np.full_like(limit, -_STEEP), limit
    is_above = np.zeros(limit.shape, dtype=bool)  # whether `high` is known to lie above the root
    z = np.minimum(np.log(np.maximum(guess, _TINY)), limit)
    before: _Point | None = None
    for _ in range(steps):
        weights = np.where(z >= limit, upper, _logistic(z))
        gaps, slopes = _gap(curve, weights, goal)  # [directions, k]
        gap = np.maximum.reduce(gaps)
        low = np.maximum(low, _logit(np.maximum(_back(weights, gap), _TINY)))
        passes = gap > 0.0
        high, is_above = np.where(passes, np.minimum(high, z), high), is_above | passes
        here = (z, gaps, np.maximum(slopes * (1.0 - weights), _TINY))
        new = np.minimum.reduce(_aim(before, here))
        # A step that leaves the bracket is replaced by its middle; one that is right within rounding stays.
        outside = (new < low - 1e-12) | ((new > high + 1e-12) & is_above)
        z = np.where(outside, 0.5 * (low + high), _within(new, low, high))
        before = here
    weights = np.where(z >= limit, upper, _logistic(z))
    if not verified:
        return weights
    gap = np.maximum.reduce(_gap(curve, weights, goal)[0])
    return np.where(gap > 0.0, np.maximum(_back(weights, gap), _logistic(low)), weights)


def _aim(before: _Point | None, here: _Point) -> Floats:
    """Where the gap should vanish, from the last point, or the last two where their cubic is near the tangent."""
    z, gap, lean = here
    tangent = z - gap / lean
    if before is None:
        return tangent
    z0, gap0, lean0 = before
    rise = gap - gap0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = -gap0 / rise  # where the gap is 0, from 0 at the point before to 1 here
        rest = 1.0 - t
        cubic = z0 * (1.0 + 2.0 * t) * rest**2 + z * t**2 * (3.0 - 2.0 * t)
        cubic += rise * t * rest * (rest / lean0 - t / lean)
        is_near = np.abs(cubic - tangent) <= 0.5 * np.abs(tangent - z)  # never where it is not a number
    is_near &= np.abs(z - z0) > 1e-3  # points so close that a rough curve's noise counts add nothing
    return np.where(is_near, cubic, tangent)


def _gap(curve: Excess, weights: Floats, goal: Floats) -> tuple[Floats, Floats]:
    """log(excess/target) at weights [k], and its slope against log λ, as [directions, k]."""
    logs, slope = curve(weights)
    gap = _within(np.maximum(logs, _LOG_TINY) - goal, -_STEEP, _STEEP)
    return np.atleast_2d(gap), np.atleast_2d(np.where(np.isfinite(slope), np.maximum(slope, 1.0), 2.0))


def _within(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """What np.clip gives, in a quarter of its time for a few numbers."""
    return np.minimum(np.maximum(x, low), high)


def _back(weights: Floats, gap: Floats) -> Floats:
    """Where the target is kept whatever happened between: the slope is at least 1."""
    return np.asarray(weights * np.exp(-np.maximum(gap, 0.0)))


def _logit(weights: Floats) -> Floats:
    return np.asarray(np.log(weights) - np.log1p(-weights))


def _logistic(z: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(-z, 700.0))))


def _log_excess_of(nats: Floats) -> Floats:
    """log(e^nats − 1), exact both for tiny nats and where e^nats overflows; never below `_LOG_TINY`."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(nats + np.log(-np.expm1(-nats)), _LOG_TINY))


def filtered_weights(pull: Pull, caps: Floats, *, parts: int, weight_limit: float) -> Floats:
    """SubMix-F: the largest λ_i ≤ λmax [k] whose charge (`filtered_charges`) is at most its cap [k].

    A cap paces the spending; what is charged is computed afresh.
    """
    share = common_share(parts, weight_limit)
    scale = parts * share  # θ = λ/(k w)
    if pull.order == math.inf:
        return np.minimum(scale * _ratio_weights(pull, caps), weight_limit)
    goal = _log_excess_of((pull.order - 1.0) * caps) - math.log(share)
    theta = _pulled_weights(pull, goal, upper=weight_limit / scale, verified=False)
    return np.minimum(theta * scale, weight_limit)


def radius_weights(pull: Pull, radius: float) -> Floats:
    """PMixED: the largest λ_i ≤ 1 [k] with D_a^sym(λ h_i + (1−λ) r ‖ r) ≤ `radius`, for a finite order."""
    goal = np.full(pull.parts, _log_excess_of(np.array((pull.order - 1.0) * radius)))
    return _pulled_weights(pull, goal, upper=_NEARLY_ONE)


def _pulled_weights(pull: Pull, goal: Floats, *, upper: float, verified: bool = True) -> Floats:
    """Largest θ ≤ upper [k] with both log excesses of `pull` at most the goal [k].

    By the polynomial of a whole order I_a(G‖r) − 1 needs the moments Σ r u^j alone: its root costs no pass over the
    vocabulary. It is where the search for the other direction, which is smooth below it, begins.
    """
    quadratic = _quadratic(goal, pull.chi_square, pull.order)
    if not is_polynomial(pull.order):
        guess, limit = np.minimum(quadratic, pull.token_weights(goal)), np.full_like(goal, upper)
        steps = _power_steps(pull.order, upper)
        return solve(pull.both, goal, guess=guess, upper=limit, steps=steps, verified=verified)
    forward = _forward_weights(pull, goal, start=quadratic, upper=upper, verified=verified)
    steps = _reverse_steps(pull.order, upper)
    if upper <= _STRAIGHT and not verified:
        curves = [pull.nearly_reverse] + [pull.reverse] * (steps - 1)
        return _descend(curves, goal, start=forward, limit=forward)
    odds = forward / (1.0 - forward)
    return solve(pull.reverse, goal, guess=odds, upper=forward, steps=steps, verified=verified)


def _forward_weights(pull: Pull, goal: Floats, *, start: Floats, upper: float, verified: bool) -> Floats:
    """Largest θ ≤ upper [k] with log(I_a(G‖r) − 1) at most the goal [k], by the polynomial.

    The excess is about at least its first term and its last: the search begins at the smaller root.
    """
    order = int(pull.order)
    with np.errstate(over="ignore"):
        last = np.exp((goal - np.log(np.maximum(pull.moments()[-1], _TINY))) / order)
    start = _within(np.minimum(start, last), _TINY, upper)
    found = _descend([pull.forward] * _forward_steps(order), goal, start=start, limit=upper)
    if not verified:
        return found
    gap = _gap(pull.forward, found, goal)[0].max(axis=0)
    return np.maximum(_back(found, gap), _TINY)


def _descend(curves: Sequence[Excess], goal: Floats, *, start: Floats, limit: Floats | float) -> Floats:
    """Where the log excess reaches its goal [k], at most `limit`: `solve` in log λ and without a bracket.

    One step on each of `curves`: the same curve, the first time maybe roughly. For such whose slopes vary little,
    where no step leads astray. Where moments overflow it ends at `_TINY`.
    """
    z = np.log(start)
    before: _Point | None = None
    most = np.log(limit)
    for curve in curves:
        here = (z, *_gap(curve, np.exp(z), goal))
        z, before = _within(np.minimum.reduce(_aim(before, here)), _LOG_TINY, most), here
    return _within(np.exp(z), _TINY, limit)


def _quadratic(goal: Floats, chi_square: Floats, order: float) -> Floats:
    """Where the leading term a(a−1)/2·χ²·λ² reaches e^goal [k]."""
    with np.errstate(over="ignore"):  # parts that agree: any weight
        leading = 0.5 * order * (order - 1.0) * np.maximum(chi_square, _TINY)
        return np.asarray(np.exp(0.5 * (goal - np.log(leading))))


_STRAIGHT = 0.5  # weights up to which the reverse direction needs no bracket

# Steps to 1e-9, found on rows that differ by up to e^±30: public numbers alone decide how many.


def _forward_steps(order: int) -> int:
    return 1 if order == 2 else 3 if order <= 8 else 4


def _reverse_steps(order: float, upper: float) -> int:
    """The reverse direction is nearly a square for small θ."""
    if upper <= 0.12:
        return 2 if order <= 4.0 else 3
    return 5 if upper <= _STRAIGHT else 9


def _power_steps(order: float, upper: float) -> int:
    """Beginning where no token alone passes its goal; towards θ = 1 the reverse direction has a plateau."""
    if upper > _STRAIGHT:
        return 12
    return 4 if order <= 32.0 else 5 if order <= 128.0 else 7


def _half_steps(order: float) -> int:
    return 8 if order <= 4.0 else 12 if order <= 8.0 else 18


def half_weights(first: Floats, second: Floats, public: Floats, *, order: float, leakage: float) -> Floats:
    """SubMix: the largest λ_i ≤ 1 [k] with D_a^sym between λ h_π + (1−λ) r and λ h_π' + (1−λ) r at most `leakage`.

    `first` and `second` [k, V] are the pmfs of the halves, `public` [V] that of the public model.
    """
    if order == math.inf:
        return _half_ratio_weights(first / public - 1.0, second / public - 1.0, leakage)
    halves = Halves(first, second, public, order)
    goal = np.full(len(first), _log_excess_of(np.array((order - 1.0) * leakage)))
    guess = _quadratic(goal, halves.chi_square, order)
    limit = np.full_like(goal, _NEARLY_ONE)
    return solve(halves.both, goal, guess=guess, upper=limit, steps=_half_steps(order), verified=False)


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
