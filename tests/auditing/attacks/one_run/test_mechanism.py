"""Tests of the declared mechanism: each finds its fault, keeps its level, and refutes nothing more private."""

import numpy as np
import pytest

from reticent.auditing.attacks.one_run import mechanism
from reticent.auditing.attacks.one_run.draws import PoissonDraws
from reticent.core.evidence.canary_trace import CanaryTrace
from reticent.core.randomness import Randomness

RATE, STEPS, NOISE, CANARIES = 0.2, 30, 0.7, 1000
BACKGROUND = 0.1  # what records add along a canary: the same direction in all steps, and another in each


def released(rng, *, canaries=CANARIES, rate=RATE, noise=1.0, length=1.0, reuses=False, shuffles=False):
    """A trace of the declared mechanism among records, or of a twin."""
    coins, shape = rng.random(canaries) < 0.5, (STEPS, canaries)
    drawn = rng.random(shape) < rate
    if shuffles:
        places = rng.integers(0, round(1 / rate), (STEPS, canaries))[:: round(1 / rate)]
        drawn = np.concatenate([np.arange(round(1 / rate))[:, None] == row for row in places])
    fresh = rng.standard_normal(shape)
    if reuses:
        fresh[20] = fresh[3]
    records = BACKGROUND * (rng.standard_normal(canaries) + rng.standard_normal(shape))
    lengths = np.where(np.arange(canaries) < canaries // 2, length, 1.0)  # half of the canaries, as in tied weights
    return CanaryTrace(lengths * (drawn & coins) + records + noise * NOISE * fresh, coins)


def p_values(trace, seed):
    source = Randomness.seeded(seed)
    return mechanism.mechanism_p_values(trace, draws=PoissonDraws(RATE), deviation=NOISE, randomness=source)


@pytest.mark.parametrize(
    ("fault", "twin"),
    [
        (mechanism.TOO_LITTLE_NOISE, {"noise": 0.5}),
        (mechanism.REUSED_NOISE, {"reuses": True}),
        (mechanism.LONG, {"length": 2.0**0.5}),
        (mechanism.OFTEN, {"rate": 2 * RATE}),
        (mechanism.SHUFFLED, {"shuffles": True}),
    ],
)
def test_each_fault_is_found_by_its_own_test_in_nine_of_ten_runs(fault, twin):
    rng = np.random.default_rng(0)
    found = [p_values(released(rng, **twin), seed)[fault] for seed in range(10)]
    assert sum(p_value < 8e-5 for p_value in found) >= 9


@pytest.mark.parametrize("canaries", [20, 100])
def test_each_test_keeps_its_level_among_records_in_200_honest_runs(canaries):
    rng = np.random.default_rng(1)
    found = [p_values(released(rng, canaries=canaries), seed) for seed in range(200)]
    for fault in mechanism.FAULTS:
        alarms = sum(run[fault] <= 0.05 for run in found)
        assert alarms <= 19, fault  # P[Binomial(200, 0.05) > 19] = 0.3 %


@pytest.mark.parametrize("twin", [{"noise": 2.0}, {"length": 0.0}, {"rate": RATE / 4}])
def test_what_is_more_private_than_declared_is_not_refuted(twin):
    found = p_values(released(np.random.default_rng(2), **twin), 0)
    assert min(found[name] for name in mechanism.FAULTS) > 8e-5


def test_one_step_and_groups_without_anybody_leave_tests_out():
    rng = np.random.default_rng(3)
    one = CanaryTrace(rng.standard_normal((1, 30)), np.arange(30) < 15)
    assert mechanism.REUSED_NOISE not in p_values(one, 0)
    assert p_values(CanaryTrace(one.projections, np.ones(30, dtype=bool)), 0) == {}
    everybody = mechanism.mechanism_p_values(
        one, draws=PoissonDraws(1.0), deviation=NOISE, randomness=Randomness.seeded(0)
    )
    assert mechanism.OFTEN not in everybody
    assert mechanism.LONG in everybody
