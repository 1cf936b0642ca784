"""One-run audit of a known mechanism: which "plan with less noise" explains so many right guesses?

A plan (sampling, clipping, Gaussian noise) with its noise multiplied by s is a family of one number. For s
the number of right guesses of r of m coins is at most that of `accounting.bounds.guessing`, from the plan's own
privacy loss distribution. More noise is post-processing of less, so the p-value falls as s grows, and the least s
that is refuted bounds the family from one side:

    noise multiplier < s · σ,   hence   ε(δ) ≥ ε of the plan with s · σ

Refuting s = 1 refutes the plan as it was priced. The scores may be anything: the bound holds for every guesser.

What it rests on beside fair coins: the gradients of the canaries are orthogonal, so that one's coin tells nothing
of another's. It speaks of the family: a mechanism outside of it (noise that was drawn once for two steps, say) can
be refuted as this plan, and then the printed ε is that of the family's member with as many right guesses.

The bound lies above the plan's own ε only where the plan itself is refuted, both at one confidence. A nearly tight
bound at 95 % would accuse one honest plan in twenty: choose the confidence at which you would accuse.

How many coins are guessed is chosen beforehand, from the plan alone: the number that would find most if all is as
planned. No share of the error goes to other numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from reticent.accounting.bounds.guessing import GuessingCurve
from reticent.accounting.pld import PrivacyProfile
from reticent.auditing.metrics.one_run import EpsilonBound
from reticent.auditing.metrics.roc import as_scores
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import Event, Repeated, Round
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness

ORTHOGONAL: Final = "each canary was included by its own fair coin, and their gradients are orthogonal"
_SHARES: Final = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03)
_SCALES: Final = (6.0, 4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.35, 1.25, 1.15, 1.1, 1.05)
_LEAST, _MOST = 2.0**-4, 2.0**6  # of the noise, as multiples of the plan's
_BISECTIONS: Final = 7  # to half a percent of the noise
_GRID: Final = 4e-3  # what discretisation may add to ε, and is taken off it again


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyBound:
    """What one run says of a plan: `scale` times its noise is refuted, all that is more noise too.

    `p_value` is that of the plan itself, `refutes_plan` whether it is within the error of the bound. `scale` is
    infinite where nothing was found.
    """

    bound: EpsilonBound
    p_value: float
    scale: float
    guesses: int
    correct: int
    refutes_plan: bool


class PlanFamily:
    """The plan with s times its noise, for every s."""

    def __init__(self, event: Event) -> None:
        """`event` is the whole run: rounds of one kind, of Gaussian steps that may be sampled."""
        steps = event if isinstance(event, Repeated) else Repeated(event, 1)
        if not isinstance(steps.event, Round):
            raise UnsupportedEvent("a plan with less noise is known for repeated Gaussian steps alone")
        self._step, self._count = steps.event, steps.count
        self._made: dict[float, tuple[PrivacyProfile, GuessingCurve]] = {}

    def member(self, scale: float) -> tuple[PrivacyProfile, GuessingCurve]:
        """δ(ε) and the guessing curve of the plan with `scale` times its noise; kept."""
        if scale not in self._made:
            step = replace(self._step, noise_multiplier=scale * self._step.noise_multiplier)
            profile = PrivacyProfile(Repeated(step, self._count), Neighbours.ADD_REMOVE, tolerance=_GRID)
            self._made[scale] = profile, GuessingCurve.of(profile)
        return self._made[scale]

    def p_value(self, scale: float, m: int, *, guesses: int, correct: int) -> float:
        """Chance of so many right guesses under that member, at most."""
        return self.member(scale)[1].p_value(m, guesses, correct=correct)

    def best_guesses(self, m: int, *, error: float) -> int:
        """How many of m coins to guess: what refutes the least noise, if the plan is what happens.

        Follows from public facts alone.
        """
        counts = sorted({max(1, round(share * m)) for share in _SHARES}, reverse=True)
        planned = self.member(1.0)[1]
        expected = [int(r * planned.chance(np.array([r / m]))[0]) for r in counts]
        best = counts[0]
        for scale in _SCALES:  # from most noise to the plan's own
            found = [
                self.p_value(scale, m, guesses=r, correct=right) for r, right in zip(counts, expected, strict=True)
            ]
            if scale < _SCALES[0] and min(found) > error:
                break
            best = counts[int(np.argmin(found))]
        return best


@lru_cache(maxsize=4)
def plan_family(event: Event) -> PlanFamily:
    """The family of a run's event, whose members are computed once and kept."""
    return PlanFamily(event)


