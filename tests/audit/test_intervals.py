"""Intervals of rates and statistics: against enumeration, and their coverage."""

import numpy as np
import pytest
from scipy.stats import binom

from reticent.audit.metrics.intervals import (
    bootstrap,
    clopper_pearson,
    normal_quantile,
    rate_lower,
    rate_upper,
    shared_confidence,
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


def test_bootstrap_draws_each_sample_by_itself():
    low, high = bootstrap(
        [np.zeros(5), np.ones(9)],
        lambda a, b: len(a) + 10 * len(b) + a.sum() + b.mean(),
        randomness=Randomness.seeded(0),
    )
    assert (low, high) == (96.0, 96.0)


def test_shared_confidence_splits_the_error():
    assert shared_confidence(0.95, 10) == pytest.approx(0.995)
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
