"""Scores of owners and groups."""

import numpy as np
import pytest

from reproductions.random_groups import score_random_groups
from reticent.auditing.attacks.membership.groups import Pooling, score_owners
from reticent.auditing.metrics.roc import auc, labelled
from reticent.core.errors import UsageError
from reticent.core.randomness import Randomness


def test_an_owner_has_the_mean_or_the_greatest_score_of_its_records():
    scores, labels = [1.0, 3.0, 0.0], np.array([True, True, False])
    found = score_owners(scores, labels, owners=["ann", "ann", "bob"])
    assert found.scores.tolist() == [2.0, 0.0]
    assert found.is_member.tolist() == [True, False]
    assert found.sizes.tolist() == [2, 1]
    most = score_owners(scores, labels, owners=["ann", "ann", "bob"], pooling=Pooling.MAX)
    assert most.scores.tolist() == [3.0, 0.0]


def test_a_record_without_tokens_does_not_hide_its_owner():
    scores, labels = [-np.inf, 5.0, 0.0, -np.inf], np.array([True, True, False, False])
    found = score_owners(scores, labels, owners=["ann", "ann", "bob", "cid"])
    assert found.scores.tolist() == [5.0, 0.0, -np.inf]


def test_an_owner_on_both_sides_is_refused_without_its_name():
    with pytest.raises(UsageError, match="1 of 2 owners") as caught:
        score_owners([1.0, 2.0, 3.0], np.array([True, False, False]), owners=["ann", "ann", "bob"])
    assert "ann" not in str(caught.value)


def test_random_groups_are_disjoint_pure_and_of_one_size():
    labels = np.arange(50) < 23
    found = score_random_groups(np.where(labels, 1.0, 0.0), labels, size=5, randomness=Randomness.seeded(1))
    assert found.sizes.tolist() == [5] * 9
    assert found.is_member.sum() == 4
    assert found.left_over == 5
    assert found.scores.tolist() == [1.0] * 4 + [0.0] * 5


def test_groups_leak_more_than_records():
    generator = np.random.default_rng(0)
    labels = np.arange(2000) < 1000
    scores = generator.normal(size=2000) + 0.3 * labels
    groups = score_random_groups(scores, labels, size=20, randomness=Randomness.seeded(2))
    single = auc(scores[labels], scores[~labels])
    assert auc(groups.scores[groups.is_member], groups.scores[~groups.is_member]) > single + 0.2


def test_one_class_alone_is_refused():
    with pytest.raises(UsageError, match="members and non-members"):
        labelled([1.0, 2.0], np.array([True, True]))
    with pytest.raises(UsageError, match="too few"):
        score_random_groups([1.0, 2.0], np.array([True, False]), size=2, randomness=Randomness.seeded(0))
