"""Samplers: Poisson batches really are Poisson, and the test that says so catches shuffled ones."""

import numpy as np
import pytest

from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.training.plans.sampler import PoissonSampler, ShuffledEpochs

UNITS, BATCH, STEPS = 60, 6, 3000


def violations(batches: list[np.ndarray], units: int, rate: float) -> list[str]:
    """In which ways batches are not Poisson samples; each bound is five standard deviations (1e-6 a comparison)."""
    sizes = np.array([len(batch) for batch in batches], dtype=float)
    member = np.zeros((len(batches), units))
    for step, batch in enumerate(batches):
        member[step, batch] = 1.0
    n, variance = len(batches), units * rate * (1 - rate)
    found = []
    if abs(sizes.mean() - units * rate) > 5 * np.sqrt(variance / n):
        found.append("mean size")
    # Var of a sample variance is about 2 v²/n for a nearly normal size.
    if abs(sizes.var() - variance) > 5 * variance * np.sqrt(2.2 / n):
        found.append("variance of the size")
    if np.abs(member.mean(axis=0) - rate).max() > 5 * np.sqrt(rate * (1 - rate) / n):
        found.append("rate of a unit")
    again = (member[:-1] * member[1:]).mean()  # the same unit in two steps that follow each other
    if abs(again - rate**2) > 5 * np.sqrt(rate**2 / (n * units)):
        found.append("independence of steps")
    return found


def test_poisson_batches_have_binomial_sizes_and_independent_members():
    sampler, source = PoissonSampler(UNITS, BATCH), Randomness.seeded(11)
    assert violations([sampler.draw_round(source)[0] for _ in range(STEPS)], UNITS, sampler.rate) == []


def test_the_check_catches_shuffled_batches_of_the_same_size():
    shuffled = ShuffledEpochs(UNITS, BATCH, seed=1)
    found = violations([shuffled.batch_at(step) for step in range(STEPS)], UNITS, BATCH / UNITS)
    assert "variance of the size" in found
    assert "independence of steps" in found


def test_the_check_catches_a_sampler_that_never_gives_an_empty_batch():
    sampler, source = PoissonSampler(UNITS, 1), Randomness.seeded(2)

    def stubborn() -> np.ndarray:
        while not len(drawn := sampler.draw_round(source)[0]):
            pass
        return drawn

    assert violations([stubborn() for _ in range(STEPS)], UNITS, sampler.rate)


def test_empty_batches_happen_as_often_as_they_must():
    sampler, source = PoissonSampler(10, 1), Randomness.seeded(4)
    empty = sum(not len(sampler.draw_round(source)[0]) for _ in range(2000))
    assert abs(empty / 2000 - 0.9**10) < 5 * np.sqrt(0.349 * 0.651 / 2000)


def test_shuffled_epochs_visit_every_unit_once_each_in_another_order_and_can_be_asked_again():
    sampler = ShuffledEpochs(10, 4, seed=9)
    epochs = [
        np.concatenate([sampler.batch_at(3 * epoch + place) for place in range(3)]).tolist() for epoch in range(2)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]
    assert sampler.batch_at(4).tolist() == ShuffledEpochs(10, 4, seed=9).batch_at(4).tolist()


def test_steps_cover_the_epochs():
    assert PoissonSampler(100, 10).steps(3.0) == 30
    assert PoissonSampler(100, 30).steps(1.0) == 4
    assert PoissonSampler(100, 100).steps(0.1) == 1
    with pytest.raises(ConfigError):
        PoissonSampler(100, 10).steps(0.0)


@pytest.mark.parametrize(("units", "batch"), [(0, 1), (10, 0), (10, 11), (10, -1)])
def test_impossible_batches_are_refused(units, batch):
    with pytest.raises(ConfigError):
        PoissonSampler(units, batch)
    with pytest.raises(ConfigError):
        ShuffledEpochs(units, batch, seed=0)
