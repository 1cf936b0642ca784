"""Canaries in random allocation and among correlated noise: exact scores, sound levels, broken twins found."""

from itertools import product

import numpy as np
import pytest

from reticent.auditing.attacks.one_run import mechanism
from reticent.auditing.attacks.one_run.draws import AllocatedDraws, draws_of, matched
from reticent.auditing.attacks.one_run.gradient_canaries import measure_trace
from reticent.auditing.metrics.one_run_family import one_run_epsilon_by_family, plan_family
from reticent.core.errors import UsageError
from reticent.core.event import BandedCycle, NonPrivate, RandomAllocation, Repeated
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.randomness import Randomness
from reticent.training.plans.bands import coefficients

DELTA, CANARIES = 1e-5, 1000
ALLOCATED = Repeated(RandomAllocation(0.6, 10), 5)
BANDS, NOISE = 4, 0.5
BANDED = Repeated(BandedCycle(NOISE, 0.4, BANDS), 8)
STRATEGY = coefficients(BANDS, BANDED.count * BANDS)


def allocated(rng, *, noise=1.0, length=1.0, draws=1, canaries=CANARIES, sees=True):
    """A trace of random allocation, or of a twin that draws every unit more than once an epoch."""
    step, epochs = ALLOCATED.event, ALLOCATED.count
    order = rng.random((epochs, step.batches, canaries)).argsort(1)
    drawn = (order < draws).reshape(-1, canaries)
    coins = rng.random(canaries) < 0.5
    released = length * (drawn & coins) + noise * step.noise_multiplier * rng.standard_normal(drawn.shape)
    return CanaryTrace(released, coins if sees else rng.random(canaries) < 0.5)


def banded(rng, *, noise=1.0, length=1.0, everywhere=False, canaries=CANARIES, sees=True):
    """A trace of correlated noise, or of a twin that draws units in all steps of a cycle."""
    steps = BANDED.count * BANDS
    places, coins = rng.integers(0, BANDS, canaries), rng.random(canaries) < 0.5
    own = np.arange(steps)[:, None] % BANDS == places
    drawn = (rng.random((steps, canaries)) < BANDED.event.sampling_rate) & (own | everywhere) & coins
    fresh = noise * NOISE * rng.standard_normal((steps, canaries))
    added = np.zeros_like(fresh)
    for step in range(steps):
        added[step] = fresh[step]
        for back in range(1, min(BANDS, step + 1)):
            added[step] -= STRATEGY[back] * added[step - back]
        added[step] /= STRATEGY[0]
    return CanaryTrace(length * drawn + added, coins if sees else rng.random(canaries) < 0.5, places)


def measured(event, trace):
    deviation = event.event.noise_multiplier
    strategy = STRATEGY if event is BANDED else (1.0,)
    return measure_trace(trace, event, deviation=deviation, delta=DELTA, strategy=strategy)


def p_values(event, trace, seed):
    rows = matched(trace, STRATEGY) if event is BANDED else trace
    return mechanism.mechanism_p_values(
        rows, draws=draws_of(event), deviation=event.event.noise_multiplier, randomness=Randomness.seeded(seed)
    )


WORLDS = [pytest.param(ALLOCATED, allocated, id="allocation"), pytest.param(BANDED, banded, id="correlated noise")]


@pytest.mark.parametrize(("event", "world"), WORLDS)
def test_a_sound_run_is_measured_to_more_than_half_of_what_was_proved_and_not_above(event, world):
    found = measured(event, world(np.random.default_rng(0)))
    assert found.verdict == "consistent"
    assert 0.5 * found.claimed <= found.epsilon <= found.claimed


@pytest.mark.parametrize(
    ("event", "world", "twin", "fault"),
    [
        (ALLOCATED, allocated, {"noise": 0.5}, mechanism.TOO_LITTLE_NOISE),
        (ALLOCATED, allocated, {"length": 8.0}, mechanism.LONG),
        (ALLOCATED, allocated, {"draws": 2}, mechanism.OFTEN),
        (BANDED, banded, {"noise": 0.5}, mechanism.TOO_LITTLE_NOISE),
        (BANDED, banded, {"length": 8.0}, mechanism.LONG),
        (BANDED, banded, {"everywhere": True}, mechanism.LONG),
    ],
)
def test_broken_twins_are_refuted_by_name_in_nine_of_ten_runs(event, world, twin, fault):
    rng = np.random.default_rng(1)
    found = [p_values(event, world(rng, **twin), seed)[fault] for seed in range(10)]
    assert sum(p_value < 8e-5 for p_value in found) >= 9


