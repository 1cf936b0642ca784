"""Curves of mixing in compiled loops: core's moments at every order, exactly, with the same work for all rows."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.mixing import loops as vocabulary_loops
from reticent.accounting.mixing import power_loops
from reticent.accounting.mixing.charge import filtered_charges
from reticent.accounting.mixing.curves import Halves, Pull, pair_log_excesses
from reticent.core.divergence import log_moment, log_normalise
from tests.accounting.mixing.oracles import exact_excesses, log_mixture
from tests.accounting.mixing.test_charge import ensembles
from tests.shared_loops import compiled_here

ORDERS = (2.0, 5.0, 16.0, 17.0, 1.01, 1.5, 2.5, 20.5, 64.0, 300.0)


def log_excess(log_moment):
    """log(e^m − 1)."""
    with np.errstate(divide="ignore"):
        return log_moment + np.log(-np.expm1(-log_moment))


@pytest.mark.parametrize("order", ORDERS)
def test_curves_are_cores_moments_and_their_slopes(order):
    for parts, public, weights in ensembles(4, 10):
        pull = Pull(np.exp(parts), np.exp(public), order)
        halves = Halves(np.exp(parts), np.exp(parts[::-1]), np.exp(public), order)
        mixed, other = (log_mixture(rows, public, weights) for rows in (parts, parts[::-1]))
        pairs = {
            "parts": (pull.both, (mixed, np.broadcast_to(public, mixed.shape))),
            "halves": (halves.both, (mixed, other)),
        }
        for name, (curve, pair) in pairs.items():
            expected = np.stack([log_moment(*pair, order), log_moment(*pair[::-1], order)])
            logs, slopes = curve(weights)
            seen = expected > 1e-9  # where logarithms of chances have digits left
            assert logs[seen] == pytest.approx(log_excess(expected[seen]), abs=1e-6), name
            assert logs[expected > 0.1] == pytest.approx(log_excess(expected[expected > 0.1]), abs=1e-9), name
            step = 1e-4
            above, below = (curve(weights * math.exp(sign * step))[0] for sign in (1, -1))
            assert slopes[seen] == pytest.approx((above[seen] - below[seen]) / (2 * step), rel=1e-3, abs=1e-3), name
            assert (slopes[seen] >= 1.0).all(), name
            if name == "parts":
                assert pull.log_excess(weights) == pytest.approx(logs.max(axis=0), abs=1e-12)


rows_of_chances = st.integers(2, 6).flatmap(
    lambda v: st.tuples(
        st.lists(st.floats(-40.0, 0.0), min_size=v, max_size=v),
        st.lists(st.floats(-40.0, 40.0), min_size=v, max_size=v),
    )
)


@given(
    rows_of_chances,
    st.floats(-20.0, 0.0),
    st.one_of(st.floats(1.001, 40.0), st.integers(2, 1100).map(float)),
)
@settings(max_examples=200, deadline=None)
def test_excesses_equal_arbitrary_precision_near_and_far(rows, log_scale, order):
    """Rows from nearly equal (a shift of e^-20) to e^±80 apart, at whole and fractional orders."""
    public, shift = (np.array(row) for row in rows)
    pair = np.exp(log_normalise(np.stack([public, public + math.exp(log_scale) * shift])))
    found = pair_log_excesses(pair[1:], pair[:1], order)[:, 0]
    for log, exact in zip(found, exact_excesses(pair[1], pair[0], order), strict=True):
        with mp.workdps(60):
            assert log == pytest.approx(float(mp.log(exact)) if exact else -math.inf, abs=1e-9)
    pull = Pull(pair[1:], pair[0], order)
    theta = 0.3
    with mp.workdps(60):  # in float64 the mixture itself would be rounded by more than the curve is
        mixed = [q + mp.mpf(theta) * (mp.mpf(p) - q) for p, q in zip(pair[1], map(mp.mpf, pair[0]), strict=True)]
    worse = max(exact_excesses(mixed, pair[0], order))
    found = pull.log_excess(np.array([theta]))[0]
    with mp.workdps(60):
        expected = float(mp.log(worse)) if worse else -math.inf
    # Below, one unit in the last place of a chance decides; charges are rounded up to units of 2^-40 = e^-27.7.
    if expected < -60.0:
        assert found < -59.0
        return
    # The polynomial ends where float64 does; powers do not.
    assert found == pytest.approx(expected, abs=1e-6) or (found == math.inf and expected > 300 and order <= 16)


@given(rows_of_chances, st.floats(-20.0, 0.0), st.integers(2, power_loops.GREATEST_WHOLE))
@settings(max_examples=200, deadline=None)
def test_halves_at_whole_orders_equal_powers_and_arbitrary_precision(rows, log_scale, order):
    """Rows as above. Where a sum leaves float64 the excess is infinite: a search then goes to smaller weights."""
    public, shift = (np.array(row) for row in rows)
    pair = np.exp(log_normalise(np.stack([public, public + math.exp(log_scale) * shift])))
    of_whole, slopes = Halves(pair[1:], pair[:1], pair[0], float(order)).both(np.array([1.0]))
    powers, other_slopes = power_loops.pair_sums(pair[1:], pair[:1], pair[0], np.array([1.0]), float(order))
    for log, log_by_powers, exact in zip(
        of_whole[:, 0], powers[:, 0], exact_excesses(*pair[::-1], order), strict=True
    ):
        with mp.workdps(60):
            expected = float(mp.log(exact)) if exact else -math.inf
        if expected < -60.0:  # one unit in the last place of a chance decides
            assert log < -59.0
            continue
        assert log == pytest.approx(expected, abs=1e-9) or (log == math.inf and expected > 300)
        assert log == pytest.approx(log_by_powers, abs=1e-9) or log == math.inf
    seen = np.isfinite(of_whole) & (of_whole > -40.0)
    assert slopes[seen] == pytest.approx(other_slopes[seen], rel=1e-6)


def test_plain_powers_without_the_series_lose_what_it_keeps():
    # Twin: (1+m)^a − 1 − a m as it stands. Its sum is noise where a part nearly agrees with the public model.
    public = np.full(4, 0.25)
    part = public * (1.0 + 1e-12 * np.array([1.0, -1.0, 2.0, -2.0]))
    m, order = part / public - 1.0, 20.5
    exact = float(mp.log(exact_excesses(part, public, order)[0]))
    twin = float((public * ((1.0 + m) ** order - 1.0 - order * m)).sum())
    assert pair_log_excesses(part[None], public[None], order)[0, 0] == pytest.approx(exact, abs=1e-9)
    assert twin <= 0.0 or abs(math.log(twin) - exact) > 0.01


def test_compiled_loops_are_not_kept_on_disk():
    """numba's files do not say which order they are of: after a crash one would be run for another."""
    loops = [
        vocabulary_loops._add_rows,
        vocabulary_loops._moments_from(1),
        vocabulary_loops._reverse_at(4, np.float64, has_falls=True),
        power_loops._part_sums,
        power_loops._pair_sums,
        power_loops._whole_pair_sums,
        power_loops._token_weights,
    ]
    assert [loop.stats.cache_path for loop in loops] == [None] * len(loops)


