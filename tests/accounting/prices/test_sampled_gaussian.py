"""Rényi divergence of one sampled Gaussian step against arbitrary precision, dp-accounting and geometry."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.prices import sampled_gaussian
from reticent.accounting.prices.sampled_gaussian import sampled_gaussian_epsilon
from reticent.core.guarantee import Neighbours
from tests.accounting.oracles import replace_one_divergence, replace_one_in_plane, sampled_gaussian_divergence

SETTINGS = [(0.5, 2.81e-4), (0.3, 2.81e-4), (1.0, 0.01), (4.0, 1e-3), (0.8, 0.5), (20.0, 0.1), (0.5, 1e-6)]
ORDERS = [1.001, 1.3, 2.0, 2.5, 7.7, 33.0, 512.0]  # whole ones by the binomial sum


def price(noise: float, rate: float, order: float) -> float:
    return sampled_gaussian_epsilon(noise, rate, order=order, neighbours=Neighbours.ADD_REMOVE)


@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
def test_every_order_equals_arbitrary_precision(noise: float, rate: float) -> None:
    for order in ORDERS:
        assert price(noise, rate, order) == pytest.approx(
            sampled_gaussian_divergence(noise, rate, order), rel=1e-9
        ), order


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rate"), SETTINGS)
def test_fractional_orders_equal_adaptive_quadrature(noise: float, rate: float) -> None:
    for order in (1.02, 3.3, 40.5):
        with mp.workdps(40):
            sigma, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)
            nodes = [-16 * sigma + (a + 32 * sigma) * i / 40 for i in range(41)]
            moment = mp.quad(
                lambda x, a=a, q=q, s=sigma: (
                    mp.npdf(x, 0, s) * (1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))) ** a
                ),
                nodes,
            )
            expected = float(mp.log(moment) / (a - 1))
        assert price(noise, rate, order) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("noise", "rate", "order"), [(0.5, 0.3, 1.5), (1.0, 0.01, 2.5), (0.7, 0.9, 4.0)])
def test_removing_costs_at_least_as_much_as_adding(noise: float, rate: float, order: float) -> None:
    # Mironov, Talwar and Zhang 2019, theorem 5: the other direction never exceeds the one that is charged.
    backward = sampled_gaussian_divergence(noise, rate, order, backward=True)
    assert price(noise, rate, order) >= backward * (1 - 1e-12)


@pytest.mark.parametrize(("noise", "rate", "order"), [(0.5, 0.3, 1.5), (1.0, 0.01, 2.0), (0.7, 0.9, 4.5)])
def test_replace_one_equals_arbitrary_precision(noise: float, rate: float, order: float) -> None:
    found = sampled_gaussian_epsilon(noise, rate, order=order, neighbours=Neighbours.REPLACE)
    assert found == pytest.approx(replace_one_divergence(noise, rate, order), rel=1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_no_pair_of_records_in_the_plane_passes_the_opposite_pair(order: float) -> None:
    found = sampled_gaussian_epsilon(1.0, 0.2, order=order, neighbours=Neighbours.REPLACE)
    opposite = replace_one_in_plane(1.0, 0.2, order, angle=math.pi, length=1.0)
    assert opposite == pytest.approx(found, rel=1e-6)
    for angle in np.linspace(0.0, math.pi, 5):
        for length in (0.0, 0.5, 1.0):
            assert replace_one_in_plane(1.0, 0.2, order, angle=float(angle), length=length) <= found * (1 + 1e-6)


def test_full_sampling_is_the_plain_gaussian() -> None:
    assert price(2.0, 1.0, 3.0) == 3.0 / 8.0
    assert sampled_gaussian_epsilon(2.0, 1.0, order=3.0, neighbours=Neighbours.REPLACE) == 12.0 / 8.0
    assert price(2.0, 1.0 - 1e-12, 3.0) == pytest.approx(3.0 / 8.0, rel=1e-9)


def test_integer_orders_agree_with_dp_accounting_and_fractional_ones_are_tighter() -> None:
    for noise, rate in SETTINGS:
        theirs = rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(rate, noise, [2, 5, 32, 64])
        ours = [price(noise, rate, order) for order in (2.0, 5.0, 32.0, 64.0)]
        # its logarithm of 1 + something tiny loses digits, hence the absolute part
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-14)
    # spec: dp-accounting is loose by 10 % at 1.3 and 0.4 % at 2.5
    theirs = rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(2.81e-4, 0.5, [1.3, 2.5])
    assert theirs[0] / price(0.5, 2.81e-4, 1.3) == pytest.approx(1.10, abs=0.02)
    assert theirs[1] / price(0.5, 2.81e-4, 2.5) == pytest.approx(1.004, abs=0.002)


def test_the_divergence_never_falls_with_the_order() -> None:
    values = [price(0.5, 2.81e-4, float(order)) for order in 1 + np.geomspace(1e-3, 2e4, 120)]
    assert all(later >= earlier for earlier, later in itertools.pairwise(values))


def test_half_the_sensitivity_is_caught_by_the_oracle() -> None:
    twin = price(2 * 0.5, 0.01, 2.5)  # forgets that one record moves the sum by 1, not 1/2
    assert twin < 0.5 * sampled_gaussian_divergence(0.5, 0.01, 2.5)


def test_an_order_is_priced_by_thousands_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = []

    def counted(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
        nodes.append(log_p.size)
        return log_moment(log_p, log_q, order)

    log_moment = sampled_gaussian.log_moment
    monkeypatch.setattr(sampled_gaussian, "log_moment", counted)
    for order in 1 + np.geomspace(1e-3, 2e4, 148):
        price(0.5123, 2.81e-4, float(order))
    assert nodes
    assert max(nodes) < 5000


@pytest.mark.parametrize(
    ("noise", "rate", "order"), [(0.0, 0.1, 2.0), (1.0, 0.0, 2.0), (1.0, 1.1, 2.0), (1.0, 0.1, 1.0)]
)
def test_values_outside_the_domain_are_refused(noise: float, rate: float, order: float) -> None:
    with pytest.raises(ValueError):
        price(noise, rate, order)


@pytest.mark.parametrize(
    ("noise", "rate", "order"), [(10.0, 1 - 1e-6, 512.0), (30.0, 0.9, 2000.0), (10.0, 0.9, 512.0)]
)
def test_replace_one_sees_the_far_peak_of_high_orders_and_rates(noise: float, rate: float, order: float) -> None:
    # M_1^a M_-1^(1−a) peaks near 2a − 1: twice as far out as when one is added (wide quadrature in log space).
    x = np.arange(-14 * noise - 3 * order, 14 * noise + 3 * order, noise / 64)
    centre = -0.5 * (x / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))
    worlds = [
        np.logaddexp(math.log1p(-rate), math.log(rate) + (mean * x - 0.5) / noise**2) + centre
        for mean in (1.0, -1.0)
    ]
    exact = (np.logaddexp.reduce(order * worlds[0] + (1 - order) * worlds[1]) + math.log(noise / 64)) / (order - 1)
    found = sampled_gaussian_epsilon(noise, rate, order=order, neighbours=Neighbours.REPLACE)
    assert found == pytest.approx(exact, rel=1e-6)


SMALL_NOISE = [(0.06, 1e-3, 1.01), (0.1, 0.2, 1.05), (0.05, 1e-3, 2.0), (0.08, 1e-4, 3.0), (0.03, 1e-3, 1.01)]


@pytest.mark.parametrize(("noise", "rate", "order"), SMALL_NOISE)
def test_small_noise_equals_arbitrary_precision(noise: float, rate: float, order: float) -> None:
    assert price(noise, rate, order) == pytest.approx(sampled_gaussian_divergence(noise, rate, order), rel=1e-9)
    found = sampled_gaussian_epsilon(noise, rate, order=order, neighbours=Neighbours.REPLACE)
    assert found == pytest.approx(replace_one_divergence(noise, rate, order), rel=1e-9)


def test_a_quadrature_that_leaves_out_a_bump_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twin: nodes only where P^a Q^(1−a) is large. Q's bump at −1 is not there, and with it q (a − 1) of the sum.
    exact = replace_one_divergence(0.06, 1e-3, 1.01)
    monkeypatch.setattr(sampled_gaussian, "_means", lambda *_: ())
    sampled_gaussian_epsilon.cache_clear()
    twin = sampled_gaussian_epsilon(0.06, 1e-3, order=1.01, neighbours=Neighbours.REPLACE)
    sampled_gaussian_epsilon.cache_clear()
    assert twin < exact * (1 - 3e-3)


def wide_sum(noise: float, rate: float, order: float, neighbours: Neighbours) -> float:
    """(a − 1) D_a by one plain sum in log space over everything between and beyond all means and peaks."""
    x = np.arange(-1.0 - 15 * noise, 2 * order + 15 * noise, noise**2 / 8)
    centre = -0.5 * (x / noise) ** 2 + math.log(noise / 8 / math.sqrt(2 * math.pi))

    def world(mean: float) -> np.ndarray:
        return np.logaddexp(math.log1p(-rate), math.log(rate) + (mean * x - 0.5) / noise**2) + centre

    log_q = centre if neighbours is Neighbours.ADD_REMOVE else world(-1.0)
    return float(np.logaddexp.reduce(order * world(1.0) + (1 - order) * log_q))


@given(
    noise=st.floats(0.02, 0.3),
    log_rate=st.floats(math.log(1e-5), math.log(0.9)),
    order=st.one_of(st.floats(1.001, 4.0), st.integers(2, 6).map(float)),
    neighbours=st.sampled_from([Neighbours.ADD_REMOVE, Neighbours.REPLACE]),
)
@settings(max_examples=60, deadline=None)
def test_small_noise_is_never_priced_below_the_truth(
    noise: float, log_rate: float, order: float, neighbours: Neighbours
) -> None:
    rate = math.exp(log_rate)
    found = sampled_gaussian_epsilon(noise, rate, order=order, neighbours=neighbours) * (order - 1)
    assert found == pytest.approx(wide_sum(noise, rate, order, neighbours), rel=1e-9, abs=1e-11)
