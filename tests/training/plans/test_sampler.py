"""Samplers: Poisson batches really are Poisson, and the test that says so catches shuffled ones."""

import numpy as np
import pytest

from reticent.accounting.curve import renyi_epsilon
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.training.plans.sampler import (
    SAMPLERS,
    AllocationSampler,
    BandedSampler,
    PoissonSampler,
    SamplerName,
    ShuffledEpochs,
    sampler_of,
)

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


def contradictions(sampler) -> list[str]:
    """What a sampler says of itself that is not so."""
    event = sampler.round_event(1.3)
    truths = {
        "steps of a round": sampler.steps_per_round == event.steps,
        "whole rounds": sampler.steps(2.0) % event.steps == 0,
        "noise": event.noise_multiplier == 1.3,
        "price": sampler.has_renyi_price == np.isfinite(renyi_epsilon(event, 2.0, Neighbours.ADD_REMOVE)),
        "correlated noise": sampler.is_correlated == (sampler.bands is not None),
        "expected batch": sampler.expected_batch <= sampler.batch,
    }
    return [name for name, is_true in truths.items() if not is_true]


@pytest.mark.parametrize("name", SamplerName)
def test_a_sampler_says_of_itself_what_is_so(name):
    assert name in SAMPLERS
    assert contradictions(sampler_of(name, 60, 7, bands=4 if SAMPLERS[name].is_correlated else None)) == []


@pytest.mark.parametrize(
    ("kind", "claim", "caught"),
    [
        (AllocationSampler, {"has_renyi_price": True}, "price"),
        (BandedSampler, {"is_correlated": False}, "correlated noise"),
        (BandedSampler, {"steps_per_round": 1}, "steps of a round"),
        (PoissonSampler, {"steps_per_round": 2}, "steps of a round"),
    ],
)
def test_a_sampler_that_claims_what_is_not_so_is_caught(kind, claim, caught):
    twin = type("Twin", (kind,), claim)
    assert contradictions(twin(60, 7, *([4] if kind is BandedSampler else []))) == [caught]
