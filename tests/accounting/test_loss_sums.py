"""Losses on a grid equal those of dp-accounting: one step, its span, the sum of steps, and δ at many ε."""

import numpy as np
import pytest
from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution

from reticent.accounting.loss_sums import ComposedLosses, composed, connected, span_of_sums
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


@pytest.mark.parametrize("direction", [Direction.REMOVE, Direction.ADD])
def test_one_step_is_the_one_of_dp_accounting(direction):
    ours, theirs = connected(exact(direction), FIRST[direction], spacing=SPACING), public_side(direction)
    np.testing.assert_array_equal(ours._probs, theirs._probs)
    assert (ours._lower_loss, ours._infinity_mass) == (theirs._lower_loss, theirs._infinity_mass)


def test_a_delta_that_rises_or_is_no_chance_is_refused():
    for wrong in ([0.1, 0.2, 0.05], [1.5, 0.2, 0.1], [0.3, np.nan, 0.1]):
        with pytest.raises(ValueError, match="δ must fall"):
            connected(np.array(wrong), 0, spacing=0.1)


def test_the_span_is_the_one_of_dp_accounting(public):
    spans = span_of_sums(public, STEPS)
    for side, (low, high) in zip((public._pmf_remove, public._pmf_add), spans, strict=True):
        theirs = common.compute_self_convolve_bounds(side._probs, STEPS, 1e-15)
        assert (low, high) == pytest.approx(theirs, abs=1)


def test_many_steps_have_the_masses_and_the_delta_of_dp_accounting(public):
    ours, theirs = composed(public, STEPS, span_of_sums(public, STEPS)), public.self_compose(STEPS)
    for one, other in ((ours._pmf_remove, theirs._pmf_remove), (ours._pmf_add, theirs._pmf_add)):
        shift = one._lower_loss - other._lower_loss
        size = min(one.size, other.size) - 2
        np.testing.assert_allclose(one._probs[1 : size - shift], other._probs[1 + shift : size], atol=1e-14)
        assert one._infinity_mass == pytest.approx(other._infinity_mass, rel=1e-12)
    losses = ComposedLosses(theirs)  # of the very same masses: what differs is the summation
    for epsilon in (0.0, 1e-3, 0.0105, 0.5, 1.0239, 1.024, 2.0, 3.7, 50.0):
        assert losses.delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-9, abs=1e-16)


def test_a_tail_that_leaves_out_its_own_block_is_caught(public):
    losses = ComposedLosses(public.self_compose(STEPS))
    right = losses.delta(0.5)
    for _, tail in losses._sides:
        tail._masses[:] = 0.0  # the broken twin: only the blocks above the one that ε cuts
    assert losses.delta(0.5) < right * (1.0 - 1e-3)
