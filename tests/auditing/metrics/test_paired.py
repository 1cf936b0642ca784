"""Paired tests of two attacks: exact against enumeration, valid on null data, by owner."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from reticent.auditing.metrics.paired import Paired


def enumerated(first, second, owners) -> float:
    """Every way to exchange the two attacks within owners, one by one."""
    leads = dict.fromkeys(owners, 0)
    for mine, other, name in zip(first, second, owners, strict=True):
        leads[name] += int(mine) - int(other)
    seen = sum(leads.values())
    sums = [
        sum(sign * lead for sign, lead in zip(signs, leads.values(), strict=True))
        for signs in itertools.product((1, -1), repeat=len(leads))
    ]
    return float(np.mean([total >= seen for total in sums]))


@pytest.mark.parametrize("seed", range(12))
def test_the_p_value_is_that_of_all_exchanges(seed):
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 24))
    first, second = generator.random((2, n)) < [[0.7], [0.4]]
    owners = generator.integers(0, 9, n).tolist()
    assert Paired.of(first, second, owners).p_value == pytest.approx(enumerated(first, second, owners))


def test_owners_of_one_target_give_mcnemars_exact_test():
    first = [True] * 9 + [False] * 2 + [True] * 5 + [False] * 4
    second = [False] * 9 + [True] * 2 + [True] * 5 + [False] * 4
    paired = Paired.of(first, second, range(20))
    assert paired.counts == (9, 2)
    assert paired.difference == pytest.approx(7 / 20)
    assert paired.p_value == pytest.approx(binom.sf(8, 11, 0.5))


def test_null_data_alarms_no_more_often_than_stated_and_counting_targets_of_an_owner_apart_does():
    """400 worlds of 12 owners with 6 targets of one outcome each: at 5 %, more than 33 alarms have chance 1e-3."""
    generator = np.random.default_rng(5)
    by_owner = by_target = 0
    owners = np.repeat(np.arange(12), 6).tolist()
    for _ in range(400):
        first, second = (np.repeat(generator.random(12) < 0.5, 6) for _ in range(2))
        by_owner += Paired.of(first, second, owners).p_value <= 0.05
        by_target += Paired.of(first, second, range(72)).p_value <= 0.05
    assert by_owner <= 33
    assert by_target > 60  # broken twin


def test_the_interval_holds_the_true_difference():
    """500 worlds, 90 %: more than 75 misses have chance 1e-3 (the interval is a product, and wide)."""
    generator = np.random.default_rng(7)
    misses = 0
    for _ in range(500):
        draws = generator.random(60)
        first, second = draws < 0.6, (draws < 0.3) | (draws > 0.9)  # 0.6 and 0.4, 0.3 in common
        low, high = Paired.of(first, second, range(60)).interval(confidence=0.9)
        assert low <= (first.mean() - second.mean()) <= high
        misses += not low <= 0.2 <= high
    assert misses <= 75


def test_few_owners_cannot_pass_and_no_target_is_no_data():
    perfect = Paired.of([True] * 8, [False] * 8, [0] * 4 + [1] * 4)
    assert perfect.p_value == pytest.approx(0.25)
    assert not perfect.could_pass(confidence=0.95)
    assert Paired.of([True] * 8, [False] * 8, range(8)).could_pass(confidence=0.95)
    nothing = Paired.of([True, False], [True, False], range(2))
    assert nothing.p_value == 1.0
    assert nothing.interval(confidence=0.95)[0] < 0.0 < nothing.interval(confidence=0.95)[1]
    with pytest.raises(ValueError, match="at least one target"):
        Paired.of([], [], [])
