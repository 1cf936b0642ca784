"""SubMix's realised charge and SubMix-F's charge against sums written out, and their broken twins."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.mixing.charge import (
    common_share,
    filtered_charges,
    leave_one_out_charges,
    mixture_pmf,
    symmetric_divergence,
)
from reticent.accounting.mixing.curves import Pull
from reticent.core.divergence import log_normalise, symmetric_renyi_divergence
from tests.accounting.mixing.oracles import (
    fixed_mixture,
    log_mixture,
    slow_filtered_charges,
    slow_submix_charges,
    submix_mixture,
)

ORDERS = (2.0, 3.0, 4.0, 8.0, 16.0, 17.0, 1.05, 1.5, 2.5, 20.5, 32.0, 64.0, 300.0)


def instance(seed, *, parts, vocabulary, scale=2.0):
    """Random log-pmfs of parts [k, V] and the public model [V], and weights [k]."""
    rng = np.random.default_rng(seed)
    rows = log_normalise(rng.normal(scale=scale, size=(parts + 1, vocabulary)))
    return rows[1:], rows[0], rng.uniform(0.1, 0.95, size=parts)


def ensembles(seed, count, vocabularies=(2, 3, 9, 5000)):
    """Random parts [k, V], public [V] and weights [k], near and far; one vocabulary spans several blocks."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k, v = int(rng.integers(1, 6)), int(rng.choice(vocabularies))
        public = log_normalise(rng.normal(scale=rng.choice([0.5, 3.0]), size=v))
        parts = log_normalise(public + rng.normal(scale=rng.choice([1e-4, 0.3, 2.0]), size=(k, v)))
        yield parts, public, rng.uniform(0, 0.8, size=k)


def filtered(rows, public, weights, *, order, **setting):
    """`filtered_charges` from log-pmfs."""
    return filtered_charges(Pull(np.exp(rows), np.exp(public), order), np.asarray(weights), **setting)


# ---------------------------------------------------------------- Algorithm 2


def slow_charge(parts, public, weights, *, order, common, removed):
    """Algorithm 2, lines 13–18, in plain probabilities and plain loops."""

    def mixture(keep):
        if not keep:
            return np.exp(public)
        total = np.zeros(len(public))
        for i in keep:
            share = sum(weights[j] for j in keep) / len(keep) if common else weights[i]
            total += (share * np.exp(parts[i]) + (1 - share) * np.exp(public)) / len(keep)
        return total

    everyone = list(range(len(weights)))
    p, q = mixture(everyone), mixture([i for i in everyone if i != removed])
    one = math.log(sum(p**order * q ** (1 - order))) / (order - 1)
    return max(one, math.log(sum(q**order * p ** (1 - order))) / (order - 1))


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 20.0])
def test_submix_charges_equal_algorithm_two_written_out(common, k, order):
    parts, public, weights = instance(k, parts=k, vocabulary=7)
    fast = leave_one_out_charges(np.exp(parts), np.exp(public), weights, order=order, common=common)
    slow = [slow_charge(parts, public, weights, order=order, common=common, removed=i) for i in range(k)]
    np.testing.assert_allclose(fast, slow, rtol=1e-10)
    oracle = slow_submix_charges(parts, public, weights, order=order, common=common)
    np.testing.assert_allclose(oracle, slow, rtol=1e-10)


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("order", [2.0, 4.0, 2.5, 20.0, 64.0, 300.0, math.inf])
def test_leave_one_out_charges_of_pmfs_equal_those_of_logarithms(order, common):
    for parts, public, weights in ensembles(5, 12):
        fast = leave_one_out_charges(np.exp(parts), np.exp(public), weights, order=order, common=common)
        slow = slow_submix_charges(parts, public, weights, order=order, common=common)
        assert fast == pytest.approx(slow, rel=1e-8, abs=1e-14)
        mixture = mixture_pmf(np.exp(parts), np.exp(public), weights, common=common)
        assert np.log(mixture) == pytest.approx(submix_mixture(parts, public, weights, common=common), abs=1e-12)


def test_removing_the_only_part_leaves_the_public_model():
    parts, public, weights = instance(0, parts=1, vocabulary=5)
    mixture = submix_mixture(parts, public, weights, common=True)
    charge = leave_one_out_charges(np.exp(parts), np.exp(public), weights, order=2.0, common=True)
    assert charge[0] == pytest.approx(float(symmetric_renyi_divergence(mixture, public, 2.0)))


