"""Who takes part in a step: Poisson samples, allocation or cycles in private training, shuffled epochs in plain.

    Poisson     each of N units is in the batch with chance q = B/N, independently of all others and of every
                other step; the size of a batch is Binomial(N, q): sometimes empty, sometimes large
    allocation  in each epoch every unit is put into one of t = N/B batches, at random and independently of all
                others ("balls in bins"): each unit exactly once an epoch; batches differ in size
    banded      every unit belongs to one of b steps, drawn once at random; in each cycle of b steps it is in the
                batch of that step with chance q·b, independently: for noise correlated over b steps (`bands`)
    shuffled    each epoch is a random order of all units, cut into batches of B

The accountants price the first three. Shuffling with the same numbers is another mechanism with a larger ε (Chua et
al. 2024): with batches of fixed size, the position of one unit depends on the others. So they are different types.

A **round** is what is drawn and charged at once: one Poisson step, an epoch of random allocation, or a cycle.
If the rest of a round is lost in a crash, it must not be drawn again: a unit that took part would get a second
chance.

Each sampler says of itself what others must know:

    label, explained   what it is called, and what it does, in the help of `--sampler`
    is_correlated      whether its noise is correlated over the `bands` of a cycle: places in the cycle and earlier
                       noise are then kept between rounds, so that one process takes all steps
    has_renyi_price    whether its round has one: what the best of several runs costs (`--tune`) follows from it
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final, get_args

import numpy as np
from numpy.typing import NDArray

from reticent.core.errors import ConfigError
from reticent.core.event import BandedCycle, RandomAllocation, SampledGaussian
from reticent.core.randomness import Randomness
from reticent.core.ranges import EPOCHS, STEPS

Indices = NDArray[np.int64]


class SamplerName(StrEnum):
    """The samplers that an accountant prices, by name."""

    POISSON = "poisson"
    ALLOCATION = "allocation"
    BANDED = "banded"


@dataclass(frozen=True, slots=True)
class PoissonSampler:
    """Batches of `batch` units on average out of `units`: the public constants from which the rate follows."""

    name: ClassVar[SamplerName] = SamplerName.POISSON
    label: ClassVar[str] = "Poisson samples"
    explained: ClassVar[str] = "independently"
    is_correlated: ClassVar[bool] = False
    has_renyi_price: ClassVar[bool] = True
    bands: ClassVar[None] = None

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

    @property
    def steps_per_round(self) -> int:
        """A step is drawn by itself."""
        return 1

    @property
    def expected_batch(self) -> float:
        """Units of a step on average."""
        return float(self.batch)

    def round_event(self, noise_multiplier: float) -> SampledGaussian:
        """What one step with this noise releases."""
        return SampledGaussian(noise_multiplier, self.rate)

    def draw_round(self, randomness: Randomness) -> tuple[Indices, ...]:
        """The units of the one step of a round, in order of their index.

        Guarantee: every unit is in the sample with chance `rate`, independently of the others and of other calls.
        """
        return (randomness.bernoulli(self.rate, self.units),)


@dataclass(frozen=True, slots=True)
class AllocationSampler:
    """Every unit in exactly one of the batches of an epoch, of about `batch` units each."""

    name: ClassVar[SamplerName] = SamplerName.ALLOCATION
    label: ClassVar[str] = "random allocation"
    explained: ClassVar[str] = "each unit in exactly one step per epoch"
    is_correlated: ClassVar[bool] = False
    has_renyi_price: ClassVar[bool] = False
    bands: ClassVar[None] = None

    units: int
    batch: int

    def __post_init__(self) -> None:
        _check(self.units, self.batch)

    @property
    def steps_per_round(self) -> int:
        """Batches of an epoch."""
        return math.ceil(self.units / self.batch)

    @property
    def expected_batch(self) -> float:
        """Units of a step on average: at most `batch`."""
        return self.units / self.steps_per_round

    @property
    def rate(self) -> float:
        """The chance of a unit to be in a given batch."""
        return 1.0 / self.steps_per_round

    def steps(self, epochs: float) -> int:
        """Steps of so many epochs, which are rounded up: half an epoch has no price of its own."""
        EPOCHS.require("the number of epochs", epochs)
        steps = self.steps_per_round * max(1, math.ceil(epochs - 1e-9))
        STEPS.require("the number of steps", steps, hint="lower --epochs, or raise --batch")
        return steps

    def round_event(self, noise_multiplier: float) -> RandomAllocation:
        """What one epoch with this noise releases."""
        return RandomAllocation(noise_multiplier, self.steps_per_round)

    def draw_round(self, randomness: Randomness) -> tuple[Indices, ...]:
        """The units of each step of one epoch, in order of their index.

        Guarantee: every unit is in exactly one step, uniformly, independently of the others and of other calls.
        """
        places = randomness.integers(self.steps_per_round, self.units)
        return tuple(np.flatnonzero(places == step) for step in range(self.steps_per_round))


@dataclass(frozen=True, slots=True)
class BandedSampler:
    """Cycles of `bands` steps of `batch` units on average; a unit belongs to one step of every cycle."""

    name: ClassVar[SamplerName] = SamplerName.BANDED
    label: ClassVar[str] = "correlated noise"
    explained: ClassVar[str] = "with noise correlated over a cycle of steps, at most once per cycle"
    is_correlated: ClassVar[bool] = True
    has_renyi_price: ClassVar[bool] = True

    units: int
    batch: int
    bands: int

    def __post_init__(self) -> None:
        _check(self.units, self.batch)
        if not 1 <= self.bands * self.batch <= self.units:
            raise ConfigError(
                "a cycle of steps must not need more units than there are",
                found=f"{self.bands} bands and a batch of {self.batch}",
                expected=f"at most {self.units // self.batch} bands for {self.units:,} units",
                hint="lower --bands or --batch",
            )

    @property
    def steps_per_round(self) -> int:
        """Steps of a cycle."""
        return self.bands

    @property
    def expected_batch(self) -> float:
        """Units of a step on average."""
        return float(self.batch)

    @property
    def rate(self) -> float:
        """The chance of a unit to be in the batch of its own step of a cycle."""
        return self.bands * self.batch / self.units

    def steps(self, epochs: float) -> int:
        """Steps of so many epochs, in whole cycles."""
        return self.bands * math.ceil(_steps(self.units, self.batch, epochs) / self.bands)

    def places(self, randomness: Randomness) -> Indices:
        """The step of every cycle that each unit belongs to [units]; drawn once for a run."""
        return randomness.integers(self.bands, self.units)

    def round_event(self, noise_multiplier: float) -> BandedCycle:
        """What one cycle with this noise releases."""
        return BandedCycle(noise_multiplier, self.rate, self.bands)

    def draw_round(self, randomness: Randomness, places: Indices) -> tuple[Indices, ...]:
        """The units of each step of a cycle, in order of their index.

        Guarantee: a unit is in no batch but that of its own place, there with chance `rate`, independently of the
        others and of other calls.
        """
        drawn = randomness.bernoulli(self.rate, self.units)
        return tuple(drawn[places[drawn] == step] for step in range(self.bands))


PrivateSampler = PoissonSampler | AllocationSampler | BandedSampler
SAMPLERS: Final[dict[str, type[PrivateSampler]]] = {each.name: each for each in get_args(PrivateSampler)}


def audited_sampler(sampler: PrivateSampler, canaries: int) -> PrivateSampler:
    """The sampler with so many units more, which take part as often: the batch grows too, rounded upwards."""
    units = sampler.units + canaries
    batch = math.ceil(sampler.expected_batch * units / sampler.units - 1e-9)
    return replace(sampler, units=units, batch=min(batch, units // (sampler.bands or 1)))


def sampler_of(name: str, units: int, batch: int, *, bands: int | None = None) -> PrivateSampler:
    """The sampler of this name; an unknown one is refused."""
    kind = SAMPLERS.get(name)
    if (kind is not None and kind.is_correlated) != (bands is not None):
        raise ConfigError(
            "bands belong to the sampler 'banded', which needs them",
            found=f"sampler '{name}', bands {'none' if bands is None else bands}",
            hint="--sampler banded --bands 8",
        )
    if kind is None:
        raise ConfigError("no accountant prices this sampler", found=name, expected=" or ".join(SamplerName))
    return kind(units, batch, *([] if bands is None else [bands]))


def check_sampler(sampler: PrivateSampler, steps: int) -> None:
    """Refuse a sampler that no accountant prices, and a number of steps that is not made of whole rounds."""
    kinds = SAMPLERS.values()
    if type(sampler) not in kinds:
        raise ConfigError(
            "no accountant prices this sampler",
            found=type(sampler).__name__,
            expected=" or ".join(each.__name__ for each in kinds),
            hint="shuffled batches have no guarantee; draw Poisson samples or allocate",
        )
    if steps % sampler.steps_per_round:
        raise ConfigError(
            "random allocation needs whole epochs, and correlated noise whole cycles",
            found=f"{steps} steps",
            expected=f"a multiple of {sampler.steps_per_round}",
        )


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
