"""Who takes part in a step: a Poisson sample for private training, shuffled epochs for plain training.

    Poisson     each of N units is in the batch with chance q = B/N, independently of all others and of every
                other step; the size of a batch is Binomial(N, q): now and then empty, now and then large
    shuffled    each epoch is a random order of all units, cut into batches of B

The accountants price Poisson sampling. Shuffling with the same numbers is another mechanism with a larger ε
(Chua et al. 2024), so the two are different types and a private plan takes the first alone.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.core.ranges import EPOCHS, STEPS

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Batches of `batch` units on average out of `units`: the public constants from which the rate follows."""

    units: int
    batch: int

    def __post_init__(self) -> None:
        _check(self.units, self.batch)

    @property
    def rate(self) -> float:
        """The chance of a unit to be in a batch."""
        return self.batch / self.units

    def steps(self, epochs: float) -> int:
        """Steps after which a unit has taken part `epochs` times on average, at least one."""
        return _steps(self.units, self.batch, epochs)

    def with_canaries(self, canaries: int) -> "PoissonSampler":
        """So many units more, at the same rate: the batch grows with the units and is rounded upwards."""
        units = self.units + canaries
        return PoissonSampler(units, min(units, math.ceil(self.rate * units - 1e-9)))

    def draw(self, randomness: Randomness) -> Indices:
        """The units of one step, in order of their index.

        Guarantee: every unit is in the sample with chance `rate`, independently of the others and of other calls.
        """
        return randomness.bernoulli(self.rate, self.units)


class Sampling(StrEnum):
    """The samplers that an accountant prices, by name."""

    POISSON = "poisson"


def sampler_of(sampling: Sampling | str, units: int, batch: int) -> PoissonSampler:
    """The sampler of this name; an unknown one is refused."""
    if sampling not in set(Sampling):
        raise ConfigError(
            "no accountant prices this sampler", found=str(sampling), expected=" or ".join(map(str, Sampling))
        )
    return PoissonSampler(units, batch)


@dataclass(frozen=True, slots=True)
class ShuffledEpochs:
    """A random order of all units for each epoch, cut into batches: any step can be asked for by its number."""

    units: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        _check(self.units, self.batch)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one epoch; the last one may be smaller."""
        return math.ceil(self.units / self.batch)

    def batch_at(self, step: int) -> Indices:
        """The units of a step; the same step gives the same units, so a resumed run goes on where it was."""
        epoch, place = divmod(step, self.steps_per_epoch)
        order = Randomness.seeded(self.seed).child(f"epoch {epoch}").permutation(self.units)
        return order[place * self.batch : (place + 1) * self.batch]


def _steps(units: int, batch: int, epochs: float) -> int:
    EPOCHS.require("the number of epochs", epochs)
    steps = max(1, math.ceil(epochs * units / batch - 1e-9))
    STEPS.require("the number of steps", steps, hint="lower --epochs, or raise --batch")
    return steps


def _check(units: int, batch: int) -> None:
    if units < 1:
        raise ConfigError("there is nothing to train on", found=f"{units} units")
    if not 1 <= batch <= units:
        raise ConfigError(
            "the batch must hold at least one unit and at most all of them",
            found=batch,
            expected=f"1 to {units}",
            hint="lower --batch",
        )
