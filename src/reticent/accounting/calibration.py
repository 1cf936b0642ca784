"""The least noise for (ε, δ), or the most steps for a given noise: searched, rounded to the safe side, verified.

ε falls with noise and grows with steps. The Rényi accountant is cheap and gives a noise that surely suffices;
privacy loss distributions then lower it by a secant search on log σ against log ε, a handful of compositions in
all. What is returned was priced by the same accountants that price the guarantee, and its ε is at most the target.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from reticent.accounting.conversion import epsilon_from_renyi
from reticent.accounting.curve import RenyiCurve, renyi_epsilon
from reticent.accounting.guarantees import epsilons
from reticent.accounting.pld import pld_epsilon
from reticent.core.choice import settle_choices
from reticent.core.errors import ConfigError, InternalError, TargetOutOfReach
from reticent.core.event import Repeated, Round, SampledGaussian
from reticent.core.guarantee import Neighbours
from reticent.core.printing.numbers import at_most
from reticent.core.ranges import NOISE_MULTIPLIER, STEPS

_LEAST_NOISE, _MOST_NOISE = NOISE_MULTIPLIER.low, NOISE_MULTIPLIER.high
_SEARCHED = 512.0  # orders up to which a noise that suffices is searched, at least
_PRECISION = 1e-3  # relative, of the noise multiplier or of ε, whichever is met first
_MOST_TRIES = 12
_MOST_STEPS = 1 << 40


@dataclass(frozen=True, slots=True)
class Calibration:
    """A noise multiplier and number of steps whose ε at `delta` is at most what was asked for."""

    noise_multiplier: float
    steps: int
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a training run may spend, and what is fixed about it."""

    epsilon: float
    delta: float
    sampling_rate: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    round_event: Round | None = None  # of the training, with any noise; None for a Poisson sample

    def event(self, noise_multiplier: float, steps: int) -> Repeated:
        """What this many steps with this noise release."""
        one = self.round_event or SampledGaussian(noise_multiplier, self.sampling_rate)
        if steps % one.steps:
            raise ConfigError("training takes whole rounds", found=steps, expected=f"a multiple of {one.steps}")
        return Repeated(replace(one, noise_multiplier=noise_multiplier), steps // one.steps)

    @property
    def has_renyi_price(self) -> bool:
        """Whether the round has one; else that of Poisson samples is a first guess."""
        return self.round_event is None or math.isfinite(renyi_epsilon(self.round_event, 2.0, self.neighbours))

    def __post_init__(self) -> None:
        settle_choices(self, neighbours=Neighbours)
        if not 0.0 < self.epsilon < math.inf:
            raise ConfigError("the target epsilon must be positive and finite", found=self.epsilon)
        if not 0.0 < self.delta < 1.0:
            raise ConfigError("the target delta must be in (0, 1)", found=self.delta)
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ConfigError("the sampling rate must be in (0, 1]", found=self.sampling_rate)


@lru_cache(maxsize=64)
def least_noise(target: Target, *, steps: int) -> Calibration:
    """The least noise multiplier, rounded up to four digits, whose ε over `steps` is at most the target's.

    Guarantee: the returned ε is what the accountants give for the returned noise, and is at most the target.
    """
    STEPS.require("the number of steps", steps)
    if _rdp(target, _MOST_NOISE, steps, enough=target.epsilon) > target.epsilon:
        raise _out_of_reach(target, _rdp(target, _MOST_NOISE, steps), _MOST_NOISE)

    # The best order of a Gaussian is 1 + 2 log(1/δ)/ε; those far above it cost most, at little noise above all.
    highest = max(_SEARCHED, 4.0 * math.log(1.0 / target.delta) / target.epsilon)

    def suffices(noise: float) -> bool:
        return _rdp(target, noise, steps, highest=highest, enough=target.epsilon) <= target.epsilon

    enough = _bisect(suffices)
    if enough < 1.03 * _LEAST_NOISE and suffices(_LEAST_NOISE):  # asked last: so little noise is dear to price
        enough = _LEAST_NOISE
    if not target.has_renyi_price:
        while (reached := _least(target, round_up(enough), steps)) > target.epsilon:
            if enough >= _MOST_NOISE:  # the accountant's own error, which no noise lowers, is above so small an ε
                raise _out_of_reach(target, reached, round_up(enough))
            enough = min(1.2 * enough, _MOST_NOISE)
    return _verified(target, _lower(target, round_up(enough), steps=steps), steps)


def _out_of_reach(target: Target, reached: float, noise: float) -> TargetOutOfReach:
    return TargetOutOfReach(
        "no noise reaches the target",
        found=f"ε = {at_most(reached)} at noise multiplier {noise:g}",
        expected=f"at most {target.epsilon:g}",
        hint="raise epsilon or delta, or "
        + ("lower the steps or the sampling rate" if target.has_renyi_price else "take Poisson samples"),
    )


def most_steps(target: Target, *, noise_multiplier: float) -> Calibration:
    """The most steps with a given noise whose ε is at most the target's.

    Guarantee: the returned ε is what the accountants give for the returned steps, and is at most the target.
    """

    def epsilon(steps: int) -> float:
        return _least(target, noise_multiplier, steps)

    if epsilon(1) > target.epsilon:
        raise ConfigError(
            "one step already passes the target", found=epsilon(1), expected=f"at most {target.epsilon:g}"
        )
    low = 1
    while low < _MOST_STEPS and _rdp(target, noise_multiplier, 2 * low, enough=target.epsilon) <= target.epsilon:
        low *= 2
    high = 2 * low
    while epsilon(high) <= target.epsilon:
        low, high = high, 2 * high
        if low >= _MOST_STEPS:
            return _verified(target, noise_multiplier, low)
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(middle) <= target.epsilon else (low, middle)
    return _verified(target, noise_multiplier, low)


def round_up(value: float, digits: int = 4) -> float:
    """The value rounded up to this many significant digits: more noise is the safe side."""
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return math.ceil(value * scale * (1.0 - 1e-12)) / scale


def _rdp(
    target: Target, noise: float, steps: int, *, highest: float = math.inf, enough: float = -math.inf
) -> float:
    """ε by the Rényi curve up to an order; where the round has none, that of Poisson samples is a guess.

    The first ε that is at most `enough` will do.
    """
    guess = Repeated(SampledGaussian(noise, target.sampling_rate), steps)
    event = target.event(noise, steps) if target.has_renyi_price else guess
    curve = RenyiCurve(event, target.neighbours)
    return curve.minimise(
        lambda a, d: epsilon_from_renyi(a, d, delta=target.delta), highest=highest, enough=enough
    )[0]


def _least(target: Target, noise: float, steps: int) -> float:
    """ε by the privacy loss distribution, by the Rényi curve only where the former cannot say."""
    event = target.event(noise, steps)
    by_loss = pld_epsilon(event, delta=target.delta, neighbours=target.neighbours)
    return _rdp(target, noise, steps) if math.isinf(by_loss) and target.has_renyi_price else by_loss


def _verified(target: Target, noise: float, steps: int) -> Calibration:
    """What all accountants together say of the result; refuses to return one that passes the target."""
    event = target.event(noise, steps)
    epsilon = epsilons(event, delta=target.delta, neighbours=target.neighbours).least
    if epsilon > target.epsilon:
        raise InternalError(f"calibration found ε={epsilon:g}, above its target {target.epsilon:g}")
    return Calibration(noise, steps, epsilon, target.delta)


def _bisect(suffices: Callable[[float], bool]) -> float:
    """A noise that suffices, at most 2 % above the least such, by halving its logarithm."""
    low, high = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
    while high - low > 0.02:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if suffices(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _lower(target: Target, noise: float, *, steps: int) -> float:
    """Lower a noise that suffices as far as the accountants allow."""
    best, best_epsilon = noise, _least(target, noise, steps)
    floor, floor_epsilon = _LEAST_NOISE, math.inf
    slope = -2.0  # d log ε / d log σ, a first guess; ε is steeper than that below σ = 1
    for _ in range(_MOST_TRIES):
        close = target.epsilon <= best_epsilon * (1.0 + _PRECISION)
        if close or best <= floor * (1.0 + _PRECISION) or best_epsilon == 0.0:
            break
        if math.isfinite(floor_epsilon):
            slope = math.log(best_epsilon / floor_epsilon) / math.log(best / floor)
        # Aim a third of the precision below the target, so that the guess tends to suffice.
        aim = math.log(target.epsilon / best_epsilon) - _PRECISION / 3.0
        guess = round_up(max(best * math.exp(aim / slope), floor))
        if not floor < guess < best:
            guess = round_up(math.sqrt(floor * best))
        if not floor < guess < best:
            break
        epsilon = _least(target, guess, steps)
        slope = min(-0.5, math.log(epsilon / best_epsilon) / math.log(guess / best))
        if epsilon <= target.epsilon:
            best, best_epsilon = guess, epsilon
        else:
            floor, floor_epsilon = guess, epsilon
    return best
