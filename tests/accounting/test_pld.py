"""Privacy loss distributions: printed numbers, dp-accounting, exact Gaussians, and round-off that stays covered."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from reticent.accounting import pld
from reticent.accounting.conversion import rdp_delta
from reticent.accounting.curve import RenyiCurve
from reticent.accounting.guarantees import epsilons
from reticent.accounting.pld import (
    PrivacyProfile,
    has_privacy_profile,
    pld_epsilon,
    privacy_profile,
)
from reticent.accounting.prices.hockey_stick import Direction, loss_range, step_delta
from reticent.accounting.prices.laplace import laplace_delta
from reticent.core.errors import UnsupportedEvent
from reticent.core.event import (
    Composed,
    ConcentratedRelease,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Repeated,
    SampledGaussian,
)
from reticent.core.guarantee import Neighbours

ADD_REMOVE, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE
THEIRS = {
    Direction.REMOVE: privacy_loss_mechanism.AdjacencyType.REMOVE,
    Direction.ADD: privacy_loss_mechanism.AdjacencyType.ADD,
    Direction.REPLACE: privacy_loss_mechanism.AdjacencyType.REPLACE,
}


def pld_delta(event, *, epsilon, neighbours):
    """δ at `epsilon` by privacy loss distributions."""
    return privacy_profile(event, neighbours).delta(epsilon)


def density(x: float, mean: float, *, noise: float, rate: float) -> float:
    # Written out: scipy's density of one number at a time takes a hundred times as long.
    without, with_one = (math.exp(-0.5 * ((x - centre) / noise) ** 2) for centre in (0.0, mean))
    return ((1 - rate) * without + rate * with_one) / (noise * math.sqrt(2 * math.pi))


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.1), (1.0, 0.01), (2.0, 1.0)])
def test_delta_of_one_step_equals_the_integral_and_dp_accounting(
    direction: Direction, noise: float, rate: float
) -> None:
    epsilons = np.array([-0.7, -0.05, 0.0, 0.02, 0.3, 1.5])
    found = step_delta(epsilons, direction, noise_multiplier=noise, sampling_rate=rate)
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=THEIRS[direction])
    np.testing.assert_allclose(found, [loss.get_delta_for_epsilon(e) for e in epsilons], rtol=1e-9, atol=1e-15)
    means = {Direction.REMOVE: (1.0, 0.0), Direction.ADD: (0.0, 1.0), Direction.REPLACE: (1.0, -1.0)}[direction]
    for epsilon, delta in zip(epsilons, found, strict=True):

        def surplus(x: float, growth: float = math.exp(epsilon)) -> float:
            p, q = (density(x, mean, noise=noise, rate=rate) for mean in means)
            return max(p - growth * q, 0.0)

        assert delta == pytest.approx(quad(surplus, -12 * noise, 12 * noise, limit=400)[0], rel=1e-4, abs=1e-9)


def test_losses_lie_in_their_range() -> None:
    for direction in Direction:
        low, high = loss_range(direction, noise_multiplier=0.5, sampling_rate=0.01)
        ends = step_delta(np.array([low, high]), direction, noise_multiplier=0.5, sampling_rate=0.01)
        assert ends[0] == pytest.approx(-math.expm1(low), rel=1e-12)  # everything lies above the least loss
        assert ends[1] < 1e-20


def test_numbers_of_the_reconstruction_paper() -> None:
    # spec 1: "PLD at σ=0.5: ε=6.61"
    event = Repeated(SampledGaussian(0.5, 2.81e-4), 186_000)
    assert pld_epsilon(event, delta=3e-7, neighbours=ADD_REMOVE) == pytest.approx(6.61, abs=0.005)


def test_replacing_costs_more_than_adding_or_removing() -> None:
    # spec 5: q=0.01, σ=1, T=1000, δ=8e-5: PLD 1.544 add/remove but 2.474 replace-one
    event = Repeated(SampledGaussian(1.0, 0.01), 1000)
    assert pld_epsilon(event, delta=8e-5, neighbours=ADD_REMOVE) == pytest.approx(1.544, abs=0.001)
    assert pld_epsilon(event, delta=8e-5, neighbours=REPLACE) == pytest.approx(2.474, abs=0.001)
    assert pld_epsilon(event, delta=8e-5, neighbours=Neighbours.MASK) == pytest.approx(2.474, abs=0.001)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 1000), (0.7, 0.1, 50), (3.0, 0.02, 400)])
def test_agrees_with_dp_accounting(neighbours: Neighbours, noise: float, rate: float, steps: int) -> None:
    from dp_accounting import dp_event, privacy_accountant
    from dp_accounting.pld import pld_privacy_accountant

    relation = privacy_accountant.NeighboringRelation
    # Twice its usual spacing, half its time: that moves its ε by 6e-5 of it at most.
    accountant = pld_privacy_accountant.PLDAccountant(
        relation.ADD_OR_REMOVE_ONE if neighbours is ADD_REMOVE else relation.REPLACE_ONE,
        value_discretization_interval=2e-4,
    )
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)), steps)
    event = Repeated(SampledGaussian(noise, rate), steps)
    for delta in (1e-3, 1e-6):
        ours = pld_epsilon(event, delta=delta, neighbours=neighbours)
        assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-3, abs=5e-4)


@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (10.0, 100), (0.3, 1)])
def test_gaussians_are_exact(noise: float, count: int) -> None:
    # Balle and Wang 2018, theorem 8, with σ/√T
    sigma = noise / math.sqrt(count)
    for epsilon in (0.0, 0.5, 3.0):
        exact = norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
            -0.5 / sigma - epsilon * sigma
        )
        found = pld_delta(Repeated(Gaussian(noise), count), epsilon=epsilon, neighbours=ADD_REMOVE)
        assert found == pytest.approx(exact, rel=1e-9)
        sampled = Repeated(SampledGaussian(noise, 1.0), count)
        assert pld_delta(sampled, epsilon=epsilon, neighbours=ADD_REMOVE) == pytest.approx(exact, rel=1e-9)


def test_a_composed_distribution_with_a_gaussian_in_it_is_never_below_the_exact_one() -> None:
    # one Laplace of enormous scale costs nothing; what remains is a discretised Gaussian
    event = Composed((Gaussian(1.0), Laplace(1e5)))
    for epsilon in (0.1, 1.0, 3.0):
        exact = pld_delta(Gaussian(1.0), epsilon=epsilon, neighbours=ADD_REMOVE)
        found = pld_delta(event, epsilon=epsilon, neighbours=ADD_REMOVE)
        assert exact <= found <= exact * 1.001 + 1e-9


def test_laplace_is_pure_and_replacement_doubles_it() -> None:
    assert pld_epsilon(Laplace(2.0), delta=1e-11, neighbours=ADD_REMOVE) == pytest.approx(0.5, abs=2e-3)
    assert pld_epsilon(Laplace(2.0), delta=1e-11, neighbours=REPLACE) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("scale", [0.3, 2.0, 40.0])
def test_laplace_steps_have_the_losses_of_dp_accounting(scale: float) -> None:
    epsilons = np.array([-4.0 / scale, -1.0 / scale, -0.3 / scale, 0.0, 0.5 / scale, 1.0 / scale, 2.0 / scale])
    exact = privacy_loss_mechanism.LaplacePrivacyLoss(scale, sensitivity=1.0)
    found = laplace_delta(epsilons, reach=1.0 / scale)
    np.testing.assert_allclose(found, [exact.get_delta_for_epsilon(e) for e in epsilons], rtol=1e-12, atol=1e-15)
    event, steps = Repeated(Laplace(scale), 8), 8
    theirs = privacy_loss_distribution.from_laplace_mechanism(scale, value_discretization_interval=1e-3 / scale)
    theirs = theirs.self_compose(steps)
    for epsilon in (0.1 / scale, 1.0 / scale, 4.0 / scale, 7.5 / scale):
        ours = pld_delta(event, epsilon=epsilon, neighbours=ADD_REMOVE)
        assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=2e-3, abs=1e-9)


@settings(max_examples=5, deadline=None)
@given(noise=st.floats(0.6, 3.0), rate=st.floats(1e-3, 0.1), steps=st.integers(2, 300))
def test_epsilon_falls_with_noise_and_grows_with_steps_and_rate(noise: float, rate: float, steps: int) -> None:
    def epsilon(noise: float, rate: float, steps: int) -> float:
        return PrivacyProfile(Repeated(SampledGaussian(noise, rate), steps), ADD_REMOVE).epsilon(1e-5)

    here, slack = epsilon(noise, rate, steps), 2e-4
    assert epsilon(noise * 1.2, rate, steps) <= here + slack
    assert epsilon(noise, rate * 1.2, steps) >= here - slack
    assert epsilon(noise, rate, steps * 2) >= here - slack


@settings(max_examples=10, deadline=None)
@given(
    event=st.sampled_from([SampledGaussian(1.0, 0.05), Laplace(8.0), Gaussian(6.0), NonPrivate()]),
    count=st.integers(0, 5),
)
def test_repeating_equals_that_many_charges(event: Event, count: int) -> None:
    repeated, separate = Repeated(event, count), Composed((event,) * count)
    for epsilon in (0.0, 0.2, 1.0):
        first = pld_delta(repeated, epsilon=epsilon, neighbours=ADD_REMOVE)
        assert pld_delta(separate, epsilon=epsilon, neighbours=ADD_REMOVE) == first


def test_round_off_stays_below_its_allowance() -> None:
    for noise, rate, steps in ((0.5, 2.81e-4, 186_000), (1.0, 0.01, 1000), (0.7, 0.1, 50)):
        profile = privacy_profile(Repeated(SampledGaussian(noise, rate), steps), ADD_REMOVE)
        for side in sides(profile):
            masses = side.masses
            negative = -masses[masses < 0]  # round-off is the same everywhere, and visible where it is negative
            measured = negative.mean() * masses.size if negative.size else 0.0
            assert 3 * measured < profile.round_off


def test_below_its_round_off_raw_dp_accounting_is_noise_where_the_allowance_keeps_delta_above_the_truth() -> None:
    # Far out δ falls below what the FFT can resolve. What is computed there is round-off, of either sign and of a
    # size that depends on the processor's instructions: the broken twin is to take it at its word.
    event = Repeated(SampledGaussian(1.0, 0.01), 1000)
    profile = privacy_profile(event, ADD_REMOVE)
    raw = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.01, value_discretization_interval=1e-3
    ).self_compose(1000)
    for epsilon in (9.0, 10.0, 11.0):
        truth = rdp_delta(RenyiCurve(event, ADD_REMOVE), epsilon=epsilon).value  # an upper bound
        assert 0.0 < truth < 1e-20
        # What the twin says lies within the allowance of the truth on either side, and so does ours above it.
        assert abs(raw.get_delta_for_epsilon(epsilon) - truth) < profile.round_off
        assert truth < profile.round_off <= profile.delta(epsilon) < 3.0 * profile.round_off


def test_without_its_allowance_a_profile_that_lost_its_tail_to_round_off_would_claim_pure_privacy() -> None:
    # The same twin, made deterministic: every mass that round-off could have made is taken as 0.
    profile = PrivacyProfile(Repeated(SampledGaussian(1.0, 0.01), 1000), ADD_REMOVE)

    class Resolved:
        def delta(self, epsilon: float) -> float:
            return -1e-14 if epsilon >= 5.0 else 1e-3

    profile._distribution = Resolved()
    assert profile.delta(5.0) == profile.round_off > 0.0
    assert profile.epsilon(profile.round_off / 2.0) == math.inf
    profile.round_off = 0.0
    assert profile.epsilon(1e-300) < 6.0  # the broken twin: ε = 5 at a δ that nobody computed


def test_a_composed_grid_that_would_be_too_large_is_coarser_and_never_below_the_fine_one(monkeypatch) -> None:
    event = Repeated(SampledGaussian(1.0, 0.01), 1000)
    fine = PrivacyProfile(event, ADD_REMOVE)
    monkeypatch.setattr(pld, "_MOST_COMPOSED", 4000)
    coarse = PrivacyProfile(event, ADD_REMOVE)
    assert sum(len(side.masses) for side in sides(coarse)) <= 4000 < sum(len(side.masses) for side in sides(fine))
    for delta in (1e-3, 1e-6):
        assert fine.epsilon(delta) - 1e-5 <= coarse.epsilon(delta) < 1.5 * fine.epsilon(delta)


def sides(profile: PrivacyProfile) -> tuple:
    return profile._distribution.sides


def test_more_steps_than_any_grid_holds_are_left_to_the_renyi_curve() -> None:
    event = Repeated(SampledGaussian(1.0, 0.01), 10**12)
    profile = PrivacyProfile(event, ADD_REMOVE)
    assert profile.is_out_of_reach
    assert profile.epsilon(1e-5) == math.inf
    assert profile.delta(1.0) == 1.0
    assert profile.points() == ((0.0, 1.0),)
    found = epsilons(event, delta=1e-5, neighbours=ADD_REMOVE)
    assert 5e7 < found.least < math.inf  # 10^12 steps of a KL divergence of 8.6e-5 each


def test_epsilon_and_delta_undo_each_other_and_points_are_a_falling_profile() -> None:
    profile = privacy_profile(Repeated(SampledGaussian(1.0, 0.01), 1000), ADD_REMOVE)
    assert profile.delta(profile.epsilon(1e-5)) <= 1e-5
    assert profile.delta(profile.epsilon(1e-5) - 1e-4) > 1e-5
    points = profile.points()
    assert points[0][0] == 0.0
    assert len(points) >= 24
    assert all(a[0] < b[0] and a[1] >= b[1] for a, b in itertools.pairwise(points))
    assert profile.epsilon(0.0) == math.inf  # below the allowance nothing is proved


def test_unprotected_and_empty_events() -> None:
    unprotected = PrivacyProfile(Composed((Gaussian(1.0), NonPrivate())), ADD_REMOVE)
    assert unprotected.delta(10.0) == 1.0
    assert unprotected.epsilon(0.5) == math.inf
    empty = PrivacyProfile(Repeated(Gaussian(1.0), 0), ADD_REMOVE)
    assert empty.epsilon(0.0) == 0.0


def test_events_without_a_known_loss_are_refused() -> None:
    event = Composed((Gaussian(1.0), ConcentratedRelease(0.1)))
    assert not has_privacy_profile(event)
    with pytest.raises(UnsupportedEvent, match="ConcentratedRelease"):
        PrivacyProfile(event, ADD_REMOVE)


@pytest.mark.parametrize("event", [Gaussian(1.0), SampledGaussian(2.0, 1.0), SampledGaussian(2.0, 0.1)])
def test_no_gaussian_is_purely_private_however_small_its_delta(event) -> None:
    profile = PrivacyProfile(event, Neighbours.ADD_REMOVE)
    assert profile.epsilon(0.0) == math.inf
    assert profile.delta(60.0) > 0.0


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
@pytest.mark.parametrize("steps", [400, 3000, 20_000])
def test_a_hopeless_gaussian_is_still_priced_where_e_to_the_epsilon_overflows(neighbours, steps):
    """(μ, δ) of a Gaussian of T steps at σ = 1: Balle and Wang's formula by logarithms of 60 digits."""
    found = pld_epsilon(Repeated(Gaussian(1.0), steps), delta=1e-3, neighbours=neighbours)
    mu = mpmath.sqrt(steps) * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    with mpmath.workdps(60):
        epsilon = mpmath.mpf(found)
        delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-3, rel=1e-2)
    assert delta <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_no_delta_is_unknown_at_any_epsilon(direction, rate):
    epsilons = np.array([0.0, 1.0, 299.0, 301.0, 700.0, 720.0, 5000.0, 1e6])
    deltas = step_delta(epsilons, direction, noise_multiplier=0.02, sampling_rate=rate)
    assert np.isfinite(deltas).all()
    assert (np.diff(deltas) <= 1e-12).all()
