"""Intervals of rates and statistics: against enumeration, and their coverage."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from reticent.auditing.metrics.intervals import (
    Ratio,
    bootstrap,
    clopper_pearson,
    mean_lower,
    rate_lower,
    rate_upper,
    shared_confidence,
    student_quantile,
)
from reticent.core.randomness import Randomness


def exact_coverage(interval, n, p):
    """Chance that the interval of a binomial count holds p, by enumeration."""
    inside = [low <= p <= high for low, high in (interval(k, n) for k in range(n + 1))]
    return float(binom.pmf(np.arange(n + 1), n, p)[inside].sum())


@pytest.mark.parametrize("p", [0.001, 0.01, 0.13, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_clopper_pearson_covers_at_least_as_stated_for_every_rate(n, p):
    assert exact_coverage(clopper_pearson, n, p) >= 0.95 - 1e-12


def test_a_normal_interval_of_a_rate_would_be_caught():
    def wald(k, n):
        half = 1.96 * np.sqrt(k / n * (1 - k / n) / n)
        return k / n - half, k / n + half

    assert exact_coverage(wald, 40, 0.01) < 0.5


def test_limits_are_where_a_binomial_tail_equals_the_error():
    low, high = rate_lower(3, 20, tail=0.025), rate_upper(3, 20, tail=0.025)
    assert binom.sf(2, 20, low) == pytest.approx(0.025)
    assert binom.cdf(3, 20, high) == pytest.approx(0.025)
    assert (low, high) == pytest.approx(clopper_pearson(3, 20))


def test_no_trial_says_nothing_and_all_or_none_touch_the_ends():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(0, 10)[0] == 0.0
    assert clopper_pearson(10, 10)[1] == 1.0


def test_clopper_pearson_of_none_in_n_is_the_rule_of_three():
    assert clopper_pearson(0, 1000)[1] == pytest.approx(-np.log(0.025) / 1000, rel=0.01)


@pytest.mark.parametrize("counts", [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match="successes"):
        clopper_pearson(*counts)


def test_bootstrap_of_a_mean_is_close_to_the_normal_interval_and_repeatable():
    sample = np.random.default_rng(1).normal(size=400)
    first = bootstrap([sample], np.mean, randomness=Randomness.seeded(3), resamples=2000)
    assert first == bootstrap([sample], np.mean, randomness=Randomness.seeded(3), resamples=2000)
    half = 1.96 * sample.std() / 20
    np.testing.assert_allclose(first, [sample.mean() - half, sample.mean() + half], atol=0.02)


@pytest.mark.parametrize("n", [6, 12])
def test_bootstrap_of_few_observations_is_as_long_as_students_interval(n):
    from scipy.stats import t

    sample = np.random.default_rng(n).normal(size=n)
    low, high = bootstrap([sample], np.mean, randomness=Randomness.seeded(3), resamples=20_000)
    student = 2.0 * t.ppf(0.975, n - 1) * sample.std(ddof=1) / np.sqrt(n)
    normal = 2.0 * 1.96 * sample.std() / np.sqrt(n)  # what plain percentiles reach
    assert high - low > 0.9 * student > normal


def test_a_mean_without_owners_has_students_interval():
    from scipy.stats import ttest_1samp, ttest_ind

    x, y = np.random.default_rng(1).normal(size=9), np.random.default_rng(2).exponential(size=14)
    student = ttest_1samp(x, 0.0).confidence_interval(0.9)
    assert Ratio.of(x).interval(confidence=0.9) == pytest.approx((student.low, student.high))
    welch = ttest_ind(x, y, equal_var=False).confidence_interval(0.9)
    assert Ratio.of(x).minus(Ratio.of(y)).interval(confidence=0.9) == pytest.approx((welch.low, welch.high))


def test_a_ratio_by_owner_equals_its_slow_definition():
    """Bell and McCaffrey: the quadratic form of owners' ratios written out as a matrix."""
    generator = np.random.default_rng(3)
    owners = generator.integers(0, 7, 40)
    x, w = generator.normal(size=40), generator.integers(1, 5, 40).astype(float)
    found = Ratio.of(x, w, owners=owners.tolist())
    each = sorted(set(owners.tolist()))
    totals = np.array([w[owners == owner].sum() for owner in each])
    ratios = np.array([x[owners == owner].sum() for owner in each]) / totals
    h = totals / totals.sum()
    residual = np.eye(7) - np.outer(np.ones(7), h)  # r − value, of owners' ratios
    scale = np.diag(h**2 / np.diag(residual @ residual.T))
    form = residual.T @ scale @ residual
    assert found.value == pytest.approx(x.sum() / w.sum())
    assert found.variance == pytest.approx(ratios @ form @ ratios)
    assert np.trace(form) == pytest.approx(h @ h)  # unbiased: the variance of the value, owners' being 1
    assert found.degrees == pytest.approx(np.trace(form) ** 2 / np.trace(form @ form))