def test_vocabulary_size_in_place_of_the_number_of_parts_is_caught():
    # Seen in a published SubMix implementation: the leave-one-out mean had the wrong divisor. One part leaks.
    parts, public, _ = instance(3, parts=2, vocabulary=12)
    parts[0] = log_normalise(np.where(np.arange(12) == 4, 9.0, 0.0))
    weights = np.full(2, 0.9)
    honest = leave_one_out_charges(np.exp(parts), np.exp(public), weights, order=2.0, common=True)[0]
    mixture = np.exp(submix_mixture(parts, public, weights, common=True))
    own = 0.9 * np.exp(parts[0]) + 0.1 * np.exp(public)
    twin = (12 * mixture - own) / 11  # V in place of k
    under = float(symmetric_renyi_divergence(np.log(mixture), np.log(twin / twin.sum()), 2.0))
    assert under < honest / 10


def test_charge_keeps_its_digits_where_parts_nearly_agree_with_the_public_model():
    with mpmath.workdps(50):
        public, part, weight = (
            [mpmath.mpf("0.3"), mpmath.mpf("0.7")],
            [mpmath.mpf("0.31"), mpmath.mpf("0.69")],
            "1e-6",
        )
        mixed = [mpmath.mpf(weight) * p + (1 - mpmath.mpf(weight)) * r for p, r in zip(part, public, strict=True)]
        exact = max(
            mpmath.log(sum(p**2 / q for p, q in zip(one, two, strict=True)))
            for one, two in ((mixed, public), (public, mixed))
        )
    rows, base = np.array([[0.31, 0.69]]), np.array([0.3, 0.7])
    charge = leave_one_out_charges(rows, base, np.array([1e-6]), order=2.0, common=True)
    assert charge[0] == pytest.approx(float(exact), rel=1e-5)
    assert charge[0] > 0


def test_a_part_that_dominates_a_token_does_not_cancel_the_others():
    # The others hold 1e-20 there: the whole minus the part would be 0 or noise.
    parts = np.array([[1.0 - 2e-20, 1e-20, 1e-20], [1e-20, 0.5, 0.5], [1e-20, 0.5, 0.5]])
    public = np.array([1e-20, 0.5, 0.5])
    fast = leave_one_out_charges(parts, public, np.ones(3), order=2.0, common=False)
    slow = slow_submix_charges(np.log(parts), np.log(public), np.ones(3), order=2.0, common=False)
    assert fast == pytest.approx(slow, rel=1e-9)


@pytest.mark.parametrize("order", [2.0, 3.0, 8.0, 20.0, 64.5])
def test_chances_whose_squares_are_below_the_least_number_count(order):
    q, p = np.array([[9.23745351e-208, 1.0]]), np.array([[4.65301627e-164, 1.0]])
    expected = symmetric_renyi_divergence(np.log(p), np.log(q), order)
    assert symmetric_divergence(p, q, order) == pytest.approx(expected, rel=1e-9, abs=1e-100)
    assert leave_one_out_charges(p, q[0], np.ones(1), order=order, common=True) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", [*ORDERS, math.inf])
def test_symmetric_divergence_of_pmfs_equals_cores(order):
    for parts, public, _ in ensembles(1, 12):
        fast = symmetric_divergence(np.exp(public)[None], np.exp(parts), order)
        assert fast == pytest.approx(symmetric_renyi_divergence(parts, public, order), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("order", [2.0, 4.0, 2.5, 20.0, 300.0, math.inf])
def test_supports_that_differ_are_infinitely_far_apart(order):
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.25, 0.25]])
    for pair in ((p, q), (q, p)):
        assert symmetric_divergence(*pair, order)[0] == math.inf
    other = np.array([[0.25, 0.75, 0.0]])
    expected = symmetric_renyi_divergence(np.log(p[0, :2]), np.log(other[0, :2]), order)
    assert symmetric_divergence(p, other, order)[0] == pytest.approx(float(expected), rel=1e-12)


# ---------------------------------------------------------------- SubMix-F


@pytest.mark.parametrize("order", ORDERS)
def test_filtered_charges_of_pmfs_equal_those_of_logarithms(order):
    for parts, public, weights in ensembles(2, 12):
        setting = {"parts": len(parts), "weight_limit": 0.8}
        fast = filtered(parts, public, weights, order=order, **setting)
        slow = slow_filtered_charges(parts, public, weights, order=order, **setting)
        assert fast == pytest.approx(slow, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("low", "order"), [(3.0, 4.0), (12.5, 24.0), (2.5, 3.5)])
def test_an_order_in_place_of_a_higher_one_is_caught(low, order):
    # Twin: charges at an order too low.
    for parts, public, weights in ensembles(3, 4, vocabularies=(9,)):
        setting = {"parts": len(parts), "weight_limit": 0.8}
        twin = filtered(parts, public, weights, order=low, **setting)
        slow = slow_filtered_charges(parts, public, weights, order=order, **setting)
        assert (twin < slow * 0.98).all()


