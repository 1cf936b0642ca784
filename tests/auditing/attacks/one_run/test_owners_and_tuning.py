"""White-box canaries that are owners of several records, and canaries behind the best of several runs.

Each canary is in by its own fair coin. What is released of it is as the event says, and the surest guesses of the
coins are held against the price: honest ones stay within it, and the twin that leaves out what the event counts
(the other records, the other runs) is refuted.
"""

import numpy as np
import pytest
from scipy.stats import binom

from reticent.accounting.bounds.guessing import GuessingCurve
from reticent.accounting.guarantees import epsilons
from reticent.accounting.pld import PrivacyProfile
from reticent.accounting.prices.best_of_runs import number_of_runs, rate_for
from reticent.auditing.metrics.one_run import one_run_p_value
from reticent.auditing.metrics.one_run_family import right_guesses
from reticent.core.event import BestOfRuns, Repeated, SampledGaussian, SampledGroup
from reticent.core.guarantee import Neighbours

ADD_REMOVE = Neighbours.ADD_REMOVE
ACCUSED = 1e-3  # the p-value at which a price is refuted, as `train --audit` does
NOISE, RATE, STEPS, RECORDS = 1.0, 0.05, 40, 4
SHAPE, MEAN, DELTA = 0.0, 10.0, 1e-3
ONE_RUN = SampledGaussian(0.35, 0.02)


def p_value(event, scores, coins, guesses):
    """Chance of so many right guesses where the event's losses are all that is released."""
    correct = right_guesses(scores, coins, guesses=guesses, randomness=None)
    return GuessingCurve.of(PrivacyProfile(event, ADD_REMOVE)).p_value(len(coins), guesses, correct=correct)


def owners(rng, canaries):
    """Coins, and log-likelihood ratios of what a run releases of owners whose records are drawn one by one."""
    coins = rng.random(canaries) < 0.5
    drawn = rng.binomial(RECORDS, RATE, (STEPS, canaries)) * coins
    released = drawn + NOISE * rng.standard_normal(drawn.shape)
    number = np.arange(RECORDS + 1.0)[:, None, None]
    odds = binom.pmf(number, RECORDS, RATE) * np.exp((number * released - 0.5 * number**2) / NOISE**2)
    return coins, np.log(odds.sum(0)).sum(0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_owners_of_several_records_refute_the_price_of_one_record_and_not_their_own(seed):
    coins, scores = owners(np.random.default_rng(seed), 2000)
    assert p_value(Repeated(SampledGroup(NOISE, RATE, RECORDS), STEPS), scores, coins, 400) > ACCUSED
    assert p_value(Repeated(SampledGaussian(NOISE, RATE), STEPS), scores, coins, 400) < ACCUSED  # the twin


def test_the_price_of_an_owner_keeps_its_level_in_200_honest_runs():
    rng, event = np.random.default_rng(3), Repeated(SampledGroup(NOISE, RATE, RECORDS), STEPS)
    curve, alarms = GuessingCurve.of(PrivacyProfile(event, ADD_REMOVE)), 0
    for _ in range(200):
        coins, scores = owners(rng, 60)
        correct = right_guesses(scores, coins, guesses=30, randomness=None)
        alarms += curve.p_value(60, 30, correct=correct) <= 0.05
    assert alarms <= 19  # P[Binomial(200, 0.05) > 19] = 0.3 %


def tuned(rng, canaries, *, is_best=True):
    """Coins, and how far what the best of a random number of runs released lies above the noise.

    A run draws the canary rarely and then shows it; the score that chooses a run is what it released, and so seeks
    out a run that drew the canary.
    """
    coins, rate = rng.random(canaries) < 0.5, rate_for(MEAN, SHAPE)
    uniform = rng.random(canaries)
    counts = [number_of_runs(each, shape=SHAPE, rate=rate) if is_best else 1 for each in uniform]

    def best(coin, runs):
        return float(((rng.random(runs) < ONE_RUN.sampling_rate) * coin + noise * rng.standard_normal(runs)).max())

    noise = ONE_RUN.noise_multiplier
    found = np.array([best(coin, runs) for coin, runs in zip(coins, counts, strict=True)])
    return coins, np.exp(found)  # positive: a canary that is guessed at all is guessed "in"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_of_several_runs_refutes_the_price_of_one_run_and_not_its_own(seed):
    canaries, guesses = 4000, 160
    rng = np.random.default_rng(seed)
    coins, scores = tuned(rng, canaries)
    assert p_value(ONE_RUN, scores, coins, guesses) < ACCUSED  # the twin that charges a single run
    best = BestOfRuns(ONE_RUN, SHAPE, rate_for(MEAN, SHAPE))
    proved = epsilons(best, delta=DELTA, neighbours=ADD_REMOVE).least
    correct = right_guesses(scores, coins, guesses=guesses, randomness=None)
    assert one_run_p_value(canaries, guesses, correct=correct, epsilon=proved, delta=DELTA) > ACCUSED
    coins, scores = tuned(rng, canaries, is_best=False)
    assert p_value(ONE_RUN, scores, coins, guesses) > ACCUSED  # one run alone keeps its price