def test_one_compiled_loop_serves_every_order_of_powers():
    rows = np.exp(log_normalise(np.random.default_rng(0).normal(size=(3, 7))))
    for order in (17.0, 20.5, 2.5, 300.0):
        pull = Pull(rows[1:], rows[0], order)
        pull.log_excess(np.full(2, 0.1))
        pull.token_weights(np.zeros(2))
        pair_log_excesses(rows[1:], rows[:1], order)
    for loop in (power_loops._part_sums, power_loops._pair_sums, power_loops._token_weights):
        assert (
            len(loop.signatures) == len({str(signature) for signature in loop.signatures}) <= 2
        )  # float32, float64


def calls(loop):
    """Lines of machine code that call another function."""
    if loop.stats.cache_hits:
        loop = compiled_here(loop)
    codes = loop.inspect_asm().values()
    assert codes
    assert all("ret" in code for code in codes)
    return [line for code in codes for line in code.splitlines() if "call" in line]


def test_no_token_is_sent_to_a_library_that_branches_on_its_value():
    """exp and log of the system's library take other paths for other arguments, which time would tell."""
    rows = np.exp(log_normalise(np.random.default_rng(0).normal(size=(3, 7))))
    Pull(rows[1:], rows[0], 20.0).log_excess(np.full(2, 0.1))
    found = [line for line in calls(power_loops._part_sums) if "exp" in line or "log" in line or "pow" in line]
    # e^−shift, twice a part, is outside the loop over tokens.
    assert len(found) <= 4
    assert not any("pow" in line or "log" in line for line in found)
    Halves(rows[1:], rows[1:], rows[0], 3.0).both(np.full(2, 0.1))
    assert not [
        line for line in calls(power_loops._whole_pair_sums) if "exp" in line or "log" in line or "pow" in line
    ]


@pytest.mark.parametrize("order", [2.0, 5.0, 2.5, math.inf])
@pytest.mark.parametrize("vocabulary", [9, 3000, 9000])
def test_many_texts_at_once_are_each_alone(order, vocabulary):
    rng = np.random.default_rng(7)
    public = log_normalise(rng.normal(scale=2.0, size=(5, vocabulary)))
    parts = log_normalise(public[:, None] + rng.normal(size=(5, 3, vocabulary)))
    weights = rng.uniform(0.0, 0.8, size=(5, 3))
    setting = {"parts": 3, "weight_limit": 0.8}
    together = Pull(np.exp(parts), np.exp(public), order)
    charges = filtered_charges(together, weights.reshape(-1), **setting).reshape(5, 3)
    for text in range(5):
        alone = Pull(np.exp(parts[text]), np.exp(public[text]), order)
        expected = filtered_charges(alone, weights[text], **setting)
        assert charges[text] == pytest.approx(expected, rel=1e-12)
    if order == 2.5:
        alone_curves = [
            Pull(np.exp(p), np.exp(r), order).both(w) for p, r, w in zip(parts, public, weights, strict=True)
        ]
        curve = together.both(weights.reshape(-1))
        for which in (0, 1):
            assert curve[which] == pytest.approx(
                np.concatenate([each[which] for each in alone_curves], axis=1), rel=1e-9
            )