@given(
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.one_of(st.floats(1.1, 12.0), st.integers(2, 64).map(float)),
    st.floats(0.3, 0.99),
    st.floats(0.0, 1.0),
)
@settings(max_examples=150, deadline=None)
def test_filtered_charge_covers_the_exact_divergence_whatever_the_other_parts_hold(seed, k, order, limit, share):
    parts, public, weights = instance(seed, parts=k, vocabulary=4, scale=4.0)
    weights = np.minimum(weights, limit)
    weights[0] = share * limit
    mixture = fixed_mixture(parts, public, weights)
    without = fixed_mixture(parts, public, np.where(np.arange(k) == 0, 0.0, weights))
    exact = float(symmetric_renyi_divergence(mixture, without, order))
    charge = filtered(parts[:1], public, weights[:1], order=order, parts=k, weight_limit=limit)
    assert exact <= charge[0] * (1 + 1e-9) + 1e-15


def test_filtered_charge_is_exact_for_one_part_and_nearly_so_against_a_hostile_other_part():
    public = np.log([0.5, 0.5 - 1e-9, 1e-9])
    loud, hostile = np.log([1 - 2e-9, 1e-9, 1e-9]), np.log([1e-9, 1e-9, 1 - 2e-9])
    for order in (2.0, 20.0, 2.5):
        for k in (1, 2):
            rows, weights = np.stack([loud, hostile])[:k], np.full(k, 0.8)
            without = np.where(np.arange(k) == 0, 0.0, weights)
            pair = fixed_mixture(rows, public, weights), fixed_mixture(rows, public, without)
            charge = filtered(loud[None], public, [0.8], order=order, parts=k, weight_limit=0.8)
            assert charge[0] == pytest.approx(float(symmetric_renyi_divergence(*pair, order)), rel=1e-6)


@pytest.mark.parametrize("order", [20.0, 2.5, 300.0])
def test_filtered_charge_does_not_overflow_and_is_zero_for_a_silent_part(order):
    public, sure = np.log([1e-300, 1.0]), np.log([[1.0, 1e-300]])
    setting = {"order": order, "parts": 4, "weight_limit": 0.9}
    huge = slow_filtered_charges(sure, public, [0.9], **setting)
    assert 600 < huge[0] < 3000
    assert filtered(sure, public, [0.9], **setting) == pytest.approx(huge, rel=1e-12)
    assert filtered(sure, public, [0.0], **setting)[0] == 0.0


def test_a_charge_beyond_the_polynomials_numbers_is_infinite_and_never_less_than_the_truth():
    public, sure = np.log([1e-300, 1.0]), np.log([[1.0, 1e-300]])
    assert filtered(sure, public, [0.9], order=3.0, parts=4, weight_limit=0.9)[0] == math.inf
    assert filtered(sure, public, [0.0], order=3.0, parts=4, weight_limit=0.9)[0] >= 0.0


@pytest.mark.parametrize("order", [2.0, 20.0])
def test_filtered_charges_are_computed_row_by_row(order):
    parts, public, weights = instance(9, parts=6, vocabulary=11)
    weights = np.minimum(weights, 0.9)
    rows = filtered(parts, public, weights, order=order, parts=6, weight_limit=0.9)
    for i in range(6):
        one = filtered(parts[i : i + 1], public, weights[i : i + 1], order=order, parts=6, weight_limit=0.9)
        assert rows[i] == pytest.approx(one[0], rel=1e-12)


def test_order_infinity_covers_every_token_whatever_the_other_parts_hold():
    rng = np.random.default_rng(6)
    tightest = 0.0
    for parts, public, weights in ensembles(6, 60, vocabularies=(2, 3, 4)):
        k, limit = len(parts), 0.8
        charges = filtered(parts, public, weights, order=math.inf, parts=k, weight_limit=limit)
        others = weights.copy()
        others[1:] = rng.choice([0.0, limit], size=k - 1)
        full = fixed_mixture(parts, public, others)
        without = fixed_mixture(np.vstack([public[None], parts[1:]]), public, others)
        found = float(symmetric_renyi_divergence(full, without, math.inf))
        assert found <= charges[0] * (1 + 1e-9) + 1e-14
        tightest = max(tightest, found / charges[0])
    assert tightest > 0.9


def test_common_share_is_one_for_a_single_part_and_falls_with_the_limit():
    assert common_share(1, 0.99) == 1.0
    assert common_share(4, 0.5) == pytest.approx(0.25 + 0.75 * 0.5)
    assert common_share(4, 0.9) < common_share(4, 0.5)


def test_weights_outside_their_range_are_refused():
    public = np.log([0.5, 0.5])
    with pytest.raises(ValueError, match="weights"):
        filtered(public[None], public, [0.95], order=2.0, parts=2, weight_limit=0.9)
    with pytest.raises(ValueError, match="limit"):
        common_share(2, 1.0)
    with pytest.raises(ValueError, match="weights"):
        log_mixture(public, public, 1.1)
