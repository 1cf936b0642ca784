"""Random allocation: the price is above the exact one and close to it; a price from rounding down is refuted."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from reticent.accounting.pld import pld_epsilon, privacy_profile
from reticent.accounting.prices.random_allocation import allocation_ratio
from reticent.core.event import Gaussian, RandomAllocation, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE


def call(strike, sigma):
    """E_Q (Y − strike)_+ of one log-normal ratio Y, in closed form."""
    if strike <= 0.0:
        return 1.0 - strike
    x = 0.5 + sigma**2 * math.log(strike)
    return ndtr((1.0 - x) / sigma) - strike * ndtr(-x / sigma)


def exact_removed(epsilon, sigma, batches):
    """E_Q (R − e^ε)_+ for two or three batches: the last one in closed form, the others integrated."""

    def given(rest, left):
        if left == 1:
            return call(batches * math.exp(epsilon) - rest, sigma) / batches

        def at(z):
            return norm.pdf(z) * given(rest + math.exp(z / sigma - 0.5 / sigma**2), left - 1)

        # Where the ratio alone passes the threshold the integrand has a kink.
        kink = sigma * (math.log(batches) + max(epsilon, -5.0)) + 0.5 / sigma
        return sum(
            quad(at, *ends, epsabs=1e-12)[0] for ends in ((-9.0, min(kink, 8.9)), (min(kink, 8.9), 9.0 + kink))
        )

    return given(0.0, batches)


def exact_delta(epsilon, sigma, batches):
    """The greater of removing and adding one: δ_add(ε) = 1 − e^ε + e^ε δ_remove(−ε)."""
    added = 1.0 - math.exp(epsilon) + math.exp(epsilon) * exact_removed(-epsilon, sigma, batches)
    return max(exact_removed(epsilon, sigma, batches), added)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
@pytest.mark.parametrize(
    ("sigma", "batches"), [(0.7, 2), (1.0, 2), (2.0, 2), pytest.param(1.0, 3, marks=pytest.mark.slow)]
)
def test_an_epoch_of_few_batches_costs_what_integration_says_and_never_less(epsilon, sigma, batches):
    exact = exact_delta(epsilon, sigma, batches)
    found = privacy_profile(RandomAllocation(sigma, batches), ADD_REMOVE).delta(epsilon)
    assert exact * (1.0 - 1e-7) <= found <= exact * 1.005 + 1e-10


def test_one_batch_is_a_plain_gaussian():
    for neighbours in Neighbours:
        found = privacy_profile(RandomAllocation(1.5, 1), neighbours).epsilon(1e-5)
        assert found == privacy_profile(Gaussian(1.5), neighbours).epsilon(1e-5)


def test_masses_and_means_are_kept():
    ratio = allocation_ratio(1.0, 24, spacing=0.02)
    assert ratio.masses.sum() + ratio.zero == pytest.approx(1.0, abs=1e-12)
    assert ratio.masses @ ratio.values() + ratio.lost == pytest.approx(1.0, abs=1e-12)
    assert ratio.lost < 1e-15
    assert ratio.zero < 1e-15


def test_a_coarser_grid_never_proves_more():
    deltas = []
    for spacing in (0.1, 0.05, 0.02):
        ratio = allocation_ratio(1.0, 8, spacing=spacing)
        deltas.append(float(ratio.masses @ np.maximum(ratio.values() - math.e, 0.0)))
    assert deltas == sorted(deltas, reverse=True)


def test_rounding_the_ratio_down_would_promise_too_much():
    # Broken twin: every value is put on the point of the grid below it, which loses its mean.
    ratio = allocation_ratio(1.0, 2, spacing=0.05)
    lowered = ratio.masses @ np.maximum(ratio.values() * math.exp(-0.05) - math.e, 0.0)
    assert lowered < exact_removed(1.0, 1.0, 2) < ratio.masses @ np.maximum(ratio.values() - math.e, 0.0)


def test_simulation_agrees_for_many_batches():
    # False alarm: 6e-5 at four standard errors, one-sided.
    generator = np.random.default_rng(7)
    sigma, batches, epsilon = 1.0, 24, 0.5
    x = generator.normal(0.0, sigma, (40_000, batches))
    ratio = np.exp(x / sigma**2 - 0.5 / sigma**2).mean(axis=1)
    seen = np.maximum(ratio - math.exp(epsilon), 0.0)
    error = seen.std() / math.sqrt(len(seen))
    found = allocation_ratio(sigma, batches, spacing=0.01)
    proved = found.masses @ np.maximum(found.values() - math.exp(epsilon), 0.0)
    assert seen.mean() - 4.0 * error <= proved <= seen.mean() + 4.0 * error


@pytest.mark.parametrize(("sigma", "expected"), [(1.0, 2.170), (3.0, 0.4209)])
def test_three_epochs_of_24_batches_cost_less_than_poisson_samples(sigma, expected):
    # No outside source: our own figures, held so that a change is noticed. The oracle is the simulation above.
    found = pld_epsilon(Repeated(RandomAllocation(sigma, 24), 3), delta=1e-5, neighbours=ADD_REMOVE)
    poisson = pld_epsilon(Repeated(SampledGaussian(sigma, 1 / 24), 72), delta=1e-5, neighbours=ADD_REMOVE)
    assert found == pytest.approx(expected, rel=1e-3)
    assert found < 0.94 * poisson


def test_more_noise_more_batches_and_fewer_epochs_cost_less():
    def epsilon(sigma, batches, epochs):
        event = Repeated(RandomAllocation(sigma, batches), epochs)
        return pld_epsilon(event, delta=1e-5, neighbours=ADD_REMOVE)

    assert epsilon(2.0, 8, 2) > epsilon(2.2, 8, 2)
    assert epsilon(2.0, 8, 2) > epsilon(2.0, 16, 2)
    assert epsilon(2.0, 8, 2) > epsilon(2.0, 8, 1)


def test_replacing_one_costs_more_than_the_worst_pair_that_is_known():
    sigma, epsilon = 1.5, 0.5
    side = np.linspace(-12.0, 12.0, 1201)
    x, y = np.meshgrid(side, side)

    def density(sign):
        return 0.5 * (
            norm.pdf(x, sign, sigma) * norm.pdf(y, 0, sigma) + norm.pdf(x, 0, sigma) * norm.pdf(y, sign, sigma)
        )

    opposite = np.maximum(density(1.0) - math.exp(epsilon) * density(-1.0), 0.0).sum() * (side[1] - side[0]) ** 2
    found = privacy_profile(RandomAllocation(sigma, 2), REPLACE).delta(epsilon)
    assert opposite < found <= 1.0
    assert privacy_profile(RandomAllocation(sigma, 2), ADD_REMOVE).delta(epsilon) < found


def test_its_points_are_plain_numbers_that_can_be_printed():
    points = privacy_profile(RandomAllocation(0.4425, 38), ADD_REMOVE).points()
    assert {type(number) for point in points for number in point} == {float}
