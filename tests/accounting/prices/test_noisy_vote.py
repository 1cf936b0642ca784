"""GNMax and its check against mpmath, simulation, printed bounds, and exact divergences of all neighbours."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from reticent.accounting.prices.noisy_vote import (
    check_chances,
    likely_outcome_epsilon,
    log_outcome_chances,
    log_upset_chance,
    noisy_check_epsilon,
    noisy_vote_epsilon,
    vote_slope,
)
from reticent.core.divergence import renyi_divergence
from reticent.core.event import NoisyCheck, NoisyVote
from reticent.core.guarantee import Neighbours

VOTES = st.lists(st.integers(0, 12), min_size=2, max_size=5).map(tuple)


def upset_by_mpmath(counts, noise):
    """q as one integral at 50 digits: slow and obvious."""
    leader = max(counts)
    rivals = list(counts)
    rivals.remove(leader)
    with mpmath.workdps(50):

        def integrand(t):
            return mpmath.npdf(t, leader, noise) * (1 - mpmath.fprod(mpmath.ncdf(t, n, noise) for n in rivals))

        middle = (leader + max(rivals)) / 2
        low, high = min(min(rivals), middle - 20 * noise), leader + 20 * noise
        places = [low, *np.arange(low + noise, high, 8 * noise), high]
        return float(mpmath.log(mpmath.quad(integrand, places, method="gauss-legendre", maxdegree=5)))


def neighbours_of(counts, relation):
    """Every vote that one voter away from `counts`."""
    for i in range(len(counts)):
        if relation is Neighbours.ADD_REMOVE:
            moves = [(i, i, 1, 0)] + ([(i, i, -1, 0)] if counts[i] else [])
        else:
            moves = [(i, j, -1, 1) for j in range(len(counts)) if j != i and counts[i]]
        for first, second, one, two in moves:
            moved = list(counts)
            moved[first] += one
            moved[second] += two
            yield tuple(moved)


def worst_divergence(counts, noise, order, relation):
    """(forward, reverse): the largest exact D_a over all neighbours, from the outcome chances."""
    here = log_outcome_chances(counts, noise)
    there = [log_outcome_chances(other, noise) for other in neighbours_of(counts, relation)]
    forward = max(float(renyi_divergence(here, p, order)) for p in there)
    return forward, max(float(renyi_divergence(p, here, order)) for p in there)


@pytest.mark.parametrize(
    ("counts", "noise"), [((5, 3, 0, 0), 2.0), ((8, 0, 0, 0), 1.0), ((8, 8, 1), 3.0), ((40, 2, 1), 2.0)]
)
def test_upset_chance_equals_the_mpmath_integral(counts, noise):
    assert log_upset_chance(counts, noise) == pytest.approx(upset_by_mpmath(counts, noise), rel=1e-11)


def test_upset_chance_of_two_outcomes_is_the_normal_tail():
    assert log_upset_chance((7, 3), 1.5) == pytest.approx(math.log(ndtr(-4 / (1.5 * math.sqrt(2)))), rel=1e-12)


def test_upset_chance_joins_the_union_bound_without_a_step_where_the_lead_is_long():
    noise = np.array([1.0 / 59.999, 1.0 / 60.001])  # on either side of where the union bound takes over
    near, far = (log_upset_chance((1,) + (0,) * 9, s) for s in noise)
    slope = (59.999**2 - 60.001**2) / 4
    assert far - near == pytest.approx(slope, rel=1e-2)


@given(VOTES, st.floats(0.3, 8.0))
@settings(max_examples=60, deadline=None)
def test_upset_chance_never_passes_the_printed_union_bound(counts, noise):
    # Papernot et al. 2018, Proposition 7: q <= (1/2) Σ erfc((n* − n_i)/(2σ)).
    leader = max(counts)
    rivals = list(counts)
    rivals.remove(leader)
    union = sum(ndtr(-(leader - n) / (noise * math.sqrt(2))) for n in rivals)
    assert math.exp(log_upset_chance(counts, noise)) <= union * (1 + 1e-9)


def test_outcome_chances_match_a_simulation_of_the_mechanism():
    counts, noise, draws = (5, 3, 3, 0, 0), 2.0, 400_000
    noisy = np.array(counts) + noise * np.random.default_rng(0).normal(size=(draws, 5))
    seen = np.bincount(noisy.argmax(axis=1), minlength=5) / draws
    chances = np.exp(log_outcome_chances(counts, noise))
    # Five standard errors: false alarm below 3e-6.
    assert np.all(np.abs(seen - chances) < 5 * np.sqrt(chances * (1 - chances) / draws))


def test_outcome_chances_of_a_whole_vocabulary_sum_to_one_and_agree_with_the_upset_chance():
    counts = (60, 30, 10) + (0,) * 50_254
    chances = np.exp(log_outcome_chances(counts, 12.0))
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert -np.expm1(log_upset_chance(counts, 12.0)) == pytest.approx(chances[0], rel=1e-9)


def test_worst_case_moves_two_counts_when_a_vote_is_replaced_and_one_when_it_is_removed():
    # Papernot et al. 2018, Proposition 8: a/σ² for a changed vote.
    assert noisy_vote_epsilon(NoisyVote(10.0), 2.0, Neighbours.REPLACE) == pytest.approx(0.02)
    assert noisy_vote_epsilon(NoisyVote(10.0), 2.0, Neighbours.MASK) == pytest.approx(0.02)
    assert noisy_vote_epsilon(NoisyVote(10.0), 2.0, Neighbours.ADD_REMOVE) == pytest.approx(0.01)


def test_theorem_six_equals_a_direct_evaluation_of_the_printed_formula():
    q, sigma, a = 1e-6, 10.0, 3.0
    mu2 = sigma * math.sqrt(math.log(1 / q))
    mu1, e1, e2 = mu2 + 1, (mu2 + 1) / sigma**2, mu2 / sigma**2
    big_a = (1 - q) / (1 - (q * math.exp(e2)) ** ((mu2 - 1) / mu2))
    big_b = math.exp(e1) / q ** (1 / (mu1 - 1))
    printed = math.log((1 - q) * big_a ** (a - 1) + q * big_b ** (a - 1)) / (a - 1)
    assert likely_outcome_epsilon(math.log(q), 1 / sigma**2, order=a) == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize("relation", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
@given(VOTES.filter(any), st.floats(0.4, 6.0), st.floats(1.1, 9.0))
@settings(max_examples=40, deadline=None)
def test_price_covers_the_exact_divergence_of_every_neighbour_in_both_directions(relation, counts, noise, order):
    price = noisy_vote_epsilon(NoisyVote(noise, counts), order, relation)
    assert max(worst_divergence(counts, noise, order, relation)) <= price * (1 + 1e-6) + 1e-13


def test_one_sided_theorem_is_caught_under_charging_the_other_direction():
    counts, noise, order = (8, 0, 0), 1.2, 3.0
    log_q, slope = log_upset_chance(counts, noise), vote_slope(noise, Neighbours.REPLACE)
    published = likely_outcome_epsilon(log_q, slope, order=order)
    forward, reverse = worst_divergence(counts, noise, order, Neighbours.REPLACE)
    assert forward <= published
    assert reverse > published
    assert reverse <= noisy_vote_epsilon(NoisyVote(noise, counts), order, Neighbours.REPLACE)


def test_half_the_sensitivity_is_caught_by_the_exact_divergence_of_a_moved_vote():
    counts, noise, order = (3, 3), 2.0, 1.5
    forward, reverse = worst_divergence(counts, noise, order, Neighbours.REPLACE)
    assert max(forward, reverse) > noisy_vote_epsilon(NoisyVote(2 * noise, counts), order, Neighbours.REPLACE)


def test_a_clear_winner_costs_less_than_the_worst_case_and_a_tie_costs_just_that():
    worst = noisy_vote_epsilon(NoisyVote(4.0), 2.0, Neighbours.REPLACE)
    assert noisy_vote_epsilon(NoisyVote(4.0, (60, 2, 0)), 2.0, Neighbours.REPLACE) < 1e-6 * worst
    assert noisy_vote_epsilon(NoisyVote(4.0, (9, 9, 0)), 2.0, Neighbours.REPLACE) == worst


def test_price_never_falls_as_the_order_grows():
    event = NoisyVote(5.0, (30, 4, 1))
    prices = [noisy_vote_epsilon(event, a, Neighbours.REPLACE) for a in np.linspace(1.1, 40, 60)]
    assert np.all(np.diff(prices) >= -1e-15)


# ---------------------------------------------------------------- the check before a vote


def test_both_chances_of_a_check_equal_mpmath_far_into_their_tails():
    with mpmath.workdps(60):
        for number, threshold in ((64.0, 60.0), (0.0, 90.0), (128.0, 40.0)):
            passes = mpmath.ncdf((number - threshold) / mpmath.mpf("2.5"))
            fails = mpmath.ncdf((threshold - number) / mpmath.mpf("2.5"))
            found = check_chances(number, threshold=threshold, noise=2.5)
            assert found == pytest.approx([float(fails), float(passes)], rel=1e-9)


@given(st.floats(-40.0, 40.0), st.floats(-1.0, 1.0), st.floats(0.3, 20.0), st.floats(1.01, 60.0))
@settings(max_examples=200, deadline=None)
def test_the_price_of_a_check_covers_every_number_that_one_voter_moves(lead, moved, noise, order):
    here, there = (np.log(check_chances(lead + by, threshold=0.0, noise=noise)) for by in (0.0, moved))
    price = noisy_check_epsilon(NoisyCheck(noise), order)
    assert max(float(renyi_divergence(here, there, order)), float(renyi_divergence(there, here, order))) <= (
        price * (1 + 1e-9) + 1e-12
    )


def test_a_check_priced_for_half_the_distance_is_caught():
    noise, order = 2.0, 1.05
    here, there = (np.log(check_chances(number, threshold=0.5, noise=noise)) for number in (0.0, 1.0))
    found = float(renyi_divergence(here, there, order))
    assert (
        noisy_check_epsilon(NoisyCheck(2 * noise), order) < found <= noisy_check_epsilon(NoisyCheck(noise), order)
    )


def test_moving_a_vote_moves_the_leaders_votes_by_one_so_a_check_costs_half_of_a_vote():
    # Papernot et al. 2018, Algorithm 1: the check of the plurality has sensitivity 1, a changed vote √2.
    counts = (5, 4, 0)
    assert {max(other) for other in neighbours_of(counts, Neighbours.REPLACE)} == {4, 5, 6}
    assert noisy_check_epsilon(NoisyCheck(10.0), 3.0) == pytest.approx(
        0.5 * noisy_vote_epsilon(NoisyVote(10.0), 3.0, Neighbours.REPLACE)
    )
    with pytest.raises(ValueError, match="above 1"):
        noisy_check_epsilon(NoisyCheck(10.0), 1.0)
