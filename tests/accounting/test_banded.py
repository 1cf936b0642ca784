"""The price of correlated noise against the exact mechanism on small runs, and a twin that passes it."""

import itertools

import numpy as np
import pytest

from reticent.accounting.curve import renyi_epsilon
from reticent.accounting.guarantees import dp_sgd_guarantee, guarantee_of_group
from reticent.accounting.pld import privacy_profile
from reticent.core.event import BandedCycle, Repeated, SampledGaussian, event_from_json, event_to_json
from reticent.core.guarantee import Neighbours
from reticent.training.plans.bands import coefficients

NOISE, RATE, STEPS, BANDS = 0.8, 0.4, 4, 2


def matrix(bands=BANDS, steps=STEPS):
    """C [steps, steps]."""
    column = coefficients(bands, steps)
    return sum(np.diag(np.full(steps - back, value), -back) for back, value in enumerate(column))


def exact_delta(columns, epsilon):
    """The greater δ(ε) of a unit that takes part in each of two columns of C with chance RATE, by integration.

    What is released is C·gradients + z; only the plane of the two columns differs between the worlds.
    """
    _, places = np.linalg.qr(columns.T)  # coordinates [2, 2] of the columns in their plane
    axis = np.arange(-5.0, 6.5, 0.02)
    point = np.stack(np.meshgrid(axis, axis, indexing="ij"))  # [2, n, n]

    def density(centre):
        return np.exp(-((point - centre[:, None, None]) ** 2).sum(0) / (2 * NOISE**2)) / (2 * np.pi * NOISE**2)

    without = density(np.zeros(2))
    signed = places * np.sign(np.diag(places))[:, None]
    with_unit = sum(
        np.prod([RATE if there else 1 - RATE for there in pattern]) * density(signed @ np.array(pattern))
        for pattern in itertools.product((0, 1), repeat=2)
    )
    sides = (with_unit - np.exp(epsilon) * without, without - np.exp(epsilon) * with_unit)
    return max(float(np.maximum(side, 0.0).sum()) * 0.02**2 for side in sides)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_two_cycles_cost_what_the_exact_mechanism_gives_away(epsilon):
    priced = privacy_profile(Repeated(BandedCycle(NOISE, RATE, BANDS), 2), Neighbours.ADD_REMOVE).delta(epsilon)
    c = matrix()
    first, second = exact_delta(c[:, [0, 2]].T, epsilon), exact_delta(c[:, [1, 3]].T, epsilon)
    assert second < first <= priced * (1 + 1e-4)  # the last column is cut off and shorter
    assert priced < 1.01 * first


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_a_unit_in_two_steps_of_a_window_passes_the_price(epsilon):
    priced = privacy_profile(Repeated(BandedCycle(NOISE, RATE, BANDS), 2), Neighbours.ADD_REMOVE).delta(epsilon)
    assert exact_delta(matrix()[:, [0, 1]].T, epsilon) > 1.1 * priced


def test_a_cycle_costs_one_sampled_gaussian_of_its_rate_whatever_the_number_of_bands():
    for neighbours in Neighbours:
        for bands in (1, 8):
            banded, plain = BandedCycle(1.1, 0.2, bands), SampledGaussian(1.1, 0.2)
            assert renyi_epsilon(banded, 4.0, neighbours) == renyi_epsilon(plain, 4.0, neighbours)
            profiles = [privacy_profile(Repeated(each, 5), neighbours) for each in (banded, plain)]
            assert profiles[0].delta(1.0) == profiles[1].delta(1.0)


def test_the_event_survives_its_json_and_says_how_units_are_drawn():
    event = Repeated(BandedCycle(1.1, 0.2, 4), 5)
    assert event_from_json(event_to_json(event)) == event
    with pytest.raises(ValueError, match="count"):
        event_from_json(event_to_json(event)["event"] | {"bands": 4.5})
    guarantee = dp_sgd_guarantee(event, delta=1e-5)
    assert any("cyclic Poisson" in each for each in guarantee.assumes)


def test_several_records_of_one_person_are_not_priced_as_a_sampled_group():
    """Their places in the cycle differ, so that columns of neighbouring cycles overlap: no tight price is known."""
    plain = dp_sgd_guarantee(Repeated(SampledGaussian(1.1, 0.2), 5), delta=1e-5)
    banded = dp_sgd_guarantee(Repeated(BandedCycle(1.1, 0.2, 4), 5), delta=1e-5)
    assert guarantee_of_group(plain, 2) is not None
    assert guarantee_of_group(banded, 2) is None
