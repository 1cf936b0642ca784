"""Who takes part in the steps of a run, and what a canary's projections say of that.

A canary's projections [T, N] (`core.evidence.canary_trace`) are 1 where it takes part, plus noise σ. For each way
of drawing the steps of a run stand here, side by side: the exact log-likelihood ratio of "member" to "not a
member", draws as the declared mechanism makes them, and a score for each fault of sampling and clipping
(`mechanism`).

    Poisson       Σ_t log(1 − q + q Y_t)                       Y_t = exp((x_t − ½)/σ²), the odds of one step
    allocation    Σ_epochs log(1/t Σ_i Y_i)                    one of the t steps of each epoch
    cycles        as Poisson, one number a cycle               `matched`: correlated noise is undone first

**Correlated noise** (`training.plans.bands`): releasing x = g + C⁻¹z is releasing Cx = Cg + z. A canary that takes
part in step s adds the column of C at s, so all that is known of it in that cycle is ⟨column, Cx⟩, over the
column's length: 1 at most where it took part, with noise σ. Columns of one canary do not overlap. Its place in a
cycle is taken as known, as in the proof.
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from reticent.core.arrays import Flags, Floats
from reticent.core.errors import UsageError
from reticent.core.event import BandedCycle, Gaussian, RandomAllocation, Repeated, Round, SampledGaussian
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.randomness import Randomness

LONG: Final = "contributions above the clip norm"
OFTEN: Final = "members drawn too often"
SHUFFLED: Final = "one draw in each pass, not Poisson samples"


class Draws(Protocol):
    """How members are drawn."""

    def log_ratios(self, projections: Floats, deviation: float) -> Floats:
        """log P/Q [N] of all steps [T, N], P with the canary as a member and Q without."""
        ...

    def made_up(self, shape: tuple[int, int], randomness: Randomness) -> Flags:
        """Draws [T, N] as the declared mechanism makes them."""
        ...

    def fault_scores(self, projections: Floats, deviation: float) -> dict[str, Floats]:
        """How much each canary [N] of steps [T, N] speaks for each fault."""
        ...


@dataclass(frozen=True, slots=True)
class PoissonDraws:
    """In each step with chance `rate`, independently."""

    rate: float

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 1.0:
            raise ValueError("a sampling rate lies in (0, 1]")

    def log_ratios(self, projections: Floats, deviation: float) -> Floats:
        """Σ_t log(1 − q + q Y_t)."""
        return np.asarray(self._mixed(_log_odds(projections, deviation)).sum(0))

    def made_up(self, shape: tuple[int, int], randomness: Randomness) -> Flags:
        """A coin of this rate for each step and canary."""
        return np.asarray(randomness.uniform(shape) < self.rate)

    def fault_scores(self, projections: Floats, deviation: float) -> dict[str, Floats]:
        """Scores of the likelihood in length and rate, and one draw a pass; without sampling the length alone."""
        if self.rate == 1.0:
            return {LONG: projections.sum(0)}
        odds = _log_odds(projections, deviation)
        mixed = self._mixed(odds)
        drawn = np.exp(math.log(self.rate) + odds - mixed)  # chance, given the projection
        often = np.exp(odds - mixed) - np.exp(-mixed)
        return {
            LONG: (drawn * (projections - 1.0)).sum(0),
            OFTEN: often.sum(0),
            SHUFFLED: self._once_a_pass(odds, mixed),
        }

    def _mixed(self, odds: Floats) -> Floats:
        if self.rate == 1.0:
            return odds
        return np.asarray(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + odds))

    def _once_a_pass(self, odds: Floats, mixed: Floats) -> Floats:
        """log of one draw in each 1/q steps over independent draws [N]; a pass cut short has one or none."""
        steps, total = max(1, round(1.0 / self.rate)), np.zeros(odds.shape[1])
        for start in range(0, len(odds), steps):
            part = odds[start : start + steps]
            none = math.log((steps - len(part)) / steps) if len(part) < steps else -math.inf
            once = np.logaddexp.reduce(part, axis=0) - math.log(steps)
            total += np.logaddexp(none, once) - mixed[start : start + steps].sum(0)
        return total


@dataclass(frozen=True, slots=True)
class AllocatedDraws:
    """In exactly one of the `batches` steps of each epoch, uniformly. That batches differ in size is not seen."""

    batches: int

    def log_ratios(self, projections: Floats, deviation: float) -> Floats:
        """Σ_epochs log(1/t Σ_i Y_i)."""
        return np.asarray(self._once(self._epochs(_log_odds(projections, deviation))).sum(0))

    def made_up(self, shape: tuple[int, int], randomness: Randomness) -> Flags:
        """One step of each epoch for each canary."""
        steps, canaries = shape
        places = randomness.integers(self.batches, steps // self.batches * canaries).reshape(-1, 1, canaries)
        return np.asarray(places == np.arange(self.batches)[None, :, None]).reshape(shape)

    def fault_scores(self, projections: Floats, deviation: float) -> dict[str, Floats]:
        """Score of the likelihood in length, and likelihood ratio of two draws an epoch to one."""
        odds = self._epochs(_log_odds(projections, deviation))  # [E, t, N]
        once = self._once(odds)  # [E, N]
        drawn = np.exp(odds - math.log(self.batches) - once[:, None, :])
        scores = {LONG: (drawn * (self._epochs(projections) - 1.0)).sum((0, 1))}
        if self.batches == 1:
            return scores
        # Σ_{i<j} Y_i Y_j = ((Σ Y)² − Σ Y²) / 2
        both, same = 2.0 * np.logaddexp.reduce(odds, axis=1), np.logaddexp.reduce(2.0 * odds, axis=1)
        twice = both + np.log(-np.expm1(np.minimum(same - both, -1e-12))) - math.log(self.batches**2 - self.batches)
        return scores | {OFTEN: (twice - once).sum(0)}

    def _epochs(self, values: Floats) -> Floats:
        """[T, N] as [E, t, N]."""
        if len(values) % self.batches:
            raise ValueError("random allocation releases whole epochs")
        return values.reshape(-1, self.batches, values.shape[1])

    def _once(self, odds: Floats) -> Floats:
        return np.asarray(np.logaddexp.reduce(odds, axis=1) - math.log(self.batches))


def draws_of(event: Repeated) -> Draws:
    """How the run of this event draws members; with correlated noise, over the rows of `matched`."""
    match event.event:
        case Gaussian():
            return PoissonDraws(1.0)
        case SampledGaussian(_, rate) | BandedCycle(_, rate):
            return PoissonDraws(rate)
        case RandomAllocation(_, batches):
            return AllocatedDraws(batches)
        case other:
            raise UsageError("gradient canaries measure repeated Gaussian steps", found=type(other).__name__)


def steps_of(event: Repeated) -> tuple[int, int]:
    """The fewest and the most released steps from which a run of this event is measured.

    Which step belongs to which epoch or cycle is known only where every step was released.
    """
    if not isinstance(event.event, Round):
        raise UsageError("gradient canaries measure rounds of training", found=type(event.event).__name__)
    most = event.count * event.event.steps
    return 1 if isinstance(event.event, Gaussian | SampledGaussian) else most, most


def matched(trace: CanaryTrace, strategy: tuple[float, ...]) -> CanaryTrace:
    """What a run with noise correlated by `strategy` shows of each canary, a row a cycle, with independent noise.

    Guarantee: for canaries that keep their places the noise of the rows is independent, with the deviation of the
    fresh noise; one that takes part in a cycle adds at most 1 to its row.
    """
    bands, (steps, canaries) = len(strategy), trace.projections.shape
    if trace.places is None or steps % bands:
        raise UsageError("canaries among correlated noise are measured by their places in whole cycles")
    fresh = np.zeros((steps + bands - 1, canaries))  # Cx, and zeros behind the last step
    for back, coefficient in enumerate(strategy):
        fresh[back:steps] += coefficient * trace.projections[: steps - back]
    starts = np.arange(0, steps, bands)[:, None] + trace.places  # [cycles, N]
    total, squares = np.zeros(starts.shape), np.zeros(starts.shape)
    for ahead, coefficient in enumerate(strategy):
        total += coefficient * np.take_along_axis(fresh, starts + ahead, axis=0)
        squares += np.where(starts + ahead < steps, coefficient**2, 0.0)
    return CanaryTrace(total / np.sqrt(squares), trace.is_member)


def _log_odds(projections: Floats, deviation: float) -> Floats:
    """log Y [T, N]."""
    if not deviation > 0.0:
        raise ValueError("a likelihood ratio needs a positive deviation")
    return (projections - 0.5) / deviation**2