def test_an_owner_of_most_observations_counts_as_few():
    """A hundred observations, ninety of one owner's: hardly more than one is known."""
    sample, owners = np.arange(100.0), [max(0, place - 89) for place in range(100)]
    by_owner, by_record = Ratio.of(sample, owners=owners), Ratio.of(sample)
    assert by_owner.degrees < 1.1
    assert by_record.degrees == pytest.approx(99.0)
    low, high = by_owner.interval()
    assert low < 0.0 < 99.0 < high


def test_one_owner_says_nothing_and_equal_ones_are_a_point():
    assert Ratio.of([1.0, 2.0], owners=["a", "a"]).interval() == (-np.inf, np.inf)
    assert Ratio.of([1.0]).minus(Ratio.of([1.0, 2.0])).interval() == (-np.inf, np.inf)
    assert Ratio.of([2.0, 4.0, 0.0], [1.0, 2.0, 0.0]).minus(Ratio.of([1.0, 1.0])).interval() == (1.0, 1.0)
    for values, weights in (([], None), ([1.0], [0.0]), ([1.0, 2.0], [1.0, -1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="ratio"):
            Ratio.of(values, weights)


def test_bootstrap_draws_each_sample_by_itself():
    low, high = bootstrap(
        [np.zeros(5), np.ones(9)],
        lambda a, b: len(a) + 10 * len(b) + a.sum() + b.mean(),
        randomness=Randomness.seeded(0),
    )
    assert (low, high) == (96.0, 96.0)


def test_shared_confidence_splits_the_error():
    assert shared_confidence(0.95, 10) == pytest.approx(0.995)
    assert student_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize(("hits", "n"), [(1, 1), (3, 3), (5, 10), (1, 10), (9, 10), (40, 100)])
@pytest.mark.parametrize("tail", [0.025, 0.002])
def test_the_limit_of_a_mean_is_clopper_and_pearsons_where_values_are_0_or_1(hits, n, tail):
    values = [1.0] * hits + [0.0] * (n - hits)
    assert mean_lower(values, tail=tail) == pytest.approx(rate_lower(hits, n, tail=tail), abs=1e-7)


def test_the_limit_of_a_mean_equals_its_definition_by_simulated_spacings():
    """Oracle: the quantile of Σ D_i x_i over 200,000 draws of spacings; its error is below 1 % of the value."""
    generator = np.random.default_rng(0)
    for values in ([20.0] * 5 + [1.4, 0.3, 2.0, 0.9, 1.1], [0.1, 3.0], [4.0], generator.exponential(size=30)):
        spacings = generator.dirichlet(np.ones(len(values) + 1), size=200_000)[:, :-1]  # [draws, n]
        expected = float(np.quantile(spacings @ np.asarray(values), 0.025))
        assert mean_lower(values, tail=0.025) == pytest.approx(expected, rel=0.015)


def test_the_limit_of_a_mean_is_missed_no_more_often_than_stated():
    """Ten exposures, a share of them full: 200 samples at 2.5 %, more than 16 misses have chance 3e-5 each."""
    generator = np.random.default_rng(7)
    for share in (0.02, 0.1, 0.3, 0.5, 0.8):
        chance = generator.exponential(1 / math.log(2.0), size=(200, 10))
        is_full = generator.random((200, 10)) < share
        samples = np.where(is_full, 20.0, np.minimum(chance, 20.0))
        truth = share * 20.0 + (1.0 - share) * (1.0 - 2.0**-20) / math.log(2.0)
        assert sum(mean_lower(row, tail=0.025) > truth for row in samples) <= 16, share


def test_the_limit_of_a_mean_refuses_what_it_does_not_hold_for():
    for values, tail in (([], 0.1), ([-1.0], 0.1), ([1.0], 0.0), ([1.0], 1.0)):
        with pytest.raises(ValueError, match="at or above 0"):
            mean_lower(values, tail=tail)
    assert mean_lower([0.0, 0.0], tail=0.1) == 0.0
