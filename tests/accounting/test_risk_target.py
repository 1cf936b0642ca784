"""Noise from a risk: the ceiling meets the target, barely, with less noise than the ε that promises the same."""

import math

import pytest

from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.guarantees import dp_sgd_guarantee
from reticent.accounting.risk_target import RiskTarget, noise_for_risk
from reticent.core.errors import ConfigError
from reticent.core.event import Repeated, SampledGaussian

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
