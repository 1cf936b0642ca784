"""ε from gradient canaries: near to what was proved, never above it by more than its error, and 0 on null data."""

import numpy as np
import pytest

from reticent.auditing.attacks.one_run.draws import PoissonDraws
from reticent.auditing.attacks.one_run.gradient_canaries import CONFIDENCE, measure_trace, step_differences
from reticent.auditing.metrics.one_run_family import one_run_epsilon_by_family, plan_family, right_guesses
from reticent.core.errors import UnsupportedEvent, UsageError
from reticent.core.event import Laplace, Repeated, SampledGaussian
from reticent.core.evidence.canary_trace import CanaryKey, CanaryTrace, TraceFile
from reticent.core.printing.numbers import at_most
from reticent.core.randomness import Randomness
from tests.auditing.attacks.exposure.canary_worlds import EVENT, NOISE, RATE, trace

DELTA = 1e-5


def measured(rng, **world):
    return measure_trace(trace(rng, **world), EVENT, deviation=NOISE, delta=DELTA)


def test_a_sound_run_is_measured_to_more_than_half_of_what_was_proved_and_not_above():
    found = measured(np.random.default_rng(0))
    assert found.claimed == pytest.approx(8.1, abs=0.1)
    assert 0.5 * found.claimed <= found.epsilon <= found.claimed
    assert found.verdict == "consistent"
    assert f"claimed {at_most(found.claimed)}: " in str(found)  # with the digits of the proved ε
    assert max(found.by_count.epsilon, found.by_curve.epsilon) < found.epsilon


def test_a_measured_epsilon_lies_above_the_claim_only_where_the_plan_is_refuted():
    """At 50 % some honest runs lie above: each must be called refuted. At the usual confidence none is."""
    event, above = Repeated(SampledGaussian(1.0, 0.2), 8), 0
    for seed in range(10):
        honest = trace(np.random.default_rng(seed), canaries=150, rate=0.2, event=event)
        found = measure_trace(honest, event, deviation=1.0, delta=DELTA, confidence=0.5)
        assert found.epsilon <= found.claimed or found.refutes_epsilon
        above += found.epsilon > found.claimed
        usual = measure_trace(honest, event, deviation=1.0, delta=DELTA)
        assert usual.confidence == CONFIDENCE
        assert usual.epsilon <= min(found.epsilon, usual.claimed)
        assert not usual.is_refuted
    assert 1 <= above <= 8  # at most 3 of 10 are expected: more than 8 have a chance of 0.02 %


@pytest.mark.parametrize(
    "twin",
    [{"noise": 0.5}, {"length": 8.0}, {"length": 2.0**0.5}, {"rate": 2 * RATE}, {"reuses": True}],
    ids=["half the noise", "no clipping", "no cross term", "drawn twice as often", "noise used twice"],
)
def test_broken_twins_are_refuted(twin):
    found = measured(np.random.default_rng(1), **twin)
    assert found.is_refuted
    assert found.epsilon > found.claimed


def test_coins_thrown_after_training_find_nothing_within_the_stated_rate():
    rng, family = np.random.default_rng(2), plan_family(EVENT)
    alarms = 0
    for _ in range(200):
        null = trace(rng, canaries=200, sees=False)
        scores = PoissonDraws(RATE).log_ratios(null.projections, NOISE)
        guesses = int(rng.integers(1, 201))
        found = one_run_epsilon_by_family(scores, null.is_member, family=family, delta=DELTA, guesses=guesses)
        alarms += found.bound.epsilon > 0.0
    assert alarms <= 19  # P[Binomial(200, 0.05) > 19] = 0.3 %


def test_an_honest_plan_passes_its_own_epsilon_within_the_stated_rate():
    event = Repeated(SampledGaussian(1.0, 0.2), 8)
    rng, family = np.random.default_rng(3), plan_family(event)
    alarms = 0
    for _ in range(200):
        honest = trace(rng, canaries=150, rate=0.2, event=event)
        scores = PoissonDraws(0.2).log_ratios(honest.projections, 1.0)
        correct = right_guesses(scores, honest.is_member, guesses=100, randomness=None)
        alarms += family.p_value(1.0, 150, guesses=100, correct=correct) <= 0.05
    assert alarms <= 19


@pytest.mark.parametrize("m", [20, 21, 77])
def test_any_number_of_canaries_ties_and_abstentions_are_handled(m):
    rng, family = np.random.default_rng(m), plan_family(EVENT)
    coins = rng.random(m) < 0.5
    for scores in (np.zeros(m), np.ones(m), np.where(coins, 1.0, -1.0)):
        found = one_run_epsilon_by_family(scores, coins, family=family, delta=DELTA, guesses=m // 2)
        assert 0 <= found.correct <= m // 2
        assert found.bound.epsilon >= 0.0
    assert found.correct == m // 2


def test_equal_scores_are_never_guessed_by_their_place():
    coins = np.arange(2000) < 1000  # members first
    correct = right_guesses(np.zeros(2000), coins, guesses=2000, randomness=Randomness.seeded(1))
    assert abs(correct - 1000) < 120  # 5 standard deviations


def test_the_number_of_guesses_follows_from_the_plan_alone():
    family = plan_family(EVENT)
    assert family.best_guesses(1000, error=0.05) == family.best_guesses(1000, error=0.05)
    assert 100 <= family.best_guesses(1000, error=0.05) <= 1000


def test_a_likelihood_ratio_is_that_of_the_two_worlds():
    x, q, noise = np.array([[0.3, -1.0], [2.0, 0.1]]), 0.3, 0.8

    def density(value, mean):
        return np.exp(-((value - mean) ** 2) / (2 * noise**2))

    expected = np.log(((1 - q) * density(x, 0) + q * density(x, 1)) / density(x, 0)).sum(0)
    assert PoissonDraws(q).log_ratios(x, noise) == pytest.approx(expected)
    whole = PoissonDraws(1.0).log_ratios(x, noise)
    assert whole == pytest.approx(np.log(density(x, 1) / density(x, 0)).sum(0))


def test_differences_of_one_step_say_nothing():
    assert (step_differences(np.ones((1, 5))) == 0.0).all()


def test_too_few_canaries_steps_beyond_the_plan_and_foreign_events_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="too little"):
        measured(rng, canaries=10)
    longer = trace(rng)
    with pytest.raises(UsageError, match="too little"):
        measure_trace(longer, Repeated(EVENT.event, 5), deviation=NOISE, delta=DELTA)
    with pytest.raises(UnsupportedEvent):
        plan_family(Laplace(1.0))


def test_a_key_and_a_trace_come_back_from_files_that_only_their_owner_reads(tmp_path):
    key = CanaryKey.toss(30, Randomness.system())
    key.write(tmp_path)
    file = TraceFile(tmp_path)
    rows = np.random.default_rng(0).standard_normal((3, 30)).astype(np.float32)
    for row in rows:
        file.append(row)
    with (tmp_path / "canaries.f32").open("ab") as cut:
        cut.write(b"half a row")
    found = CanaryTrace.read(tmp_path)
    assert (found.projections == rows).all()
    assert (found.is_member == key.is_member).all()
    file.append(rows[0])
    assert len(CanaryTrace.read(tmp_path).projections) == 4
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    assert str(key.seed) not in repr(key)
