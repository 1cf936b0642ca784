"""The Rényi divergence against an arbitrary-precision oracle, and the properties every proof leans on."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.divergence import (
    log_moment,
    log_normalise,
    renyi_divergence,
    symmetric_renyi_divergence,
)

ORDERS = [1.01, 1.5, 2.0, 3.7, 64.0, 512.0]


def exact_log_moment(log_p, log_q, order):
    """Oracle: log Σ p^a q^(1−a) in 60 digits, with rows normalised in 60 digits."""
    with mpmath.workdps(60):
        p = [mpmath.exp(mpmath.mpf(float(x))) for x in log_p]
        q = [mpmath.exp(mpmath.mpf(float(x))) for x in log_q]
        p = [x / sum(p) for x in p]
        q = [x / sum(q) for x in q]
        a = mpmath.mpf(order)
        terms = [x**a * y ** (1 - a) for x, y in zip(p, q, strict=True) if x > 0]
        return float(mpmath.log(sum(terms)))


def rows(seed, distance, size=40):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=size)
    return log_normalise(logits), log_normalise(logits + distance * rng.normal(size=size))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("distance", [1e-8, 1e-5, 1e-2, 0.3, 3.0, 30.0])
def test_moment_equals_the_oracle_near_and_far(order, distance):
    p, q = rows(1, distance)
    # Rounding of the inputs' own normalisation enters relative to the distance when rows nearly agree.
    tolerance = 1e-12 if distance > 1e-6 else 1e-7
    assert log_moment(p, q, order) == pytest.approx(exact_log_moment(p, q, order), rel=tolerance)


def test_plain_arithmetic_loses_what_the_centred_form_keeps():
    p, q = rows(2, 1e-9)
    exact = exact_log_moment(p, q, 2.0)
    naive = math.log(float(np.sum(np.exp(2 * p - q))))  # the broken twin
    assert abs(naive - exact) > 0.5 * exact
    assert log_moment(p, q, 2.0) == pytest.approx(exact, rel=1e-6)


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=8),
    st.lists(st.floats(-20, 20), min_size=8, max_size=8),
    st.floats(1.001, 300),
)
@settings(max_examples=200, deadline=None)
def test_divergence_is_nonnegative_grows_with_order_and_is_capped_by_infinity(first, second, order):
    p, q = log_normalise(first), log_normalise(second[: len(first)])
    value = renyi_divergence(p, q, order)
    assert value >= 0
    assert value <= renyi_divergence(p, q, order * 1.5) * (1 + 1e-9) + 1e-12
    assert value <= renyi_divergence(p, q, math.inf) * (1 + 1e-9) + 1e-12
    assert renyi_divergence(p, p, order) == 0


def test_rows_broadcast_and_each_equals_its_own():
    rng = np.random.default_rng(3)
    p = log_normalise(rng.normal(size=(4, 1, 6)))
    q = log_normalise(rng.normal(size=(3, 6)))
    batch = renyi_divergence(p, q, 2.5)
    assert batch.shape == (4, 3)
    assert batch[2, 1] == pytest.approx(float(renyi_divergence(p[2, 0], q[1], 2.5)), rel=1e-14)


def test_an_order_for_each_row_equals_each_row_by_itself():
    rng = np.random.default_rng(4)
    near = 1e-6 * rng.normal(size=(3, 5))
    p, q = (log_normalise(rng.normal(size=(6, 5)) * 4.0) for _ in range(2))
    q[:3] = log_normalise(p[:3] + near)  # the series near P = Q too
    orders = np.array([1.001, 2.0, 40.0, 1.5, 8.0, 700.0])
    together = renyi_divergence(p, q, orders)
    for row, order in enumerate(orders.tolist()):
        assert together[row] == pytest.approx(float(renyi_divergence(p[row], q[row], order)), rel=1e-12)
    for wrong in (1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="order"):
            renyi_divergence(p, q, np.array([2.0, 2.0, 2.0, 2.0, 2.0, wrong]))


def test_support_decides_between_finite_and_infinite():
    with np.errstate(divide="ignore"):
        narrow, wide = np.log([0.5, 0.5, 0.0]), np.log([0.4, 0.4, 0.2])
    for order in (1.5, 2.0, math.inf):
        assert renyi_divergence(wide, narrow, order) == math.inf
        assert renyi_divergence(narrow, wide, order) == pytest.approx(math.log(1.25))
        assert symmetric_renyi_divergence(narrow, wide, order) == math.inf


def test_known_value_for_two_coins():
    # χ² of (0.6, 0.4) against (0.5, 0.5) is 0.04, so D_2 = log 1.04.
    assert renyi_divergence(np.log([0.6, 0.4]), np.log([0.5, 0.5]), 2.0) == pytest.approx(math.log(1.04), rel=1e-15)


@pytest.mark.parametrize(
    ("log_p", "log_q", "order"),
    [
        ([0.0, -500.0], [0.0, -800.0], 3.0),  # e^-800 is 0 in floating point, and p^3 q^-2 is e^100
        ([math.log1p(-math.exp(-20)), -20.0], [0.0, -800.0], 1.02),
        ([math.log1p(-math.exp(-300)), -300.0], [0.0, -700.0], 2.0),
    ],
)
def test_mass_that_underflows_is_still_priced(log_p, log_q, order):
    exact = exact_log_moment(np.array(log_p), np.array(log_q), order)
    assert log_moment(np.array(log_p), np.array(log_q), order) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("order", [1.0, 0.5, -1.0, math.nan])
def test_orders_at_or_below_one_are_refused(order):
    with pytest.raises(ValueError, match="order"):
        renyi_divergence(np.log([0.5, 0.5]), np.log([0.5, 0.5]), order)


@pytest.mark.parametrize("order", [2.0, math.inf])
def test_nan_is_refused_rather_than_priced(order):
    with pytest.raises(ValueError, match="NaN"):
        renyi_divergence(np.array([math.nan, 0.0]), np.log([0.5, 0.5]), order)
