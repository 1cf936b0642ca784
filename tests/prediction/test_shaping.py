"""Shaping of look-ups: a part whose model computes nonsense answers as the public model, and nobody is told."""

import numpy as np
import pytest

from reticent.core.randomness import Randomness
from reticent.prediction.mechanism import Layout, Moment
from reticent.prediction.shaping import Shaping
from reticent.prediction.submix import SubMixF

PUBLIC = np.log([0.5, 0.3, 0.2])
PRIVATE = np.log([0.1, 0.2, 0.7])


@pytest.mark.parametrize("nonsense", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shaping", [Shaping(), Shaping(temperature=0.5, top_k=2)])
def test_a_broken_private_row_becomes_the_public_one(nonsense, shaping):
    rows = np.vstack([PUBLIC, PRIVATE, np.full(3, nonsense)])
    shaped = shaping.shape(rows)
    np.testing.assert_array_equal(shaped.private[1], shaped.public)
    np.testing.assert_array_equal(shaped.private[0], shaping.shape(rows[:2]).private[0])


def test_a_broken_part_costs_nothing_and_changes_no_other_parts_cost():
    mechanism = SubMixF(Layout.single(2), 4.0)
    moment = Moment(remaining=np.full(2, 0.5), left=3)
    broken, silent = (
        mechanism.release(np.vstack([PUBLIC, PRIVATE, row]), moment, randomness=Randomness.seeded(1))
        for row in (np.array([np.nan, -1.0, -1.0]), PUBLIC)
    )
    np.testing.assert_array_equal(broken.pmf, silent.pmf)
    np.testing.assert_array_equal(broken.costs, silent.costs)
    assert broken.costs[1] == 0.0


def test_a_broken_public_row_is_an_error():
    with pytest.raises(ValueError, match="public"):
        Shaping().shape(np.vstack([np.full(3, np.nan), PRIVATE]))
