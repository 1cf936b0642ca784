"""Which event has which price: all of them, each once, and nothing is priced by guess."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from reticent.accounting.curve import known_orders, renyi_epsilon
from reticent.accounting.groups import group_event
from reticent.accounting.guarantees import dp_sgd_guarantee, epsilons
from reticent.accounting.pld import PrivacyProfile, has_privacy_profile
from reticent.accounting.prices import by_event
from reticent.accounting.prices.best_of_runs import rate_for
from reticent.accounting.tilted import tilted_log_probability
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import (
    BandedCycle,
    BestOfRuns,
    Composed,
    Event,
    Gaussian,
    Laplace,
    RandomAllocation,
    Repeated,
    SampledGaussian,
    SampledGroup,
)
from reticent.core.guarantee import Neighbours

LOSSY = [SampledGaussian(1.1, 0.1), SampledGroup(1.5, 0.1, 3), RandomAllocation(1.0, 4), Laplace(2.0)]


@dataclasses.dataclass(frozen=True)
class Wheel:
    """An event that nobody priced."""

    noise_multiplier: float


def test_every_event_that_holds_no_other_has_one_price():
    prices = [price.event for price in by_event._EVERY]
    assert sorted(kind.__name__ for kind in prices) == sorted(
        kind.__name__ for kind in set(get_args(Event)) - {Composed, Repeated, BestOfRuns}
    )


@pytest.mark.parametrize("event", [Wheel(1.0), Composed((Gaussian(1.0), Repeated(Wheel(1.0), 3)))])
def test_an_event_without_a_price_is_refused_wherever_it_is_asked_for(event):
    for neighbours in Neighbours:
        with pytest.raises(UnsupportedEvent, match="Wheel"):
            renyi_epsilon(event, 2.0, neighbours)
        with pytest.raises(UnsupportedEvent, match="Wheel"):
            PrivacyProfile(event, neighbours)
        assert tilted_log_probability(event, neighbours, log_p0=-50.0) is None
    with pytest.raises(UnsupportedEvent, match="Wheel"):
        dp_sgd_guarantee(event, delta=1e-5)
    assert not has_privacy_profile(event)
    assert group_event(event, 2) is None
    assert known_orders(event) == set()


def test_an_event_that_is_nearly_another_is_not_priced_as_that():
    class Nearly(SampledGaussian):
        """Says nothing of what it does differently."""

    with pytest.raises(UnsupportedEvent, match="Nearly"):
        renyi_epsilon(Nearly(1.0, 0.1), 2.0, Neighbours.ADD_REMOVE)


def off_by(event: Event, simpler: Event) -> float:
    """By how much the δ of two releases differ, for the relation for which they differ most."""
    return max(
        abs(PrivacyProfile(event, each).delta(epsilon) - PrivacyProfile(simpler, each).delta(epsilon))
        for each in Neighbours
        for epsilon in (0.1, 1.0)
    )


@pytest.mark.parametrize(
    ("event", "simpler"),
    [
        (RandomAllocation(1.3, 1), Gaussian(1.3)),
        (SampledGroup(2.0, 1.0, 2), Gaussian(1.0)),
        (SampledGroup(1.1, 0.2, 1), SampledGaussian(1.1, 0.2)),
        (BandedCycle(1.1, 0.2, 8), SampledGaussian(1.1, 0.2)),
        (SampledGaussian(1.3, 1.0), Gaussian(1.3)),
    ],
)
def test_an_event_costs_what_its_simpler_name_costs_and_a_twin_with_another_name_is_caught(event, simpler):
    assert off_by(event, simpler) == 0.0
    assert off_by(event, dataclasses.replace(simpler, noise_multiplier=1.01 * simpler.noise_multiplier)) > 1e-4


@pytest.mark.parametrize("event", LOSSY, ids=lambda event: type(event).__name__)
def test_losses_are_those_of_two_worlds(event):
    # Masses are chances, and each times e^−loss is a chance in the other world.
    (removed, *added), cells = by_event.distribution_of(event).losses(event, Neighbours.ADD_REMOVE, 0.01)
    for side in (removed, *added):
        assert float(side.masses.sum()) + side.infinite == pytest.approx(1.0, abs=1e-9)
        assert (side.masses >= 0.0).all()
    losses = removed.spacing * (removed.first + np.arange(len(removed.masses)))
    assert float((removed.masses * np.exp(-losses)).sum()) == pytest.approx(1.0, abs=1e-3)
    assert cells >= len(removed.masses) // 2


KINDS = {
    "Poisson samples": lambda noise, rate, steps: Repeated(SampledGaussian(noise, rate), steps),
    "random allocation": lambda noise, rate, steps: Repeated(RandomAllocation(noise, round(1 / rate)), steps),
    "correlated noise": lambda noise, rate, steps: Repeated(BandedCycle(noise, rate, 4), steps),
    "an owner of three": lambda noise, rate, steps: Repeated(SampledGroup(noise, rate, 3), steps),
    "the best of ten runs": lambda noise, rate, steps: BestOfRuns(
        Repeated(SampledGaussian(noise, rate), steps), 0.0, rate_for(10.0, 0.0)
    ),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.8, 0.05, 3), (2.0, 0.1, 12)])
def test_every_price_of_training_falls_with_noise_and_grows_with_steps_and_rate(make, noise, rate, steps):
    def epsilon(*parameters):
        return epsilons(make(*parameters), delta=1e-5, neighbours=Neighbours.ADD_REMOVE).least

    usual = epsilon(noise, rate, steps)
    assert epsilon(1.1 * noise, rate, steps) < usual
    assert usual < min(epsilon(noise, 2 * rate, steps), epsilon(noise, rate, 2 * steps))
