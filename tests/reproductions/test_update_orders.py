"""Orders over repetitions: intervals by Student's t, differences within a repetition, and null data."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.updates.regimes import Regime, Update
from reticent.auditing.attacks.update.score import PhraseScore
from tests.reproductions.update_orders import class_difference, class_spread, regime_difference, spread


def update(**scores: float) -> Update:
    """An update with one canary of each name."""
    measured = {name: PhraseScore((1,), (score,), score, 0.0, 0.0) for name, score in scores.items()}
    return Update(
        regime=Regime.CONTINUED,
        share=0.0,
        scores=measured,
        beam_ranks={},
        ranks_apart={},
        found=frozenset(),
        pair_ranks={},
        guarantee=None,
        canary_share=0.0,
        accuracy=None,
    )


def test_the_interval_is_students():
    # t(0.975, 3) = 3.182446 (any table of Student's t); mean 2.5, deviation √(5/3), n = 4.
    found = spread([1.0, 2.0, 3.0, 4.0])
    half = 3.182446 * math.sqrt(5.0 / 3.0) / 2.0
    assert (found.mean, found.repetitions) == (2.5, 4)
    assert (found.low, found.high) == (pytest.approx(2.5 - half, abs=1e-5), pytest.approx(2.5 + half, abs=1e-5))


def test_one_repetition_proves_nothing():
    assert not spread([3.0]).is_positive
    assert spread([3.0]).high == math.inf
    with pytest.raises(ValueError, match="values"):
        spread([])


@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=8))
def test_more_confidence_is_a_wider_interval_around_the_same_mean(values):
    narrow, wide = spread(values, confidence=0.5), spread(values, confidence=0.99)
    assert narrow.mean == wide.mean
    assert wide.low <= narrow.low <= narrow.mean <= narrow.high <= wide.high


def test_differences_are_taken_within_a_repetition():
    """Seeds differ by far more than the classes do; unpaired, the difference would drown."""
    updates = [update(low=10.0 * seed + 1.0 + 0.1 * seed, high=10.0 * seed) for seed in range(-2, 3)]
    assert class_difference(updates, ["low"], ["high"]).is_positive
    assert not class_difference(updates, ["high"], ["low"]).is_positive
    assert class_spread(updates, "low").low < 0.0
    later = [update(low=one.scores["low"].score - 1.0, high=one.scores["high"].score - 1.2) for one in updates]
    assert regime_difference(updates, later).is_positive
    with pytest.raises(ValueError, match="zip"):
        regime_difference(updates, later[1:])


def test_without_a_difference_the_interval_rarely_lies_above_zero():
    """2000 experiments of five repetitions: 2.5 % are expected; more than 3.9 % happen with a chance below 1e-4."""
    generator = np.random.default_rng(0)
    hits = sum(spread(row.tolist()).is_positive for row in generator.normal(size=(2000, 5)))
    assert hits / 2000 < 0.039
    assert hits > 0  # an interval that is never above zero would pass as well
