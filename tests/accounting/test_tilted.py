"""δ far below round-off, against closed forms and integrals in fifty digits."""

import math

import mpmath
import pytest

from reticent.accounting import tilted
from reticent.accounting.bounds.leakage import leakage_bounds
from reticent.accounting.pld import privacy_profile
from reticent.accounting.tilted import tilted_log_probability
from reticent.core.event import Composed, Gaussian, Laplace, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SAMPLED = Repeated(SampledGaussian(1.0, 0.01), 1000)


def tilted_log_delta(event, neighbours, *, epsilon: float) -> float | None:
    """log δ at ε, which the window was laid around."""
    curve = tilted._curve(event, neighbours, log_p0=0.0, epsilon=epsilon)
    return None if curve is None else curve.log_delta(epsilon)


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """The analytic Gaussian mechanism (Balle and Wang 2018)."""
    with mpmath.workdps(60):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(sigma)
        return float(
            mpmath.log(mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s))
        )


def two_steps_log_delta(epsilon: float, sigma: float, q: float) -> float:
    """Removing one, two sampled steps: E δ₁(ε − l(x)) over the first, by quadrature."""
    with mpmath.workdps(50):
        s, q, half = mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(1) / 2
        grown = mpmath.exp(epsilon)

        def one(growth):  # δ of one step, at any ε = log growth
            if growth <= 1 - q:
                return 1 - growth
            x = s**2 * mpmath.log((growth - 1 + q) / q) + half
            return q * mpmath.ncdf((1 - x) / s) + (1 - q - growth) * mpmath.ncdf(-x / s)

        def surplus(x):  # the loss of the first step is the logarithm of the ratio of its densities
            ratio = 1 - q + q * mpmath.exp((x - half) / s**2)
            return mpmath.npdf(x, 0, s) * ratio * one(grown / ratio)

        # Smooth between these places: at one of them `one` takes its other branch.
        bend = s**2 * mpmath.log((grown / (1 - q) - 1 + q) / q) + half
        places = sorted([bend, *map(mpmath.mpf, range(-12, 32, 2))])
        return float(mpmath.log(mpmath.quad(surplus, places, method="gauss-legendre", maxdegree=4)))


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 30.0])
def test_a_gaussian_has_its_closed_form_down_to_e_to_the_minus_440(epsilon):
    found = tilted_log_delta(Gaussian(1.0), ADD_REMOVE, epsilon=epsilon)
    truth = gaussian_log_delta(epsilon, 1.0)
    assert 0.0 <= found - truth < 1e-4
    # Replacing one moves the mean by twice the clip norm.
    found = tilted_log_delta(Composed((Gaussian(2.0 * math.sqrt(2.0)),) * 2), REPLACE, epsilon=epsilon)
    assert 0.0 <= found - truth < 1e-4


@pytest.mark.parametrize("epsilon", [2.0, 8.0, 14.0])
def test_two_sampled_steps_equal_an_integral_in_fifty_digits(epsilon):
    found = tilted_log_delta(Repeated(SampledGaussian(1.0, 0.1), 2), ADD_REMOVE, epsilon=epsilon)
    truth = two_steps_log_delta(epsilon, 1.0, 0.1)
    assert 0.0 <= found - truth < 0.05
    if epsilon == 14.0:
        assert truth < math.log(1e-30)


def test_above_round_off_it_agrees_with_the_plain_convolution_and_below_only_it_knows():
    for neighbours, epsilons in ((ADD_REMOVE, (1.0, 2.0)), (REPLACE, (2.0, 3.0))):
        profile = privacy_profile(SAMPLED, neighbours)
        for epsilon in epsilons:
            plain = math.log(profile.delta(epsilon))
            assert 0.0 <= tilted_log_delta(SAMPLED, neighbours, epsilon=epsilon) - plain < 0.05
        # The twin without a tilt stands still at the round-off of the whole mass.
        assert math.log(profile.delta(9.0)) > -24.0
        assert tilted_log_delta(SAMPLED, neighbours, epsilon=9.0) < -50.0


def test_a_long_secret_is_bounded_by_the_loss_distribution_and_not_by_round_off():
    before = math.inf
    for bits in (40.0, 80.0, 200.0):
        found = leakage_bounds(SAMPLED, bits)
        assert found.pld is not None
        assert found.rdp is not None
        assert found.binary_rdp is not None
        assert found.pld < min(found.rdp, found.binary_rdp)  # by up to a bit; before, by round-off, far above
        assert found.pld / bits < before  # a longer secret loses a smaller share
        before = found.pld / bits
    assert found.pld < 50.0


def test_what_is_not_of_gaussian_steps_has_no_tilted_bound():
    assert tilted_log_probability(Laplace(1.0), ADD_REMOVE, log_p0=-40.0) is None
    assert tilted_log_delta(Repeated(Laplace(1.0), 2), ADD_REMOVE, epsilon=1.0) is None
    assert tilted_log_delta(Gaussian(1e-6), ADD_REMOVE, epsilon=1.0) is None  # its grid would be too large
