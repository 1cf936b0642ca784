"""ε lower bounds: 0 on noise, below the truth and near it on a Gaussian mechanism, for every threshold strategy."""

import math

import numpy as np
import pytest

from reticent.accounting.hockey_stick import Direction, step_delta
from reticent.auditing.epsilon_bound import (
    Band,
    Bonferroni,
    FixedThreshold,
    Split,
    epsilon_lower_bound,
    epsilon_of_rates,
)

STRATEGIES = [FixedThreshold(0.5), Bonferroni(), Bonferroni(4.0), Split(), Band()]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε(δ) of N(0, 1) against N(μ, 1), by bisection on the exact hockey-stick divergence."""
    low, high = 0.0, 50.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        found = step_delta(np.array([middle]), Direction.REMOVE, noise_multiplier=1 / mu, sampling_rate=1.0)[0]
        low, high = (middle, high) if found > delta else (low, middle)
    return high


def best_threshold_without_correction(members, nonmembers):
    """The broken twin: the measured rates at every threshold that any non-member passes, the best reported."""
    best = 0.0
    for threshold in nonmembers:
        tpr, fpr = (members >= threshold).mean(), (nonmembers >= threshold).mean()
        best = max(best, math.log(tpr / fpr) if tpr > 0.0 else 0.0)
    return best


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_noise_gives_zero_at_the_stated_confidence(strategy):
    # 300 repetitions at 95 %: more than 27 false alarms has chance 1e-3 at the stated rate.
    generator = np.random.default_rng(2)
    alarms = 0
    for _ in range(300):
        members, nonmembers = generator.normal(size=60), generator.normal(size=80)
        alarms += epsilon_lower_bound(members, nonmembers, delta=0.0, strategy=strategy).epsilon > 0.0
    assert alarms <= 27


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_tied_noise_gives_zero_at_the_stated_confidence(strategy):
    generator = np.random.default_rng(3)
    alarms = 0
    for _ in range(300):
        members, nonmembers = generator.integers(3, size=60), generator.integers(3, size=80)
        alarms += epsilon_lower_bound(members, nonmembers, delta=0.0, strategy=strategy).epsilon > 0.0
    assert alarms <= 27


def test_the_best_of_many_thresholds_without_correction_is_caught():
    generator = np.random.default_rng(4)
    claims, honest = [], []
    for _ in range(40):
        members, nonmembers = generator.normal(size=300), generator.normal(size=300)
        claims.append(best_threshold_without_correction(members, nonmembers))
        honest.append(epsilon_lower_bound(members, nonmembers, delta=0.0).epsilon)
    assert np.mean(np.array(claims) > 0.1) > 0.5  # its false-alarm rate, said to be 0.05
    assert max(claims) > 1.5
    assert np.mean(np.array(honest) > 0.0) <= 0.1


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_a_gaussian_mechanism_is_never_charged_above_its_epsilon(strategy, mu):
    generator = np.random.default_rng(6)
    truth = gaussian_epsilon(mu, 0.01)
    above = 0
    for _ in range(100):  # more than 12 of 100 above has chance 2e-3 at 95 %
        members, nonmembers = generator.normal(mu, 1, 300), generator.normal(0, 1, 300)
        above += epsilon_lower_bound(members, nonmembers, delta=0.01, strategy=strategy).epsilon > truth
    assert above <= 12


@pytest.mark.parametrize(("strategy", "least"), [(Bonferroni(), 0.7), (Split(), 0.6), (Band(), 0.5)])
def test_many_samples_come_near_the_true_epsilon(strategy, least):
    generator = np.random.default_rng(7)
    members, nonmembers = generator.normal(1.5, 1, 50_000), generator.normal(0, 1, 50_000)
    truth = gaussian_epsilon(1.5, 1e-2)
    found = epsilon_lower_bound(members, nonmembers, delta=1e-2, strategy=strategy).epsilon
    assert least * truth < found <= truth


def test_a_bound_stays_below_log_n_however_clear_the_scores():
    found = epsilon_lower_bound(np.ones(1000), np.zeros(1000), delta=1e-5)
    assert 4.0 < found.epsilon < math.log(1000)
    assert found.threshold is not None


def test_the_second_direction_finds_what_the_first_cannot():
    # Members are never below 0.9; non-members mostly are: only "low score, hence no member" refutes much.
    generator = np.random.default_rng(8)
    members = generator.uniform(0.9, 1.0, 500)
    nonmembers = np.where(
        generator.random(500) < 0.5, generator.uniform(0.9, 1.0, 500), generator.uniform(0, 0.9, 500)
    )
    found = epsilon_lower_bound(members, nonmembers, delta=0.0)
    assert found.epsilon > 2.5


def test_epsilon_of_rates_is_the_least_that_allows_them():
    assert epsilon_of_rates(0.3, 0.1, delta=0.0) == pytest.approx(math.log(3))
    assert epsilon_of_rates(0.9, 0.7, delta=0.0) == pytest.approx(math.log(3))
    assert epsilon_of_rates(0.2, 0.2, delta=0.0) == 0.0
    assert epsilon_of_rates(0.1, 0.0, delta=0.2) == 0.0
    assert epsilon_of_rates(0.3, 0.0, delta=0.2) == math.inf


def test_reversed_scores_are_no_attack():
    assert epsilon_lower_bound(np.zeros(500), np.ones(500), delta=0.0).epsilon == 0.0


def test_split_is_repeatable_and_refuses_what_it_cannot_split():
    scores = np.random.default_rng(0).normal(size=50)
    first = epsilon_lower_bound(scores + 2, scores, delta=0.0, strategy=Split())
    assert first == epsilon_lower_bound(scores + 2, scores, delta=0.0, strategy=Split())
    with pytest.raises(ValueError, match="too few"):
        epsilon_lower_bound([1.0], scores, delta=0.0, strategy=Split())
