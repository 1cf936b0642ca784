"""Controls: silent where members and non-members are alike, loud where words tell them apart."""

import numpy as np
import pytest

from reticent.auditing.attacks.membership.control import bag_of_words_control, permutation_p_value
from reticent.core.randomness import Randomness

WORDS = [f"word{index}" for index in range(60)]


def texts(generator, count, weights=None):
    return [" ".join(generator.choice(WORDS, 12, p=weights)) for _ in range(count)]


def test_alike_texts_are_voided_no_more_often_than_stated():
    # 100 repetitions at a level of 0.05: more than 12 false alarms has chance 1.5e-3.
    generator = np.random.default_rng(0)
    voids = 0
    for repetition in range(100):
        both = texts(generator, 60)
        control = bag_of_words_control(
            both, np.arange(60) < 25, randomness=Randomness.seeded(repetition), level=0.05, permutations=39
        )
        voids += bool(control.void)
    assert voids <= 12


def test_different_vocabularies_void_the_finding_with_a_reason():
    generator = np.random.default_rng(1)
    shifted = np.linspace(1, 3, 60)
    both = [*texts(generator, 100), *texts(generator, 100, shifted / shifted.sum())]
    control = bag_of_words_control(both, np.arange(200) < 100, randomness=Randomness.seeded(0))
    assert control.auc.low > 0.5
    assert control.p_value == pytest.approx(1 / 200)
    assert "without the model" in control.void
    assert "word" not in control.void.replace("words alone", "")


def test_different_lengths_void_the_finding():
    generator = np.random.default_rng(2)
    both = [*texts(generator, 60), *[text[:40] for text in texts(generator, 60)]]
    assert bag_of_words_control(both, np.arange(120) < 60, randomness=Randomness.seeded(0)).void


def owners_with_favourite_words(generator):
    """Forty owners, half of them members, each with five texts about its own word; membership means nothing."""
    owners, both = [], []
    for owner in range(40):
        for text in texts(generator, 5):
            both.append(f"{text} favourite{owner} favourite{owner}")
            owners.append(f"owner{owner}")
    return both, owners, np.arange(200) < 100


def test_words_of_one_owner_do_not_leak_between_folds():
    both, owners, labels = owners_with_favourite_words(np.random.default_rng(3))
    by_owner = bag_of_words_control(both, labels, randomness=Randomness.seeded(0), owners=owners)
    by_record = bag_of_words_control(both, labels, randomness=Randomness.seeded(0))
    assert not by_owner.void
    assert by_record.void  # the twin that forgets owners voids everything


def test_a_level_that_the_permutations_cannot_reach_is_refused():
    with pytest.raises(ValueError, match="cannot reach"):
        bag_of_words_control(["a", "b"], np.array([True, False]), randomness=Randomness.seeded(0), permutations=9)


def test_tiny_inputs_are_no_evidence():
    control = bag_of_words_control(
        ["a b", "c d", ""], np.array([True, False, True]), randomness=Randomness.seeded(0)
    )
    assert not control.void


def test_permutation_p_values_are_uniform_on_noise_and_small_on_signal():
    generator = np.random.default_rng(4)
    labels = np.arange(40) < 20
    p_values = [
        permutation_p_value(generator.normal(size=40), labels, randomness=Randomness.seeded(i), permutations=99)
        for i in range(200)
    ]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.07)  # 3.3 standard errors
    signal = generator.normal(size=40) + 3 * labels
    assert permutation_p_value(signal, labels, randomness=Randomness.seeded(0)) == pytest.approx(1 / 1000)


def test_permutation_p_value_of_constant_scores_is_one():
    assert permutation_p_value(np.zeros(10), np.arange(10) < 5, randomness=Randomness.seeded(0)) == 1.0