def one_run_epsilon_by_family(
    scores: ArrayLike,
    is_included: ArrayLike,
    *,
    family: PlanFamily,
    delta: float,
    confidence: float = 0.95,
    guesses: int | None = None,
    randomness: Randomness | None = None,
) -> FamilyBound:
    """The ε at `delta` of the plan with the least noise that one run refutes.

    `scores` are log-likelihood ratios: above 0 a coin is guessed "in", else "out", those farthest from 0 first.

    Guarantee: a plan of the family, with canaries as `assumes` says, exceeds its own ε here or is refuted with
    chance at most 1 − confidence, over the coins and the training. Unless it is refuted the bound is below its ε.
    """
    if not 0.0 < confidence < 1.0 or not 0.0 <= delta <= 1.0:
        raise ValueError("delta must be in [0, 1] and confidence in (0, 1)")
    error, included = 1.0 - confidence, np.asarray(is_included)
    m = len(included)
    chosen = guesses or family.best_guesses(m, error=error)
    correct = right_guesses(scores, is_included, guesses=chosen, randomness=randomness)

    def p_value(scale: float) -> float:
        return family.p_value(scale, m, guesses=chosen, correct=correct)

    scale = _least_refuted(lambda scale: p_value(scale) <= error)
    found = 0.0 if scale == np.inf else max(0.0, family.member(scale)[0].epsilon(delta) - _GRID)
    bound = EpsilonBound(
        epsilon=found, delta=delta, confidence=confidence, n=m, method="one run, plan", assumes=ORTHOGONAL
    )
    return FamilyBound(
        bound=bound,
        p_value=p_value(1.0),
        scale=scale,
        guesses=chosen,
        correct=correct,
        refutes_plan=p_value(1.0) <= error,
    )


def right_guesses(scores: ArrayLike, is_included: ArrayLike, *, guesses: int, randomness: Randomness | None) -> int:
    """How many of the surest guesses are right. Labels are used to count, never to guess; ties fall by chance."""
    values = as_scores(scores, name="one-run scores")  # [m]
    included = np.asarray(is_included)
    if included.dtype != np.bool_ or included.shape != values.shape:
        raise ValueError(f"inclusion must be booleans of shape {values.shape}, found {included.shape}")
    if not 1 <= guesses <= len(values):
        raise ValueError(f"between 1 and {len(values)} guesses are possible, found {guesses}")
    source = randomness or Randomness.seeded(0)
    shuffled = source.permutation(len(values))
    order = shuffled[np.argsort(-np.abs(values[shuffled]), kind="stable")][:guesses]
    coins = source.uniform(guesses) < 0.5  # for scores of exactly 0
    guessed = np.where(values[order] == 0.0, coins, values[order] > 0.0)
    return int((guessed == included[order]).sum())


def _least_refuted(refutes: Callable[[float], bool]) -> float:
    """Least scale that is refuted, by a test that refutes all larger ones too; infinite where none is."""
    low, high = 1.0, 1.0
    if refutes(1.0):
        while refutes(low) and low > _LEAST:
            high, low = low, low / 2.0
        if high == low or (low <= _LEAST and refutes(low)):
            return low
    else:
        while not refutes(high):
            low, high = high, high * 2.0
            if high > _MOST:
                return np.inf
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return high
