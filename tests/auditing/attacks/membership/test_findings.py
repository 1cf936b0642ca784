"""Findings from membership scores: names, nulls, intervals, voids, and their place beside a guarantee."""

import math

import numpy as np
import pytest

from reticent.accounting.bounds.ceiling import ceiling, compare_with_guarantee
from reticent.auditing.attacks.membership.control import bag_of_words_control
from reticent.auditing.attacks.membership.findings import (
    MembershipSetting,
    epsilon_finding,
    gaussian_mu_finding,
    membership_findings,
)
from reticent.auditing.metrics.one_run import FAIR_COINS, one_run_epsilon
from reticent.core.errors import UsageError
from reticent.core.finding import Finding, Verdict
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.randomness import Randomness

SETTING = MembershipSetting(attack="loss")
PROMISE = Guarantee(
    mechanism="test",
    notion=Notion.DIFFERENTIAL_PRIVACY,
    unit=Unit.RECORD,
    neighbours=Neighbours.ADD_REMOVE,
    epsilon=0.5,
    covers="weights",
)


def sample(shift: float, *, m: int = 1000, n: int = 1000, seed: int = 0):
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.normal(shift, 1, m), generator.normal(0, 1, n)]), np.arange(m + n) < m


def test_findings_have_names_nulls_and_round_trip():
    area, one_percent, per_mille = membership_findings(*sample(1.0), setting=SETTING)
    assert [f.metric for f in (area, one_percent, per_mille)] == ["auc", "tpr_at_fpr_0.01", "tpr_at_fpr_0.001"]
    assert [f.null for f in (area, one_percent, per_mille)] == [0.5, 0.01, 0.001]
    assert area.value == pytest.approx(0.76, abs=0.03)
    assert area.beats_null
    assert one_percent.beats_null
    assert area.n == 2000
    assert Finding.from_json(area.to_json()) == area


def test_no_finding_beats_its_null_on_noise():
    # 200 repetitions, one-sided error 2.5 % a finding: more than 13 has chance 2e-4 at the stated rate.
    beaten = np.zeros(2)
    for seed in range(200):
        found = membership_findings(*sample(0.0, m=150, n=150, seed=seed), setting=SETTING)
        beaten += [found[0].beats_null, found[1].beats_null]
    assert (beaten <= 13).all()


def test_a_rate_that_cannot_be_seen_is_void_and_not_zero_leakage():
    found = membership_findings(*sample(5.0, m=50, n=200), setting=SETTING)
    assert not found[1].void
    assert "at least 1000 non-members, found 200" in found[2].void
    assert (found[2].low, found[2].high) == (0.0, 1.0)
    assert not found[2].beats_null


def test_a_control_voids_every_finding():
    texts = [f"alpha {index % 7}" for index in range(60)] + [f"beta {index % 7}" for index in range(60)]
    labels = np.arange(120) < 60
    control = bag_of_words_control(texts, labels, randomness=Randomness.seeded(0))
    setting = MembershipSetting(attack="loss", void=control.void)
    found = membership_findings(np.where(labels, 1.0, 0.0), labels, setting=setting)
    assert all("without the model" in finding.void for finding in found)
    assert not any(finding.beats_null for finding in found)
    assert compare_with_guarantee(found[0], PROMISE).verdict is Verdict.NOT_COMPARABLE


def test_every_metric_has_the_ceiling_that_its_name_promises():
    names = [finding.metric for finding in membership_findings(*sample(1.0), setting=SETTING)]
    bound = one_run_epsilon([1.0, 2.0, 0.0, 1.0], np.array([True, True, False, False]), delta=1e-5)
    names.append(epsilon_finding(bound, setting=SETTING).metric)
    assert all(ceiling(name, PROMISE) is not None for name in names)


def test_signal_refutes_a_promise_that_noise_does_not():
    for shift, verdict in ((3.0, Verdict.REFUTED), (0.0, Verdict.CONSISTENT)):
        scores, labels = sample(shift)
        bound = one_run_epsilon(scores, labels, delta=0.0)
        found = [*membership_findings(scores, labels, setting=SETTING)[:2], epsilon_finding(bound, setting=SETTING)]
        assert [compare_with_guarantee(finding, PROMISE).verdict for finding in found] == [verdict] * 3


def test_findings_of_groups_are_never_set_beside_a_promise_for_one_record():
    setting = MembershipSetting(attack="loss", group_size=20)
    found = membership_findings(*sample(3.0), setting=setting)
    assert found[0].metric == "group_of_20_auc"
    assert compare_with_guarantee(found[0], PROMISE).verdict is Verdict.NOT_COMPARABLE
    owners = MembershipSetting(attack="loss", unit=Unit.OWNER)
    assert compare_with_guarantee(membership_findings(*sample(3.0), setting=owners)[0], PROMISE).ceiling is None


def test_epsilon_findings_are_one_sided_and_keep_their_confidence():
    coins = np.random.default_rng(5).random(400) < 0.5
    bound = one_run_epsilon(coins.astype(float), coins, delta=1e-5, confidence=0.9)
    with pytest.raises(ValueError, match="confidence"):
        epsilon_finding(bound, setting=SETTING)
    found = epsilon_finding(bound, setting=MembershipSetting(attack="loss", confidence=0.9))
    assert found.metric == "epsilon_lower_bound_at_delta_1e-05"
    assert found.low == found.value == bound.epsilon
    assert found.high == math.inf
    assert found.notes[-1] == FAIR_COINS
    assert found.beats_null


def test_a_gaussian_mu_has_no_ceiling():
    found = gaussian_mu_finding(1.5, n=100, setting=SETTING)
    assert found.notes == (FAIR_COINS,)
    assert compare_with_guarantee(found, PROMISE).ceiling is None


def test_labels_must_be_booleans_of_both_kinds():
    with pytest.raises(ValueError, match="booleans"):
        membership_findings([1.0, 0.0], [1, 0], setting=SETTING)
    with pytest.raises(UsageError):
        membership_findings([1.0, 0.0], np.array([False, False]), setting=SETTING)
