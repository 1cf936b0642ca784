"""Prices of every event: closed forms, composition written once, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from reticent.accounting.curve import RenyiCurve, known_orders, leaves, renyi_epsilon
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import (
    Composed,
    ConcentratedRelease,
    Event,
    ExponentialSampling,
    FilteredCharge,
    Gaussian,
    Laplace,
    NoisyCheck,
    NoisyVote,
    NonPrivate,
    RealisedCharge,
    Repeated,
    SampledGaussian,
    SubsampledMixture,
)
from reticent.core.guarantee import Neighbours
from tests.accounting.oracles import divergence

ADD_REMOVE = Neighbours.ADD_REMOVE

positive = st.floats(0.3, 5.0)
rates = st.sampled_from([1e-3, 0.01, 0.2, 1.0])
orders = st.sampled_from([1.01, 1.5, 2.0, 3.7, 16.0])
single_events = st.one_of(
    st.builds(Gaussian, positive),
    st.builds(SampledGaussian, positive, rates),
    st.builds(Laplace, positive),
    st.builds(ExponentialSampling, positive),
    st.builds(ConcentratedRelease, positive),
    st.builds(RealisedCharge, st.just(16.0), positive),
    st.builds(FilteredCharge, st.just(16.0), positive),
    st.builds(NoisyVote, st.floats(5.0, 20.0)),
    st.builds(NoisyCheck, st.floats(5.0, 20.0)),
    st.builds(NoisyVote, st.floats(5.0, 20.0), st.just((40, 10, 0))),
    st.builds(SubsampledMixture, st.integers(2, 20), rates, st.just(16.0), st.floats(0.01, 0.1)),
    st.just(NonPrivate()),
)


@settings(max_examples=60, deadline=None)
@given(event=single_events, count=st.integers(0, 6), order=orders)
def test_repeating_any_event_equals_that_many_charges(event: Event, count: int, order: float) -> None:
    repeated = renyi_epsilon(Repeated(event, count), order, ADD_REMOVE)
    charges = math.fsum(renyi_epsilon(event, order, ADD_REMOVE) for _ in range(count))
    composed = renyi_epsilon(Composed((event,) * count), order, ADD_REMOVE)
    assert repeated == pytest.approx(charges, rel=1e-12)
    assert composed == pytest.approx(charges, rel=1e-12)
    nested = renyi_epsilon(Repeated(Composed((event, event)), count), order, ADD_REMOVE)
    assert nested == pytest.approx(2 * charges, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(noise=st.floats(0.3, 4.0), rate=st.floats(1e-4, 0.5), order=orders, more=st.floats(1.05, 2.0))
def test_the_price_falls_with_noise_and_grows_with_rate_and_steps(
    noise: float, rate: float, order: float, more: float
) -> None:
    def price(noise: float, rate: float, steps: int) -> float:
        return renyi_epsilon(Repeated(SampledGaussian(noise, rate), steps), order, ADD_REMOVE)

    here = price(noise, rate, 10)
    assert price(noise * more, rate, 10) < here
    assert price(noise, min(1.0, rate * more), 10) > here
    assert price(noise, rate, 11) > here


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0, 1e4])
@pytest.mark.parametrize("order", [1.01, 2.0, 9.5, 300.0])
def test_laplace_equals_the_integral(scale: float, order: float) -> None:
    shift = 1.0 / scale

    def integrand(x: float) -> float:
        return 0.5 * math.exp(-order * abs(x) + (order - 1) * abs(x - shift))

    if (order - 1) * shift < 600:
        parts = [quad(integrand, *ends, epsabs=0, epsrel=1e-13)[0] for ends in ((0, shift),)]
        total = math.fsum(parts) + 0.5 * math.exp((order - 1) * shift) + 0.5 * math.exp(-order * shift)
        if total > 1 + 1e-6:  # the plain integral has no more digits than this
            found = renyi_epsilon(Laplace(scale), order, ADD_REMOVE)
            assert found == pytest.approx(math.log(total) / (order - 1), rel=1e-6)
    assert renyi_epsilon(Laplace(scale), order, ADD_REMOVE) <= shift
    assert renyi_epsilon(Laplace(scale), math.inf, ADD_REMOVE) == shift


def test_bounded_range_is_tight_and_never_passed_by_random_pairs() -> None:
    generator = np.random.default_rng(5)
    for width in (0.05, 1.0, 4.0):
        for order in (1.1, 2.0, 8.0):
            price = renyi_epsilon(ExponentialSampling(width), order, ADD_REMOVE)
            assert price <= min(width, order * width**2 / 8) * (1 + 1e-12)
            worst = 0.0
            for top in np.linspace(1e-6, width - 1e-6, 2000):  # two points with log-ratios top and top − width
                weight = (math.exp(-top) - math.exp(-width)) / -math.expm1(-width)
                moment = weight * math.exp(order * top) + (1 - weight) * math.exp(order * (top - width))
                worst = max(worst, math.log(moment) / (order - 1))
            assert worst <= price * (1 + 1e-9)
            assert worst == pytest.approx(price, rel=1e-3)
            for _ in range(20):  # softmax of logits that move by at most width/2 either way
                logits = generator.normal(size=6)
                moved = logits + generator.uniform(-width / 2, width / 2, size=6)
                p, q = (np.exp(row) / np.exp(row).sum() for row in (logits, moved))
                assert divergence(p, q, order) <= price * (1 + 1e-9)


def test_a_forgotten_half_of_the_range_is_caught() -> None:
    p = np.array([0.5, 0.5])
    q = np.exp([0.5, -0.5]) / np.exp([0.5, -0.5]).sum()  # log-ratios in an interval of length 1
    twin = renyi_epsilon(ExponentialSampling(0.5), 2.0, ADD_REMOVE)
    assert divergence(p, q, 2.0) > twin
    assert divergence(p, q, 2.0) <= renyi_epsilon(ExponentialSampling(1.0), 2.0, ADD_REMOVE)


def test_replacing_one_costs_what_two_steps_cost() -> None:
    assert renyi_epsilon(Gaussian(2.0), 3.0, Neighbours.REPLACE) == 4 * renyi_epsilon(
        Gaussian(2.0), 3.0, ADD_REMOVE
    )
    assert renyi_epsilon(ConcentratedRelease(0.1), 3.0, Neighbours.REPLACE) == pytest.approx(1.2)
    assert renyi_epsilon(Laplace(4.0), 3.0, Neighbours.REPLACE) == renyi_epsilon(Laplace(2.0), 3.0, ADD_REMOVE)
    assert renyi_epsilon(Gaussian(2.0), 3.0, Neighbours.MASK) == renyi_epsilon(
        Gaussian(2.0), 3.0, Neighbours.REPLACE
    )


@pytest.mark.parametrize("event", [RealisedCharge(2.0, 0.5), FilteredCharge(2.0, 0.5)])
def test_a_charge_holds_below_its_order_is_unknown_above_and_refused_for_replacement(event: Event) -> None:
    assert renyi_epsilon(event, 2.0, ADD_REMOVE) == renyi_epsilon(event, 1.5, ADD_REMOVE) == 0.5
    assert renyi_epsilon(event, 2.001, ADD_REMOVE) == math.inf
    with pytest.raises(UnsupportedEvent):
        renyi_epsilon(event, 2.0, Neighbours.REPLACE)


def test_mixed_orders_compose_at_the_least_of_them() -> None:
    event = Composed((FilteredCharge(2.0, 0.5), Repeated(FilteredCharge(3.0, 0.25), 2)))
    curve = RenyiCurve(event, ADD_REMOVE)
    assert curve(2.0) == 1.0
    assert curve(2.5) == math.inf
    assert known_orders(event) == {2.0, 3.0}
    value, order = curve.minimise(lambda a, d: d + 10.0 / (a - 1.0))
    assert (value, order) == (11.0, 2.0)


def test_no_protection_costs_infinity_and_nothing_costs_nothing() -> None:
    assert renyi_epsilon(Composed((Gaussian(1.0), NonPrivate())), 2.0, ADD_REMOVE) == math.inf
    assert renyi_epsilon(Repeated(NonPrivate(), 0), 2.0, ADD_REMOVE) == 0.0
    assert renyi_epsilon(Composed(()), 2.0, ADD_REMOVE) == 0.0


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(UnsupportedEvent, match="str"):
        renyi_epsilon("gaussian", 2.0, ADD_REMOVE)  # type: ignore[arg-type]


def test_leaves_count_through_nesting() -> None:
    event = Repeated(Composed((Gaussian(1.0), Repeated(Laplace(2.0), 3), Repeated(Laplace(1.0), 0))), 2)
    assert list(leaves(event)) == [(Gaussian(1.0), 2), (Laplace(2.0), 6)]


def test_the_order_is_found_between_and_beyond_grid_points() -> None:
    # d = ρa: the least of ρa + c/(a − 1) is ρ + 2√(ρc) at a = 1 + √(c/ρ), here 118.7
    curve = RenyiCurve(ConcentratedRelease(0.001), ADD_REMOVE)
    value, order = curve.minimise(lambda a, d: d + math.log(1e6) / (a - 1))
    assert value == pytest.approx(0.001 + 2 * math.sqrt(0.001 * math.log(1e6)), rel=1e-9)
    assert order == pytest.approx(1 + math.sqrt(math.log(1e6) / 0.001), rel=1e-3)


def test_a_search_that_has_enough_ends_early_and_one_that_never_has_ends_as_ever() -> None:
    curve = RenyiCurve(ConcentratedRelease(0.001), ADD_REMOVE)
    looked: list[float] = []

    def objective(order: float, divergence: float) -> float:
        looked.append(order)
        return divergence + math.log(1e6) / (order - 1)

    least, best = curve.minimise(objective)
    looks = len(looked)
    for share in (10.0, 1.5, 1.0 + 1e-9):
        looked.clear()
        value, order = curve.minimise(objective, enough=least * share)
        assert value == objective(order, curve(order)) <= least * share
        assert share < 1.5 or len(looked) < looks / 2
    assert curve.minimise(objective, enough=least * 0.999) == (least, best)
