"""Comparisons counted: only those that could refute, and why the others could not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.accounting.bounds.ceiling import compare_with_guarantee, greatest_value
from reticent.core.finding import Comparison, Verdict
from reticent.core.guarantee import Notion, Unit
from reticent.reporting.comparing import comparison_sentences
from tests.reporting.sample_reports import finding, guarantee


def comparisons(*, consistent=0, refuted=0, vacuous=0, units=0, void=0):
    """So many comparisons of each kind."""
    promise = guarantee()
    return (
        *(Comparison(finding(), promise, 0.75, 1.0) for _ in range(consistent)),
        *(Comparison(finding(), promise, 0.55, 1.0) for _ in range(refuted)),
        *(Comparison(finding(), promise, 1.0, 1.0) for _ in range(vacuous)),
        *(compare_with_guarantee(finding(unit=Unit.OWNER), promise) for _ in range(units)),
        *(compare_with_guarantee(finding(void="too few"), promise) for _ in range(void)),
    )


def test_what_is_not_comparable_is_not_counted_and_the_reasons_are_said():
    """61 comparisons, of which ten could refute, were once told as "0 of 61 comparisons refute"."""
    said = comparison_sentences(comparisons(consistent=10, units=48, void=3))
    assert said == (
        "0 of 10 comparable findings refute the guarantee. Not counted: 51 not comparable (48: the finding is "
        "about one owner, the guarantee about one record; 3: the finding is void)."
    )


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"consistent": 2}, "0 of 2 comparable findings refute the guarantee."),
        ({"consistent": 1, "refuted": 1}, "1 of 2 comparable findings refutes the guarantee."),
        ({"refuted": 1}, "The one comparable finding refutes the guarantee."),
        (
            {"vacuous": 3},
            "No finding could have refuted the guarantee. Not counted: 3 with a vacuous ceiling (one that allows "
            "everything).",
        ),
        (
            {"consistent": 1, "vacuous": 1, "void": 1},
            "The one comparable finding does not refute the guarantee. Not counted: 1 with a vacuous ceiling (one "
            "that "
            "allows everything), and 1 not comparable (1: the finding is void).",
        ),
    ],
)
def test_only_findings_that_could_refute_are_counted(kinds, said):
    assert comparison_sentences(comparisons(**kinds)) == said


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_finding_below_a_ceiling_that_allows_everything_is_never_consistent(ceiling, low):
    one = Comparison(finding(value=low, low=low, high=1.0), guarantee(), ceiling, 1.0)
    assert (one.verdict is Verdict.REFUTED) == (low > ceiling)
    if ceiling >= 0.9991:
        assert one.verdict in (Verdict.VACUOUS, Verdict.REFUTED)
    if ceiling <= 0.9989:
        assert one.verdict is not Verdict.VACUOUS


@pytest.mark.parametrize(
    "metric", ["auc", "tpr_at_fpr_0.1", "membership_accuracy", "inference_accuracy", "exposure"]
)
def test_a_promise_of_an_enormous_epsilon_is_vacuous_for_every_metric(metric):
    bound = greatest_value(metric, candidates=64)
    measured = finding(metric, value=0.5, low=0.2, high=min(1.0, bound))
    assert compare_with_guarantee(measured, guarantee(epsilon=60.0), candidates=64).verdict is Verdict.VACUOUS
    assert (
        compare_with_guarantee(measured, guarantee(epsilon=0.5, delta=1e-6), candidates=64).verdict
        is not Verdict.VACUOUS
    )


def test_an_unbounded_epsilon_is_vacuous_and_a_finite_one_never_is():
    measured = finding("epsilon_lower_bound", value=1.0, low=1.0, high=math.inf, null=0.0)
    assert compare_with_guarantee(measured, guarantee(epsilon=1e9)).verdict is Verdict.CONSISTENT
    assert Comparison(measured, guarantee(), math.inf).verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    ("changed", "promise", "why"),
    [
        ({"unit": Unit.OWNER}, {}, "the finding is about one owner, the guarantee about one record"),
        ({"metric": "emitted_share"}, {}, "no ceiling for its metric"),
        ({}, {"data_dependent": True}, "a guarantee for this data set alone promises nothing of an attack"),
        (
            {},
            {"notion": Notion.OPERATIONAL_PRIVACY},
            f"{Notion.OPERATIONAL_PRIVACY.value} promises nothing of an attack",
        ),
        ({"void": "too few"}, {}, "the finding is void"),
    ],
)
def test_every_missing_comparison_says_why(changed, promise, why):
    assert compare_with_guarantee(finding(**changed), guarantee(**promise)).why_not == why
    assert compare_with_guarantee(finding(), guarantee()).why_not == ""
