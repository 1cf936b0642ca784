"""SubMix's realised charge and SubMix-F's charge against sums written out, and their broken twins."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.mixing_charge import (
    common_share,
    filtered_charges,
    fixed_mixture,
    log_mixture,
    submix_charges,
    submix_mixture,
)
from reticent.core.divergence import log_normalise, symmetric_renyi_divergence


def instance(seed, *, parts, vocabulary, scale=2.0):
    """Random log-pmfs of parts [k, V] and the public model [V], and weights [k]."""
    rng = np.random.default_rng(seed)
    rows = log_normalise(rng.normal(scale=scale, size=(parts + 1, vocabulary)))
    return rows[1:], rows[0], rng.uniform(0.1, 0.95, size=parts)


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
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_submix_charges_equal_algorithm_two_written_out(common, k, order):
    parts, public, weights = instance(k, parts=k, vocabulary=7)
    fast = submix_charges(parts, public, weights, order=order, common=common)
    slow = [slow_charge(parts, public, weights, order=order, common=common, removed=i) for i in range(k)]
    np.testing.assert_allclose(fast, slow, rtol=1e-10)


def test_removing_the_only_part_leaves_the_public_model():
    parts, public, weights = instance(0, parts=1, vocabulary=5)
    mixture = submix_mixture(parts, public, weights, common=True)
    charge = submix_charges(parts, public, weights, order=2.0, common=True)
    assert charge[0] == pytest.approx(float(symmetric_renyi_divergence(mixture, public, 2.0)))


def test_vocabulary_size_in_place_of_the_number_of_parts_is_caught():
    # Seen in a published SubMix implementation: the leave-one-out mean had the wrong divisor. One part leaks.
    parts, public, _ = instance(3, parts=2, vocabulary=12)
    parts[0] = log_normalise(np.where(np.arange(12) == 4, 9.0, 0.0))
    weights = np.full(2, 0.9)
    honest = submix_charges(parts, public, weights, order=2.0, common=True)[0]
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
    charge = submix_charges(np.log([[0.31, 0.69]]), np.log([0.3, 0.7]), [1e-6], order=2.0, common=True)
    assert charge[0] == pytest.approx(float(exact), rel=1e-5)
    assert charge[0] > 0


@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(1.1, 12.0), st.floats(0.3, 0.99), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_filtered_charge_covers_the_exact_divergence_whatever_the_other_parts_hold(seed, k, order, limit, share):
    parts, public, weights = instance(seed, parts=k, vocabulary=4, scale=4.0)
    weights = np.minimum(weights, limit)
    weights[0] = share * limit
    mixture = fixed_mixture(parts, public, weights)
    without = fixed_mixture(parts, public, np.where(np.arange(k) == 0, 0.0, weights))
    exact = float(symmetric_renyi_divergence(mixture, without, order))
    charge = filtered_charges(parts[0], public, weights[0], order=order, parts=k, weight_limit=limit)
    assert exact <= float(charge) * (1 + 1e-9) + 1e-15


def test_filtered_charge_is_exact_for_one_part_and_nearly_so_against_a_hostile_other_part():
    public = np.log([0.5, 0.5 - 1e-9, 1e-9])
    loud, hostile = np.log([1 - 2e-9, 1e-9, 1e-9]), np.log([1e-9, 1e-9, 1 - 2e-9])
    for k in (1, 2):
        rows, weights = np.stack([loud, hostile])[:k], np.full(k, 0.8)
        without = np.where(np.arange(k) == 0, 0.0, weights)
        pair = fixed_mixture(rows, public, weights), fixed_mixture(rows, public, without)
        charge = float(filtered_charges(loud, public, 0.8, order=2.0, parts=k, weight_limit=0.8))
        assert charge == pytest.approx(float(symmetric_renyi_divergence(*pair, 2.0)), rel=1e-6)


def test_filtered_charge_does_not_overflow_and_is_zero_for_a_silent_part():
    public, sure = np.log([1e-300, 1.0]), np.log([1.0, 1e-300])
    huge = filtered_charges(sure, public, 0.9, order=3.0, parts=4, weight_limit=0.9)
    assert 600 < float(huge) < 3000
    assert float(filtered_charges(sure, public, 0.0, order=3.0, parts=4, weight_limit=0.9)) == 0.0


def test_filtered_charges_are_computed_row_by_row():
    parts, public, weights = instance(9, parts=6, vocabulary=11)
    weights = np.minimum(weights, 0.9)
    rows = filtered_charges(parts, public, weights, order=2.0, parts=6, weight_limit=0.9)
    for i in range(6):
        one = filtered_charges(parts[i], public, weights[i], order=2.0, parts=6, weight_limit=0.9)
        assert rows[i] == pytest.approx(float(one), rel=1e-12)


def test_common_share_is_one_for_a_single_part_and_falls_with_the_limit():
    assert common_share(1, 0.99) == 1.0
    assert common_share(4, 0.5) == pytest.approx(0.25 + 0.75 * 0.5)
    assert common_share(4, 0.9) < common_share(4, 0.5)


def test_weights_outside_their_range_are_refused():
    public = np.log([0.5, 0.5])
    with pytest.raises(ValueError, match="weights"):
        filtered_charges(public, public, 0.95, order=2.0, parts=2, weight_limit=0.9)
    with pytest.raises(ValueError, match="limit"):
        common_share(2, 1.0)
    with pytest.raises(ValueError, match="weights"):
        log_mixture(public, public, 1.1)
    with pytest.raises(ValueError, match="parts"):
        submix_charges(public, public, [1.0], order=2.0, common=True)
