"""Calibration: what is returned meets the target, and slightly less noise or slightly more steps would not."""

import pytest
from dp_accounting import dp_event, mechanism_calibration
from dp_accounting.pld import pld_privacy_accountant

from reticent.accounting.calibration import Target, least_noise, most_steps, round_up
from reticent.accounting.guarantees import epsilons
from reticent.core.errors import ConfigError
from reticent.core.event import RandomAllocation, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours


def epsilon_of(target: Target, noise: float, steps: int) -> float:
    event = Repeated(SampledGaussian(noise, target.sampling_rate), steps)
    return epsilons(event, delta=target.delta, neighbours=target.neighbours).least


@pytest.mark.parametrize(
    ("target", "steps"),
    [
        (Target(epsilon=2.0, delta=8e-5, sampling_rate=0.01), 1000),
        (Target(epsilon=2.0, delta=8e-5, sampling_rate=0.01, neighbours=Neighbours.REPLACE), 1000),
        (Target(epsilon=1.0, delta=1e-6, sampling_rate=1.0), 10),
        (Target(epsilon=30.0, delta=1e-5, sampling_rate=0.05), 20),
    ],
)
def test_the_least_noise_meets_the_target_and_half_a_percent_less_does_not(target: Target, steps: int) -> None:
    found = least_noise(target, steps=steps)
    assert found.epsilon == epsilon_of(target, found.noise_multiplier, steps) <= target.epsilon
    assert epsilon_of(target, found.noise_multiplier * 0.995, steps) > target.epsilon
    assert found.noise_multiplier == round_up(found.noise_multiplier)


@pytest.mark.slow
def test_agrees_with_dp_accounting() -> None:
    target = Target(epsilon=2.0, delta=1e-5, sampling_rate=0.02)
    theirs = mechanism_calibration.calibrate_dp_mechanism(
        pld_privacy_accountant.PLDAccountant,
        lambda noise: dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(0.02, dp_event.GaussianDpEvent(noise)), 100
        ),
        2.0,
        1e-5,
        bracket_interval=mechanism_calibration.ExplicitBracketInterval(0.5, 2.0),
        tol=1e-3,
    )
    assert least_noise(target, steps=100).noise_multiplier == pytest.approx(theirs, rel=3e-3)


def test_the_most_steps_meet_the_target_and_one_percent_more_do_not() -> None:
    target = Target(epsilon=2.0, delta=1e-6, sampling_rate=0.01)
    found = most_steps(target, noise_multiplier=1.0)
    assert found.epsilon == epsilon_of(target, 1.0, found.steps) <= 2.0
    assert epsilon_of(target, 1.0, int(found.steps * 1.01) + 1) > 2.0


def test_rounding_goes_up() -> None:
    assert round_up(1.16101) == 1.162
    assert round_up(1.161) == 1.161
    assert round_up(0.047931) == 0.04794
    assert round_up(123.41) == 123.5


def test_rounding_down_would_pass_the_target() -> None:
    # the broken twin: the same search, rounded to the nearest
    target = Target(epsilon=2.0, delta=8e-5, sampling_rate=0.01)
    found = least_noise(target, steps=1000).noise_multiplier
    assert epsilon_of(target, round(found - 0.05, 1), 1000) > 2.0


def test_unreachable_and_impossible_targets_are_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="no noise reaches"):
        least_noise(Target(epsilon=1e-6, delta=1e-9, sampling_rate=1.0), steps=10**7)
    allocation = RandomAllocation(1.0, 29)
    with pytest.raises(ConfigError, match="no noise reaches") as refused:
        least_noise(Target(epsilon=1e-3, delta=1e-5, sampling_rate=1 / 29, round_event=allocation), steps=145)
    assert "Poisson" in str(refused.value.hint)
    with pytest.raises(ConfigError, match="one step"):
        most_steps(Target(epsilon=0.1, delta=1e-9, sampling_rate=1.0), noise_multiplier=0.5)
    for bad in ({"epsilon": 0.0}, {"delta": 1.0}, {"sampling_rate": 0.0}):
        with pytest.raises(ConfigError):
            Target(**{"epsilon": 1.0, "delta": 1e-5, "sampling_rate": 0.1, **bad})
    with pytest.raises(ConfigError, match="number of steps is out of range"):
        least_noise(Target(epsilon=1.0, delta=1e-5, sampling_rate=0.1), steps=0)
