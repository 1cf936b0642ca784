"""Ceilings: closed forms, the null, what is not comparable, and findings held against guarantees."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.bounds.ceiling import ceiling, compare_with_guarantee
from reticent.accounting.bounds.confidentiality import bayesian, group_of_secrets, missed_secret, missed_secret_of
from reticent.accounting.bounds.leakage import leakage_of_guarantee
from reticent.core.event import Repeated, SampledGaussian
from reticent.core.finding import Finding, Verdict
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import Access

SECRET_METRICS = ["inference_accuracy", "extraction_probability", "exposure"]
METRICS = ["auc", "advantage", "membership_accuracy", "tpr_at_fpr_0.01", "epsilon_lower_bound", *SECRET_METRICS]


def guarantee(epsilon, delta=0.0, **changes):
    fields = {
        "mechanism": "test", "notion": Notion.DIFFERENTIAL_PRIVACY, "unit": Unit.RECORD,
        "neighbours": Neighbours.ADD_REMOVE, "covers": "the model",
    }  # fmt: skip
    return Guarantee(epsilon=epsilon, delta=delta, **{**fields, **changes})


def finding(metric, low, **changes):
    fields = {
        "attack": "test", "value": low, "high": low, "confidence": 0.95, "n": 100, "measure": "test",
        "unit": Unit.RECORD, "access": Access.LOGPROBS,
    }  # fmt: skip
    return Finding(metric=metric, low=low, **{**fields, **changes})


def test_pure_privacy_has_its_closed_forms():
    one = guarantee(1.0)
    assert ceiling("tpr_at_fpr_0.01", one) == pytest.approx(0.01 * math.e)
    assert ceiling("tpr_at_fpr_1e-3", one) == pytest.approx(0.001 * math.e)
    assert ceiling("advantage", one) == pytest.approx(math.tanh(0.5))
    assert ceiling("membership_accuracy", one) == pytest.approx(math.e / (1 + math.e))
    # Two lines that meet at fpr = 1/(1+e): area 1 − 1/(1+e)... of pure randomised response, e/(1+e).
    assert ceiling("auc", one) == pytest.approx(math.e / (1 + math.e), abs=5e-4)
    assert ceiling("inference_accuracy", one, candidates=100) == pytest.approx(math.e / 100)
    assert ceiling("extraction_probability", one, secret_bits=20) == pytest.approx(math.e * 2.0**-20)
    assert ceiling("epsilon_lower_bound", one) == 1.0


def test_approximate_privacy_adds_delta():
    both = guarantee(0.5, 1e-3)
    assert ceiling("tpr_at_fpr_0", both) == pytest.approx(1e-3)
    assert ceiling("inference_accuracy", both, candidates=500) == pytest.approx(math.exp(0.5) / 500 + 1e-3)
    assert ceiling("epsilon_lower_bound_at_delta_1e-3", both) == 0.5
    assert ceiling("epsilon_lower_bound_at_delta_1e-4", both) == math.inf


def test_renyi_guarantee_bounds_inference_at_least_as_well_as_the_extraction_bound():
    # spec 2: a=2, ε=2, m=1e4: 0.027; the binary inequality is no weaker.
    renyi = guarantee(2.0, order=2.0)
    assert ceiling("inference_accuracy", renyi, candidates=10_000) <= 0.0272
    assert ceiling("inference_accuracy", renyi, candidates=10_000) > 0.025
    # spec 2: 12.1-DP at δ = 1e-5 by the improved conversion.
    assert ceiling("epsilon_lower_bound_at_delta_1e-5", renyi) == pytest.approx(12.13, abs=0.01)
    assert ceiling("epsilon_lower_bound", renyi) is None  # no δ was stated


def test_exposure_without_leakage_is_the_null_of_the_metric():
    # spec 5: 1.44 bits on average under no memorisation.
    exact = sum(k / 1000 * math.log2((k + 1) / k) for k in range(1, 1000))
    assert ceiling("exposure", guarantee(0.0), candidates=1000) == pytest.approx(exact, rel=4e-3)
    assert ceiling("exposure", guarantee(0.0), candidates=10**6) == pytest.approx(1 / math.log(2), rel=1e-3)


@given(st.floats(0.0, 8.0), st.sampled_from([0.0, 1e-6, 1e-2]), st.integers(2, 400))
@settings(max_examples=40, deadline=None)
def test_exposure_blocks_lie_above_the_sum_over_every_rank_and_near_it(epsilon, delta, candidates):
    promise = guarantee(epsilon, delta)
    terms = [
        ceiling("tpr_at_fpr_" + repr(k / candidates), promise) * math.log2((k + 1) / k)
        for k in range(1, candidates)
    ]
    found = ceiling("exposure", promise, candidates=candidates)
    assert min(sum(terms), math.log2(candidates)) <= found * (1 + 1e-12)
    assert found <= 1.06 * sum(terms)


def test_exposure_of_a_large_space_is_answered_without_a_walk_through_it():
    rich = guarantee(3.0, 1e-6, renyi=tuple((a, 0.2 * a) for a in np.geomspace(1.1, 60, 40)))
    value = ceiling("exposure", rich, candidates=10**9)
    assert 1.44 < value < math.log2(10**9)


@pytest.mark.parametrize("metric", METRICS)
def test_every_ceiling_grows_with_epsilon_and_with_delta(metric):
    values = [ceiling(metric, guarantee(e, d), candidates=50) for e in (0.1, 1.0, 4.0) for d in (0.0, 0.01)]
    assert values[0] < values[2] < values[4]
    assert values[0] <= values[1]
    assert values[2] <= values[3]


@pytest.mark.parametrize("metric", METRICS)
def test_no_protection_leaves_the_trivial_ceiling(metric):
    trivial = {"exposure": math.log2(50), "epsilon_lower_bound": math.inf}.get(metric, 1.0)
    assert ceiling(metric, guarantee(math.inf), candidates=50) == pytest.approx(trivial)


@pytest.mark.parametrize("metric", SECRET_METRICS)
def test_more_copies_raise_the_ceiling_of_a_secret(metric):
    one, twenty = (ceiling(metric, guarantee(0.3, 1e-6), candidates=10**6, copies=n) for n in (1, 20))
    assert one < twenty
    renyi = guarantee(0.3, order=2.0)
    assert ceiling(metric, renyi, candidates=100, copies=2) == pytest.approx(
        1.0 if metric != "exposure" else math.log2(100)
    )


@pytest.mark.parametrize("metric", METRICS)
def test_promises_about_one_data_set_or_an_ignorant_attacker_are_not_comparable(metric):
    average = bayesian(missed_secret(1.0, 1e-5), miss_rate=0.1, conservative_miss_rate=0.0)
    for promise in (
        guarantee(1.0, notion=Notion.OPERATIONAL_PRIVACY),
        guarantee(1.0, data_dependent=True),
        average,
    ):
        assert ceiling(metric, promise, candidates=50) is None


def test_missing_context_and_unknown_metrics_give_none_and_never_zero():
    one = guarantee(1.0)
    for metric in SECRET_METRICS:
        assert ceiling(metric, one) is None
    for metric in ("perplexity", "tpr_at_fpr_", "tpr_at_fpr_2", "tpr_at_fpr_x", "exposure_max"):
        assert ceiling(metric, one) is None
    assert ceiling("auc", one, copies=2) is None


def test_a_finding_above_the_ceiling_refutes_and_one_below_only_agrees():
    promise = guarantee(1.0, 1e-5)
    assert compare_with_guarantee(finding("auc", 0.9), promise).verdict is Verdict.REFUTED
    assert compare_with_guarantee(finding("auc", 0.6), promise).verdict is Verdict.CONSISTENT
    assert compare_with_guarantee(finding("exposure", 15.0), promise, candidates=10**6).verdict is Verdict.REFUTED
    assert compare_with_guarantee(finding("exposure", 15.0), promise).verdict is Verdict.NOT_COMPARABLE


def test_a_finding_for_another_unit_is_not_comparable():
    part = guarantee(1.0, unit=Unit.PART)
    assert compare_with_guarantee(finding("auc", 0.99), part).verdict is Verdict.NOT_COMPARABLE
    assert compare_with_guarantee(finding("auc", 0.99, unit=Unit.PART), part).verdict is Verdict.REFUTED


def test_where_training_keeps_one_copy_of_a_secret_its_ceiling_is_that_of_one_copy():
    event = Repeated(SampledGaussian(1.0, 0.064), 62)
    one, many = (missed_secret_of(event, 1e-5, has_conservative=two) for two in (True, False))
    assert one.epsilon == many.epsilon  # of a secret in one record both say the same
    for metric in SECRET_METRICS:
        alone = ceiling(metric, one, candidates=10**6)
        assert alone == ceiling(metric, many, candidates=10**6)
        assert ceiling(metric, one, candidates=10**6, copies=20) == alone
        assert ceiling(metric, many, candidates=10**6, copies=20) > alone
    # 20 copies allow every bit of a number of six digits without a conservative policy, and 3.4 with one.
    assert ceiling("exposure", many, candidates=10**6, copies=20) == pytest.approx(math.log2(10**6))
    assert ceiling("exposure", one, candidates=10**6, copies=20) == pytest.approx(3.374, abs=0.002)
    assert leakage_of_guarantee(one, 20.0, copies=20).least == leakage_of_guarantee(one, 20.0).least
    measured = finding("exposure", 10.0, unit=Unit.SECRET)
    assert compare_with_guarantee(measured, one, candidates=10**6, copies=20).verdict is Verdict.REFUTED
    assert compare_with_guarantee(measured, many, candidates=10**6, copies=20).verdict is not Verdict.REFUTED


def test_redacted_training_at_epsilon_8_allows_five_bits_of_a_number_in_twenty_copies():
    """Reports once printed 19.93 of 19.93: the price of a group, where training reads one copy.

    700 private records, 256 in a step, 5 epochs: the noise for ε = 8 at δ = 1e-5 is 1.605. No outside source for
    the 5.0; the twin without a conservative policy has the 19.93.
    """
    event = Repeated(SampledGaussian(1.605, 256 / 700), 14)
    one, many = (missed_secret_of(event, 1e-5, has_conservative=two) for two in (True, False))
    assert one.epsilon == pytest.approx(8.0, abs=0.01)
    for copies in (1, 20, 40):
        assert ceiling("exposure", one, candidates=10**6, copies=copies) == pytest.approx(5.0, abs=0.05)
    assert round(ceiling("exposure", many, candidates=10**6, copies=20), 2) == 19.93


def test_a_group_of_secrets_covers_as_many_copies_and_only_promises_of_secrets_know_of_one_copy():
    missed = missed_secret_of(Repeated(SampledGaussian(4.0, 0.01), 20), 1e-5, has_conservative=False)
    group = group_of_secrets(missed, 10, has_conservative=False)
    assert [group.units_of_secret(copies) for copies in (1, 10, 11, 20, 21)] == [1, 1, 2, 2, 3]
    records = guarantee(1.0, basis=replace(missed.basis, keeps_one_copy=True))
    assert records.units_of_secret(7) == 7
    assert guarantee(1.0, unit=Unit.SECRET).units_of_secret(7) == 7  # nothing is known of its training
    with pytest.raises(ValueError, match="keeps_one_copy"):
        replace(missed.basis, keeps_one_copy=1)
