"""AUC and TPR at FPR: against slow definitions, with ties, and the coverage of their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from reticent.auditing.metrics.roc import auc, auc_interval, midranks, tpr_at_fpr

SMALL = st.lists(st.integers(-3, 3).map(float) | st.sampled_from([math.inf, -math.inf]), min_size=1, max_size=12)


@given(SMALL, SMALL)
def test_auc_counts_pairs_and_half_of_ties(members, nonmembers):
    pairs = [(x > y) + 0.5 * (x == y) for x in members for y in nonmembers]
    assert auc(members, nonmembers) == pytest.approx(np.mean(pairs))


@given(SMALL, SMALL)
def test_auc_of_exchanged_classes_is_the_rest(members, nonmembers):
    assert auc(members, nonmembers) + auc(nonmembers, members) == pytest.approx(1.0)


def test_midranks_share_the_mean_of_their_places():
    assert midranks(np.array([5.0, 1.0, 5.0, 0.0])).tolist() == [3.5, 2.0, 3.5, 1.0]


def test_an_auc_that_ignores_ties_would_be_caught():
    constant = np.zeros(10)
    strict = np.mean(constant[:, None] > constant[None, :])
    assert auc(constant, constant) == 0.5 != strict


def test_a_nan_score_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        auc([0.0, float("nan")], [1.0])


@pytest.mark.parametrize(("shift", "m", "n"), [(0.0, 25, 40), (1.0, 40, 40), (2.5, 30, 60)])
def test_auc_interval_covers_as_stated(shift, m, n):
    # 400 repetitions at 95 %: fewer than 365 hits has chance 5e-4 if the coverage is exactly 0.95.
    generator = np.random.default_rng(11)
    truth = float(ndtr(shift / math.sqrt(2.0)))
    hits = 0
    for _ in range(400):
        found = auc_interval(generator.normal(shift, 1, m), generator.normal(0, 1, n))
        hits += found.low <= truth <= found.high
    assert hits >= 365


def test_auc_interval_covers_with_ties():
    generator = np.random.default_rng(12)
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    truth = sum(p[i] * (q[:i].sum() + 0.5 * q[i]) for i in range(3))
    hits = 0
    for _ in range(400):
        found = auc_interval(generator.choice(3, 40, p=p), generator.choice(3, 40, p=q))
        hits += found.low <= truth <= found.high
    assert hits >= 365


def test_a_perfect_auc_is_not_a_certain_one():
    found = auc_interval(np.arange(10) + 100.0, np.arange(10))
    assert found.value == found.high == 1.0
    assert 0.6 < found.low < 0.9
    assert auc_interval([1.0], [0.0]).low < 0.3


def test_tpr_counts_members_above_the_threshold_that_few_enough_nonmembers_pass():
    nonmembers = np.arange(200.0)  # two of 200 may pass at 1 %: those above 197
    members = np.array([197.0, 197.5, 198.0, 500.0])
    found = tpr_at_fpr(members, nonmembers, fpr=0.01)
    assert found is not None
    assert found.value == 0.75


def test_tied_scores_never_pass_more_nonmembers_than_allowed():
    found = tpr_at_fpr(np.ones(50), np.ones(200), fpr=0.01)
    assert found is not None
    assert found.value == 0.0


def test_too_few_nonmembers_give_no_rate_at_all():
    assert tpr_at_fpr(np.ones(5), np.zeros(99), fpr=0.01) is None
    assert tpr_at_fpr(np.ones(5), np.zeros(100), fpr=0.01) is not None
    assert tpr_at_fpr(np.ones(5), np.zeros(999), fpr=0.001) is None


def test_the_low_end_is_zero_until_the_threshold_itself_is_known():
    few, many = np.arange(400) / 1e3, np.arange(1000) / 1e3
    assert tpr_at_fpr(np.full(100, 9.0), few, fpr=0.01).low == 0.0
    assert tpr_at_fpr(np.full(100, 9.0), many, fpr=0.01).low > 0.9


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_tpr_interval_covers_although_the_threshold_is_random(shift):
    # 300 repetitions; the interval is conservative, so misses beyond 5 % would be a defect.
    generator = np.random.default_rng(5)
    truth = float(ndtr(shift + ndtri(0.02)))
    hits, twin_hits = 0, 0
    for _ in range(300):
        members, nonmembers = generator.normal(shift, 1, 400), generator.normal(0, 1, 300)
        found = tpr_at_fpr(members, nonmembers, fpr=0.02)
        hits += found.low <= truth <= found.high
        half = 1.96 * math.sqrt(found.value * (1 - found.value) / 400)
        twin_hits += abs(found.value - truth) <= half
    assert hits >= 285
    assert twin_hits < 270  # the twin forgets that the threshold was estimated