@pytest.mark.parametrize(("event", "world"), WORLDS)
def test_each_test_keeps_its_level_in_200_honest_runs(event, world):
    rng, alarms = np.random.default_rng(2), dict.fromkeys(mechanism.FAULTS, 0)
    for seed in range(200):
        found = p_values(event, world(rng, canaries=60), seed)
        for name, p_value in found.items():
            alarms[name] += p_value <= 0.05
    assert max(alarms.values()) <= 19  # P[Binomial(200, 0.05) > 19] = 0.3 %


@pytest.mark.parametrize(("event", "world"), WORLDS)
def test_coins_thrown_afterwards_find_nothing_within_the_stated_rate(event, world):
    rng, family, alarms = np.random.default_rng(3), plan_family(event), 0
    for _ in range(200):
        null = world(rng, canaries=60, sees=False)
        rows = matched(null, STRATEGY) if event is BANDED else null
        scores = draws_of(event).log_ratios(rows.projections, event.event.noise_multiplier)
        found = one_run_epsilon_by_family(scores, null.is_member, family=family, delta=DELTA, guesses=40)
        alarms += found.bound.epsilon > 0.0
    assert alarms <= 19


def density(x, mean, noise):
    return np.exp(-((x - mean) ** 2).sum(0) / (2.0 * noise**2))


def test_the_likelihood_of_random_allocation_is_the_mean_over_all_places():
    x, noise = np.random.default_rng(4).normal(size=(6, 5)), 0.7
    total = np.zeros(5)
    for places in product(range(3), repeat=2):
        mean = np.zeros((6, 1))
        mean[[places[0], 3 + places[1]]] = 1.0
        total += density(x, mean, noise) / 9.0
    expected = np.log(total / density(x, np.zeros((6, 1)), noise))
    assert AllocatedDraws(3).log_ratios(x, noise) == pytest.approx(expected)


def test_the_score_of_two_draws_an_epoch_is_the_mean_over_all_pairs():
    x, noise = np.random.default_rng(5).normal(size=(4, 7)), 0.9
    draws = AllocatedDraws(4)
    twice = sum(density(x, np.isin(np.arange(4), (i, j))[:, None], noise) for i in range(4) for j in range(i)) / 6.0
    once = sum(density(x, (np.arange(4) == i)[:, None], noise) for i in range(4)) / 4.0
    assert draws.fault_scores(x, noise)[mechanism.OFTEN] == pytest.approx(np.log(twice / once))


def test_correlated_noise_is_undone_exactly():
    """All that a cycle tells is one number: the likelihood ratio of the rows is that of the whole release."""
    rng, bands, steps, rate = np.random.default_rng(6), 3, 6, 0.3
    strategy = coefficients(bands, steps)
    matrix = sum(np.diag(np.full(steps - back, c), -back) for back, c in enumerate(strategy))
    released, place = rng.normal(size=(steps, 1)), np.array([1])
    fresh = matrix @ released
    total = 0.0
    for drawn in product((0.0, 1.0), repeat=2):
        mean = matrix[:, [1, 4]] @ np.array(drawn)[:, None]
        total += np.prod([rate if d else 1.0 - rate for d in drawn]) * density(fresh, mean, NOISE)
    expected = np.log(total / density(fresh, np.zeros((steps, 1)), NOISE))
    rows = matched(CanaryTrace(released, np.array([True]), place), strategy).projections  # [2, 1]
    lengths = np.linalg.norm(matrix[:, [1, 4]], axis=0)[:, None]
    odds = (rows * lengths - 0.5 * lengths**2) / NOISE**2
    assert np.log(1.0 - rate + rate * np.exp(odds)).sum(0) == pytest.approx(expected)


def test_a_run_that_lost_steps_of_an_epoch_or_cycle_is_not_measured():
    trace = allocated(np.random.default_rng(7))
    for event in (ALLOCATED, BANDED):
        with pytest.raises(UsageError, match="too little"):
            measured(event, CanaryTrace(trace.projections[:-1], trace.is_member))
    with pytest.raises(UsageError, match="places"):
        measured(BANDED, CanaryTrace(np.ones((32, 30)), np.arange(30) < 15))
    with pytest.raises(UsageError, match="Gaussian"):
        draws_of(Repeated(NonPrivate(), 1))
