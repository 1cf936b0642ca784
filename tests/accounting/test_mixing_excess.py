"""Charges from pmfs equal those from logarithms, at every order."""

import math

import numpy as np
import pytest

from reticent.accounting import vocabulary_loops
from reticent.accounting.mixing_charge import (
    filtered_charges,
    fixed_mixture,
    log_mixture,
    submix_charges,
    submix_mixture,
)
from reticent.accounting.mixing_curves import Halves, Pull
from reticent.accounting.mixing_excess import (
    filtered_pmf_charges,
    leave_one_out_charges,
    mixture_pmf,
    symmetric_divergence,
)
from reticent.core.divergence import log_moment, log_normalise, symmetric_renyi_divergence

ORDERS = (2.0, 3.0, 4.0, 8.0, 16.0, 1.5, 2.5, 32.0)


def ensembles(seed, count, vocabularies=(2, 3, 9, 5000)):
    """Random parts [k, V], public [V] and weights [k], near and far; one vocabulary spans several blocks."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k, v = int(rng.integers(1, 6)), int(rng.choice(vocabularies))
        public = log_normalise(rng.normal(scale=rng.choice([0.5, 3.0]), size=v))
        parts = log_normalise(public + rng.normal(scale=rng.choice([1e-4, 0.3, 2.0]), size=(k, v)))
        yield parts, public, rng.uniform(0, 0.8, size=k)


@pytest.mark.parametrize("order", [*ORDERS, math.inf])
def test_symmetric_divergence_of_pmfs_equals_cores(order):
    for parts, public, _ in ensembles(1, 12):
        fast = symmetric_divergence(np.exp(parts), np.exp(public), order)
        assert fast == pytest.approx(symmetric_renyi_divergence(parts, public, order), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("order", [2.0, 4.0, 2.5, math.inf])
def test_supports_that_differ_are_infinitely_far_apart(order):
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.25, 0.25])
    assert symmetric_divergence(p, q, order) == math.inf
    assert math.isfinite(symmetric_divergence(p, np.array([0.25, 0.75, 0.0]), order))


@pytest.mark.parametrize("order", ORDERS)
def test_filtered_charges_of_pmfs_equal_those_of_logarithms(order):
    for parts, public, weights in ensembles(2, 12):
        setting = {"parts": len(parts), "weight_limit": 0.8}
        fast = filtered_pmf_charges(Pull(np.exp(parts), np.exp(public), order), weights, **setting)
        slow = filtered_charges(parts, public, weights, order=order, **setting)
        assert fast == pytest.approx(slow, rel=1e-9, abs=1e-15)


def test_a_whole_order_in_place_of_the_next_is_caught():
    # Twin: the polynomial of degree a − 2 instead of a − 1, an order too low.
    for parts, public, weights in ensembles(3, 4, vocabularies=(9,)):
        setting = {"parts": len(parts), "weight_limit": 0.8}
        twin = filtered_pmf_charges(Pull(np.exp(parts), np.exp(public), 3.0), weights, **setting)
        slow = filtered_charges(parts, public, weights, order=4.0, **setting)
        assert (twin < slow * 0.9).all()


@pytest.mark.parametrize("order", [2.0, 5.0, 16.0])
def test_curves_are_cores_moments_and_their_slopes(order):
    for parts, public, weights in ensembles(4, 10):
        pull = Pull(np.exp(parts), np.exp(public), order)
        halves = Halves(np.exp(parts), np.exp(parts[::-1]), np.exp(public), order)
        mixed, other = (log_mixture(rows, public, weights) for rows in (parts, parts[::-1]))
        pairs = {
            "forward": (pull.forward, log_moment(mixed, public, order)),
            "reverse": (pull.reverse, log_moment(public, mixed, order)),
            "rough": (pull.rough, symmetric_renyi_divergence(mixed, public, order) * (order - 1)),
            "halves": (halves.worse, symmetric_renyi_divergence(mixed, other, order) * (order - 1)),
        }
        for name, (curve, expected) in pairs.items():
            tolerance = 1e-12 if name == "rough" else 1e-17
            excess, slope = curve(weights)
            assert excess == pytest.approx(np.expm1(expected), rel=1e-9, abs=tolerance), name
            step = 1e-5
            above, below = (curve(weights * math.exp(sign * step))[0] for sign in (1, -1))
            seen = excess > 1e-6  # where a difference of rough sums has digits left
            assert slope[seen] == pytest.approx(np.log(above[seen] / below[seen]) / (2 * step), rel=1e-3), name
            assert (slope[seen] >= 1.0).all(), name


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("order", [2.0, 4.0, 2.5])
def test_leave_one_out_charges_of_pmfs_equal_those_of_logarithms(order, common):
    for parts, public, weights in ensembles(5, 12):
        fast = leave_one_out_charges(np.exp(parts), np.exp(public), weights, order=order, common=common)
        slow = submix_charges(parts, public, weights, order=order, common=common)
        assert fast == pytest.approx(slow, rel=1e-8, abs=1e-14)
        mixture = mixture_pmf(np.exp(parts), np.exp(public), weights, common=common)
        assert np.log(mixture) == pytest.approx(submix_mixture(parts, public, weights, common=common), abs=1e-12)


def test_a_part_that_dominates_a_token_does_not_cancel_the_others():
    # The others hold 1e-20 there: the whole minus the part would be 0 or noise.
    parts = np.array([[1.0 - 2e-20, 1e-20, 1e-20], [1e-20, 0.5, 0.5], [1e-20, 0.5, 0.5]])
    public = np.array([1e-20, 0.5, 0.5])
    fast = leave_one_out_charges(parts, public, np.ones(3), order=2.0, common=False)
    slow = submix_charges(np.log(parts), np.log(public), np.ones(3), order=2.0, common=False)
    assert fast == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("order", [2.0, 3.0, 8.0])
def test_chances_whose_squares_are_below_the_least_number_count(order):
    q, p = np.array([[9.23745351e-208, 1.0]]), np.array([[4.65301627e-164, 1.0]])
    expected = symmetric_renyi_divergence(np.log(p), np.log(q), order)
    assert symmetric_divergence(p, q, order) == pytest.approx(expected, rel=1e-9, abs=1e-100)
    assert leave_one_out_charges(p, q[0], np.ones(1), order=order, common=True) == pytest.approx(expected, rel=1e-9)


def test_compiled_loops_are_not_kept_on_disk():
    """numba's files do not say which order they are of: after a crash one would be run for another."""
    loops = [
        vocabulary_loops._add_rows,
        vocabulary_loops._moments_from(1),
        vocabulary_loops._reverse_at(4, np.float64, has_falls=True),
        vocabulary_loops._halves_at(2),
        vocabulary_loops._pairs_at(2),
    ]
    assert [loop.stats.cache_path for loop in loops] == [None] * len(loops)


