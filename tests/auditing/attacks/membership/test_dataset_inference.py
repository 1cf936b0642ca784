"""Dataset inference: halves by owner, weights by one half alone, and a p-value that is uniform without signal."""

import numpy as np

from reticent.auditing.attacks.membership.control import permutation_p_value
from reticent.auditing.attacks.membership.dataset_inference import combined, fitted_weights, halves_by_owner
from reticent.core.randomness import Randomness


def test_halves_keep_owners_whole_and_take_half_of_either_side():
    owners = [f"o{n // 3}" for n in range(60)]
    is_member = np.arange(60) < 30
    fits = halves_by_owner(owners, is_member, randomness=Randomness.seeded(1))
    assert {owner for owner, fit in zip(owners, fits, strict=True) if fit}.isdisjoint(
        owner for owner, fit in zip(owners, fits, strict=True) if not fit
    )
    assert fits[is_member].sum() == fits[~is_member].sum() == 15


def test_weights_are_those_of_ridge_regression():
    generator = np.random.default_rng(3)
    scores, is_member = generator.normal(size=(50, 2)), np.arange(50) < 25
    centre, scale, weights = fitted_weights(scores, is_member)
    x = np.clip((scores - centre) / scale, -3, 3)
    y = np.where(is_member, 1.0, -1.0)
    rows = np.vstack([x, np.sqrt(0.1 * 50) * np.eye(2)])  # ridge as least squares with rows for the penalty
    oracle = np.linalg.lstsq(rows, np.concatenate([y, np.zeros(2)]), rcond=None)[0]
    assert np.allclose(weights, oracle)


def test_a_weak_score_shows_on_many_records_and_labels_of_the_testing_half_decide_no_score():
    generator = np.random.default_rng(4)
    is_member = np.arange(2000) < 1000
    scores = generator.normal(size=(2000, 3))
    scores[is_member, 1] += 0.35  # an AUC of 0.6
    fits = halves_by_owner([str(n) for n in range(2000)], is_member, randomness=Randomness.seeded(5))
    values = combined(scores, is_member, fits)
    p_value = permutation_p_value(values, is_member[~fits], randomness=Randomness.seeded(6), permutations=999)
    assert p_value <= 0.005
    other = is_member.copy()
    other[~fits] = ~other[~fits]
    assert np.array_equal(values, combined(scores, other, fits))


def test_without_signal_the_p_value_is_uniform_and_a_twin_that_tests_on_the_fitting_half_is_not():
    """Kolmogorov's distance of 200 p-values, fixed by the seed; by chance above 0.12 once in 150 such tests."""
    honest, twin = [], []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        scores, is_member = generator.normal(size=(60, 6)), np.arange(60) < 30
        fits = halves_by_owner([str(n) for n in range(60)], is_member, randomness=Randomness.seeded(seed))
        source = Randomness.seeded(seed)
        values = combined(scores, is_member, fits)
        honest.append(permutation_p_value(values, is_member[~fits], randomness=source, permutations=99))
        peeked = combined(np.vstack([scores, scores]), np.concatenate([is_member, is_member]), np.arange(120) < 60)
        twin.append(permutation_p_value(peeked, is_member, randomness=source, permutations=99))
    grid = np.linspace(0.0, 1.0, 101)
    distance = max(abs(np.mean(np.array(honest) <= level + 1e-9) - level) for level in grid)
    assert distance <= 0.12
    assert np.mean(np.array(twin) <= 0.05) > 0.3


def test_texts_without_tokens_are_the_least_likely_members():
    scores = np.array([[1.0], [0.0], [-np.inf], [2.0], [0.5], [-np.inf], [1.0], [0.2]])
    is_member = np.array([True, False, False, True] * 2)
    fits = np.arange(8) < 4
    assert np.isfinite(combined(scores, is_member, fits)).all()
    assert combined(scores, is_member, fits).argmin() in (1, 3)
