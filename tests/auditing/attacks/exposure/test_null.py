"""The distribution of exposure without memorisation, against enumeration and simulation."""

import math

import numpy as np
import pytest

from reticent.auditing.attacks.exposure.findings import (
    null_largest_mean,
    null_mean,
    null_quantile,
    null_sum_survival,
    null_survival,
)


@pytest.mark.parametrize("candidates", [1, 2, 10, 1000])
def test_mean_equals_enumeration(candidates: int) -> None:
    ranks = np.arange(1, candidates + 1)
    assert null_mean(candidates) == pytest.approx(float(np.mean(math.log2(candidates) - np.log2(ranks))))


def test_limits_are_those_of_the_specification() -> None:
    assert null_mean(10**6) == pytest.approx(1.44, abs=0.005)
    assert null_mean(10**9) == pytest.approx(1.0 / math.log(2.0), abs=1e-6)
    assert null_largest_mean(10**6, 10) == pytest.approx(4.22, abs=0.01)
    assert null_largest_mean(10**9, 10) == pytest.approx(4.2256, abs=1e-4)


@pytest.mark.parametrize(("candidates", "canaries"), [(5, 1), (5, 3), (50, 2)])
def test_largest_mean_equals_enumeration(candidates: int, canaries: int) -> None:
    grids = np.meshgrid(*[np.arange(1, candidates + 1)] * canaries)
    least = np.minimum.reduce(grids)
    assert null_largest_mean(candidates, canaries) == pytest.approx(float(np.mean(np.log2(candidates / least))))


@pytest.mark.parametrize("canaries", [1, 4])
def test_survival_is_at_least_the_exact_chance_and_meets_it_at_ranks(canaries: int) -> None:
    m = 40
    for rank in range(1, m + 1):
        exposure = math.log2(m) - math.log2(rank)
        exact = 1.0 - (1.0 - rank / m) ** canaries
        assert null_survival(exposure, canaries) == pytest.approx(exact)
        assert null_survival(exposure + 1e-6, canaries) >= 1.0 - (1.0 - (rank - 1) / m) ** canaries


def test_survival_of_a_large_exposure_is_not_rounded_away() -> None:
    """Broken twin: 1 − (1 − p)^n is 0 for 60 bits."""
    assert 1.0 - (1.0 - 2.0**-60) ** 10 == 0.0
    assert null_survival(60.0, 10) == pytest.approx(10 * 2.0**-60)


def test_quantile_inverts_survival() -> None:
    for n in (1, 10, 1000):
        assert null_survival(null_quantile(0.95, n), n) == pytest.approx(0.05)


def test_the_sum_is_tested_at_the_stated_rate() -> None:
    """4,000 sums of 10 exposures among 1,000 candidates at 5 %: beyond 6.5 % has chance 1e-5."""
    ranks = np.random.default_rng(0).integers(1, 1001, (4000, 10))
    sums = np.log2(1000 / ranks).sum(axis=1)
    alarms = np.mean([null_sum_survival(float(total), 10) <= 0.05 for total in sums])
    assert 0.035 < alarms < 0.065
    assert null_sum_survival(0.0, 3) == 1.0


def test_nonsense_is_refused() -> None:
    for call in (
        lambda: null_mean(0),
        lambda: null_largest_mean(0, 1),
        lambda: null_survival(-1.0),
        lambda: null_quantile(1.0),
        lambda: null_sum_survival(-1.0, 1),
    ):
        with pytest.raises(ValueError):
            call()