def test_order_infinity_covers_every_token_whatever_the_other_parts_hold():
    rng = np.random.default_rng(6)
    tightest = 0.0
    for parts, public, weights in ensembles(6, 60, vocabularies=(2, 3, 4)):
        k, limit = len(parts), 0.8
        pull = Pull(np.exp(parts), np.exp(public), math.inf)
        charges = filtered_pmf_charges(pull, weights, parts=k, weight_limit=limit)
        others = weights.copy()
        others[1:] = rng.choice([0.0, limit], size=k - 1)
        full = fixed_mixture(parts, public, others)
        without = fixed_mixture(np.vstack([public[None], parts[1:]]), public, others)
        found = float(symmetric_renyi_divergence(full, without, math.inf))
        assert found <= charges[0] * (1 + 1e-9) + 1e-14
        tightest = max(tightest, found / charges[0])
    assert tightest > 0.9


@pytest.mark.parametrize("order", [2.0, 5.0, 2.5, math.inf])
@pytest.mark.parametrize("vocabulary", [9, 3000, 9000])
def test_many_texts_at_once_are_each_alone(order, vocabulary):
    rng = np.random.default_rng(7)
    public = log_normalise(rng.normal(scale=2.0, size=(5, vocabulary)))
    parts = log_normalise(public[:, None] + rng.normal(size=(5, 3, vocabulary)))
    weights = rng.uniform(0.0, 0.8, size=(5, 3))
    setting = {"parts": 3, "weight_limit": 0.8}
    together = Pull(np.exp(parts), np.exp(public), order)
    charges = filtered_pmf_charges(together, weights.reshape(-1), **setting).reshape(5, 3)
    for text in range(5):
        alone = Pull(np.exp(parts[text]), np.exp(public[text]), order)
        expected = filtered_pmf_charges(alone, weights[text], **setting)
        assert charges[text] == pytest.approx(expected, rel=1e-12)
    if order == 2.5:
        alone_curves = [
            Pull(np.exp(p), np.exp(r), order).rough(w) for p, r, w in zip(parts, public, weights, strict=True)
        ]
        curve = together.rough(weights.reshape(-1))
        assert curve[0] == pytest.approx(np.concatenate([each[0] for each in alone_curves]), rel=1e-9)
        assert curve[1] == pytest.approx(np.concatenate([each[1] for each in alone_curves]), rel=1e-9)
