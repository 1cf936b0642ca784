"""Metrics: identifiers read back, nulls and ceilings declared, every question with its metrics."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reticent.core.metric as declarations
from reticent.core.metric import (
    AUC,
    EPSILON_LOWER_BOUND_AT_DELTA,
    EXPOSURE,
    EXTRACTION_PRECISION,
    GROUP_TPR_AT_FPR,
    METRICS,
    NOVELTY_GAP,
    QUESTIONS,
    TPR_AT_FPR,
    Ceiling,
    Metric,
    Question,
    question_of,
    read_metric,
    shown_interval,
    shown_value,
    words_of,
)


@pytest.mark.parametrize(
    ("metric", "parameters", "identifier"),
    [
        (TPR_AT_FPR, (0.01,), "tpr_at_fpr_0.01"),
        (TPR_AT_FPR, (1e-5,), "tpr_at_fpr_1e-05"),
        (EPSILON_LOWER_BOUND_AT_DELTA, (1e-5,), "epsilon_lower_bound_at_delta_1e-05"),
        (GROUP_TPR_AT_FPR, (8, 0.1), "group_of_8_tpr_at_fpr_0.1"),
        (NOVELTY_GAP, (7,), "novelty_gap_7"),
        (EXTRACTION_PRECISION, ("lower_case",), "extraction_precision_lower_case"),
        (AUC, (), "auc"),
    ],
)
def test_an_identifier_is_written_and_read_back(metric, parameters, identifier):
    assert metric.at(*parameters) == identifier
    found = read_metric(identifier)
    assert found is not None
    assert found.metric is metric
    assert found.parameters == tuple(f"{one:g}" if isinstance(one, float) else str(one) for one in parameters)


@given(st.floats(min_value=1e-12, max_value=1.0, exclude_max=True))
def test_every_rate_is_read_back_as_the_number_that_was_printed(rate):
    found = read_metric(TPR_AT_FPR.at(rate))
    assert found is not None
    assert found.numbers == (float(f"{rate:g}"),)
    assert found.null == found.numbers[0]


@pytest.mark.parametrize("parameters", [(), (0.1, 0.2), ("a lot",), (-0.1,)])
def test_missing_superfluous_and_malformed_parameters_are_refused(parameters):
    with pytest.raises(ValueError, match="does not take the parameters"):
        TPR_AT_FPR.at(*parameters)


@pytest.mark.parametrize(
    "identifier", ["odd_new_metric", "tpr_at_fpr_", "tpr_at_fpr_x", "aucs", "novelty_gap_1.5", ""]
)
def test_what_nobody_declared_is_not_read(identifier):
    assert read_metric(identifier) is None
    assert question_of(identifier).metrics == ()


def test_no_identifier_belongs_to_two_metrics_and_no_metric_to_two_questions():
    examples = {"number": 0.25, "count": 3, "word": "zlib"}
    for metric in METRICS:
        places = [examples[place.split("}")[0]] for place in metric.name.split("{")[1:]]
        identifier = metric.at(*places)
        assert [one for one in METRICS if one.parameters(identifier) is not None] == [metric]
        assert sum(question.row(identifier) is not None for question in QUESTIONS) == 1
    assert len({question.key for question in QUESTIONS}) == len(QUESTIONS)


def test_every_declared_metric_belongs_to_a_question():
    declared = [value for value in vars(declarations).values() if isinstance(value, Metric)]
    assert len(declared) > 40
    assert [metric.name for metric in declared if metric not in METRICS] == []


def test_a_question_names_the_row_of_its_metric_and_none_of_another():
    question = question_of("auc")
    assert question.row("tpr_at_fpr_0.01") == 0
    assert question.row("auc") == 1
    assert question.row("exposure") is None
    assert Question("empty", "?").row("auc") is None


def test_metrics_with_a_ceiling_know_their_greatest_value():
    for metric in METRICS:
        if metric.ceiling in (Ceiling.EPSILON, Ceiling.EPSILON_AT_DELTA):
            assert metric.greatest == math.inf
        elif metric.ceiling is not None:
            assert metric.greatest == (None if metric is EXPOSURE else 1.0)


def test_values_print_in_the_unit_of_their_metric():
    assert shown_value("tpr_at_fpr_0.01", 0.125) == "12.5\u00a0%"
    assert shown_value("exposure", 1.4427) == "1.44\u00a0bits"
    assert shown_value("auc", 0.5) == "0.5"
    assert shown_value("odd_new_metric", 0.25) == "0.25"
    assert shown_interval("emitted_share", 0.1, 0.2) == "10–20\u00a0%"
    assert shown_interval("epsilon_lower_bound", 1.5, math.inf) == "1.5 or more"


@pytest.mark.parametrize(
    "identifier",
    ["tpr_at_fpr_0.001.001", "tpr_at_fpr_e", "tpr_at_fpr_1e", "epsilon_lower_bound_at_delta_.", "delta_1e-05x"],
)
def test_an_identifier_whose_number_is_none_is_shown_as_it_stands(identifier):
    assert read_metric(identifier) is None
    assert words_of(identifier).endswith(identifier.rsplit("_", 1)[1])


def test_a_metric_has_a_name_for_people():
    assert words_of("auc") == "AUC"
    assert words_of("tpr_at_fpr_0.001") == "true-positive rate at 0.1\u00a0% false positives"
    assert words_of("group_of_8_epsilon_lower_bound_at_delta_1e-05") == "groups of 8, ε lower bound at δ = 10⁻⁵"
    assert not [metric.name for metric in METRICS if "_" in words_of(metric.name.replace("{", "").replace("}", ""))]
