"""Shaping of look-ups: a part whose model computes nonsense answers as the public model, and nobody is told."""

import warnings

import numpy as np
import pytest

from reticent.core.randomness import Randomness
from reticent.prediction.mechanisms.mechanism import Layout, Moment
from reticent.prediction.mechanisms.shaping import Masses, Shaping, shape_together
from reticent.prediction.mechanisms.submix import SubMixF

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


@pytest.mark.parametrize("shaping", [Shaping(), Shaping(0.7), Shaping(top_k=2), Shaping(top_p=0.7)])
def test_masses_are_shaped_as_their_logarithms_are(shaping):
    masses = np.exp(np.vstack([PUBLIC, PRIVATE])) * [[3.0], [0.25]]  # a factor a row
    found, expected = shaping.shape(Masses(masses)), shaping.shape(np.vstack([PUBLIC, PRIVATE]))
    np.testing.assert_allclose(found.public, expected.public, rtol=1e-12)
    np.testing.assert_allclose(found.private, expected.private, rtol=1e-12)
    np.testing.assert_array_equal(found.support, expected.support)


@pytest.mark.parametrize("least", [0.0, 1e-310, 1e-40])
@pytest.mark.parametrize("order", [2.0, 2.5, 4.0, np.inf])
def test_a_part_with_hardly_any_mass_on_the_public_support_answers_as_the_public_model(least, order):
    masses = np.array([[0.6, 0.4, 0.0], [0.0, least, 1.0], [0.3, 0.7, 0.0]])
    before = masses.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mechanism = SubMixF(Layout.single(2), order)
        moment = Moment(remaining=np.full(2, 0.5), left=3)
        (release,) = mechanism.release_together(Masses(masses[None]), [Shaping()], moment)
    np.testing.assert_array_equal(masses, before)
    assert release.pmf.sum() == pytest.approx(1.0)
    assert release.costs[0] < 1e-30
    assert release.costs[1] > 1e-3


def test_masses_of_single_precision_become_pmfs_of_float64():
    rng = np.random.default_rng(0)
    masses = rng.exponential(size=(3, 5000)).astype(np.float32)
    masses /= masses.sum(axis=1, keepdims=True)
    shaped = Shaping().shape(Masses(masses))
    assert shaped.private.dtype == np.float64
    assert np.vstack([shaped.public, shaped.private]).sum(axis=1) == pytest.approx(1.0, abs=1e-15)
    assert shaped.support is None


def test_tokens_without_public_mass_are_cut_for_all():
    masses = np.array([[0.5, 0.0, 0.5], [0.2, 0.6, 0.2], [0.0, 1.0, 0.0]], dtype=np.float32)
    shaped = Shaping().shape(Masses(masses))
    assert shaped.support.tolist() == [0, 2]
    assert shaped.private.tolist() == [[0.5, 0.5], [0.5, 0.5]]  # the last has nothing there: as the public model


@pytest.mark.parametrize("nonsense", [np.nan, np.inf])
def test_broken_masses_become_the_public_ones(nonsense):
    masses = np.exp(np.vstack([PUBLIC, PRIVATE, PRIVATE]))
    masses[2, 1] = nonsense
    shaped = Shaping().shape(Masses(masses))
    np.testing.assert_array_equal(shaped.private[1], shaped.public)
    np.testing.assert_allclose(shaped.private[0], np.exp(PRIVATE))
    with pytest.raises(ValueError, match="public"):
        Shaping().shape(Masses(masses[::-1]))


def odd_masses():
    """Look-ups [5, 3, 4] of single precision: whole ones, one with a broken part, one without some public mass."""
    masses = np.random.default_rng(1).exponential(size=(5, 3, 4)).astype(np.float32)
    masses[1, 2, 0] = np.nan
    masses[3, 0, 2] = 0.0
    masses[4, 1] = 0.0
    return masses


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "shapings",
    [
        [Shaping()] * 5,
        [Shaping(top_k=2)] * 5,
        [Shaping(), Shaping(), Shaping(0.5), Shaping(top_k=3), Shaping(top_k=3)],
    ],
)
def test_texts_are_shaped_together_as_they_are_one_by_one(shapings, at_once):
    masses = odd_masses()
    found = list(shape_together(Masses(masses), shapings, at_once=lambda size: at_once))
    assert max(len(each.public) for each in found) <= at_once
    texts = [each.text(number) for each in found for number in range(len(each.public))]
    for text, own, shaping in zip(texts, masses, shapings, strict=True):
        alone = shaping.shape(Masses(own))
        np.testing.assert_array_equal(text.public, alone.public)
        np.testing.assert_array_equal(text.private, alone.private)
        np.testing.assert_array_equal(text.spread(text.public), alone.spread(alone.public))
    spread = np.concatenate([each.spread(each.public) for each in found])
    np.testing.assert_array_equal(spread, [text.spread(text.public) for text in texts])


def test_whole_texts_are_shaped_in_one_piece():
    masses = Masses(np.random.default_rng(2).exponential(size=(6, 3, 4)).astype(np.float32))
    assert [len(each.public) for each in shape_together(masses, [Shaping()] * 6, at_once=lambda size: 4)] == [4, 2]
