"""Noise from a risk: the ceiling meets the target, barely, with less noise than the ε that promises the same."""

import math

import pytest

from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.guarantees import dp_sgd_guarantee
from reticent.accounting.risk_target import RiskTarget, noise_for_risk
from reticent.core.errors import ConfigError
from reticent.core.event import Repeated, SampledGaussian
from reticent.core.ranges import NOISE_MULTIPLIER

RATE, STEPS, DELTA = 0.043, 70, 1e-5


def event(noise):
    return Repeated(SampledGaussian(noise, RATE), STEPS)


@pytest.mark.parametrize(
    "target",
    [RiskTarget.true_positive_rate("0.05@0.01"), RiskTarget.leaked_bits("10:20"), RiskTarget.advantage(0.1)],
    ids=["tpr", "bits", "advantage"],
)
def test_the_ceiling_meets_the_target_and_a_little_less_noise_does_not(target):
    noise = noise_for_risk(target, event, delta=DELTA)
    assert target.ceiling(dp_sgd_guarantee(event(noise), delta=DELTA)) <= target.limit
    # Broken twin: noise from below. One percent less would promise too much.
    assert target.ceiling(dp_sgd_guarantee(event(0.97 * noise), delta=DELTA)) > target.limit


def test_what_one_epsilon_promises_needs_less_noise_when_asked_for_itself():
    # (1, δ) alone allows a true-positive rate of e·0.01 + δ at 1 % false alarms.
    by_epsilon = least_noise(Target(epsilon=1.0, delta=DELTA, sampling_rate=RATE), steps=STEPS).noise_multiplier
    promised = math.e * 0.01 + DELTA
    found = noise_for_risk(RiskTarget("tpr_at_fpr_0.01", promised), event, delta=DELTA)
    assert found < 0.8 * by_epsilon


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (RiskTarget.true_positive_rate, "0.05"),
        (RiskTarget.true_positive_rate, "0.01@0.05"),
        (RiskTarget.true_positive_rate, "five@0.01"),
        (RiskTarget.leaked_bits, "20:10"),
        (RiskTarget.leaked_bits, "10"),
        (RiskTarget.advantage, "nan"),
    ],
)
def test_a_target_that_promises_nothing_is_refused(read, text):
    with pytest.raises(ConfigError):
        read(text)


def test_a_rate_without_the_rate_it_is_measured_at_is_said_to_lack_it():
    with pytest.raises(
        ConfigError, match=r"the @ with the false-positive rate is missing; found 0\.05; expected such"
    ):
        RiskTarget.true_positive_rate("0.05")


def test_a_target_that_no_noise_reaches_is_refused_with_what_the_most_noise_proves():
    with pytest.raises(ConfigError, match=r"what leaks of a secret of 20.bits: at most 0\.0\d+.bits at noise"):
        noise_for_risk(RiskTarget.leaked_bits("0.0001:20"), event, delta=DELTA)


def test_a_target_that_any_noise_meets_takes_the_least_there_is():
    few = [RiskTarget.advantage(0.99), RiskTarget.true_positive_rate("0.999@0.01")]
    for target in few:  # half of the units take part in no step, whatever the noise
        found = noise_for_risk(target, lambda noise: Repeated(SampledGaussian(noise, 0.01), 5), delta=DELTA)
        assert found == NOISE_MULTIPLIER.low


def test_a_target_and_what_is_reached_are_said_with_units():
    rate, bits = RiskTarget.true_positive_rate("0.05@0.001"), RiskTarget.leaked_bits("10:20")
    assert f"{rate.name}: {rate.shown(0.04996)}".replace("\xa0", " ") == (
        "true-positive rate at 0.1 % false positives: 5 %"
    )
    assert (
        f"{bits.name}: {bits.shown(9.986)}".replace("\xa0", " ") == "what leaks of a secret of 20 bits: 9.986 bits"
    )


def test_a_stricter_limit_needs_more_noise_and_more_steps_or_a_higher_rate_do_too():
    def noise(limit, rate=RATE, steps=STEPS):
        target = RiskTarget.advantage(limit)
        return noise_for_risk(target, lambda n: Repeated(SampledGaussian(n, rate), steps), delta=DELTA)

    usual = noise(0.1)
    assert noise(0.2) < usual
    assert usual < min(noise(0.1, rate=2 * RATE), noise(0.1, steps=2 * STEPS))
