"""Losses on a grid equal those of dp-accounting: one step, its span, the sum of steps, and δ at many ε."""

import numpy as np
import pytest
from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution

from reticent.accounting.loss_sums import ComposedLosses, Losses, _quick_size, connected
from reticent.accounting.prices.hockey_stick import Direction, step_delta

NOISE, RATE, SPACING, STEPS = 0.8, 0.02, 1e-3, 300
FIRST = {Direction.REMOVE: -20, Direction.ADD: -3500}
LAST = {Direction.REMOVE: 3500, Direction.ADD: 20}


def exact(direction: Direction) -> np.ndarray:
    grid = SPACING * np.arange(FIRST[direction], LAST[direction] + 1)
    return step_delta(grid, direction, noise_multiplier=NOISE, sampling_rate=RATE)


def public_side(direction: Direction):
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        SPACING, FIRST[direction], LAST[direction], exact(direction)
    )


@pytest.fixture(scope="module")
def public():
    return privacy_loss_distribution.PrivacyLossDistribution(
        public_side(Direction.REMOVE), public_side(Direction.ADD)
    )


def same(side) -> Losses:
    """Their masses as ours."""
    dense = side.to_dense_pmf()
    return Losses(dense._lower_loss, dense._probs, dense._infinity_mass, dense._discretization)


def both(distribution) -> list[Losses]:
    return [same(distribution._pmf_remove), same(distribution._pmf_add)]


@pytest.mark.parametrize("direction", [Direction.REMOVE, Direction.ADD])
def test_one_step_is_the_one_of_dp_accounting(direction):
    ours, theirs = connected(exact(direction), FIRST[direction], spacing=SPACING), public_side(direction)
    np.testing.assert_array_equal(ours.masses, theirs._probs)
    assert (ours.first, ours.infinite) == (theirs._lower_loss, theirs._infinity_mass)


def test_a_delta_that_rises_or_is_no_chance_is_refused():
    for wrong in ([0.1, 0.2, 0.05], [1.5, 0.2, 0.1], [0.3, np.nan, 0.1]):
        with pytest.raises(ValueError, match="δ must fall"):
            connected(np.array(wrong), 0, spacing=0.1)


def test_the_span_is_the_one_of_dp_accounting(public):
    for side in both(public):
        theirs = common.compute_self_convolve_bounds(side.masses, STEPS, 1e-15)
        assert side.span(STEPS) == pytest.approx(theirs, abs=1)


def test_many_steps_have_the_masses_and_the_delta_of_dp_accounting(public):
    ours, theirs = [side.repeated(STEPS, side.span(STEPS)) for side in both(public)], public.self_compose(STEPS)
    for one, other in zip(ours, both(theirs), strict=True):
        shift = one.first - other.first
        size = min(len(one.masses), len(other.masses)) - 2
        np.testing.assert_allclose(one.masses[1 : size - shift], other.masses[1 + shift : size], atol=1e-14)
        assert one.infinite == pytest.approx(other.infinite, rel=1e-12)
    losses = ComposedLosses(both(theirs))  # of the very same masses: what differs is the summation
    for epsilon in (0.0, 1e-3, 0.0105, 0.5, 1.0239, 1.024, 2.0, 3.7, 50.0):
        assert losses.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-9, abs=1e-16)


def test_a_tail_that_leaves_out_its_own_block_is_caught(public):
    losses = ComposedLosses(both(public.self_compose(STEPS)))
    right = losses.delta(0.5)
    for tail in losses._tails:
        tail._masses[:] = 0.0  # the broken twin: only the blocks above the one that ε cuts
    assert losses.delta(0.5) < right * (1.0 - 1e-3)


def test_steps_of_two_kinds_have_the_masses_of_dp_accounting(public):
    many = public.self_compose(STEPS)
    for ours, other, theirs in zip(both(public), both(many), both(public.compose(many, 0.0)), strict=True):
        sum_of_both = ours.with_step(other)
        assert sum_of_both.first == theirs.first
        np.testing.assert_allclose(sum_of_both.masses, theirs.masses, atol=1e-15)
        assert sum_of_both.infinite == pytest.approx(theirs.infinite, rel=1e-12)


def test_the_size_of_an_fft_is_enough_has_small_factors_and_is_at_most_an_eighth_more():
    for size in [*range(1, 3000), 130_000, 1_234_567]:
        quick = _quick_size(size)
        assert size <= quick <= max(size + 3, 1.125 * size)
        for factor in (2, 3, 5):
            while quick % factor == 0:
                quick //= factor
        assert quick == 1
