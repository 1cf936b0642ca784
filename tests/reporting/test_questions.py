"""Questions and answers in words."""

import math

import pytest

from reticent.core.finding import Comparison
from reticent.core.metric import QUESTIONS, question_of, scale_of
from reticent.core.model import Access
from reticent.core.printing.numbers import Scale
from reticent.reporting.outline import sections
from reticent.reporting.questions import (
    Answer,
    answer_of,
    asked,
    detail_sentence,
    lead_sentence,
    proved_sentence,
    speaker,
)
from reticent.reporting.sections.strips import bounds_by_access, strips
from tests.reporting.sample_reports import bare_run, finding, full_run, guarantee, report


def answers(run, metric):
    question = question_of(metric)
    spoken = speaker(run, question)
    return lead_sentence(run, question, spoken), detail_sentence(spoken), proved_sentence(run, spoken)


def test_a_leak_is_told_with_unit_interval_n_and_adversary():
    found = finding("emitted_share", value=0.031, low=0.022, high=0.043, null=0.001, n=800, access=Access.TEXT)
    lead, detail, proved = answers(bare_run(findings=(found,)), "emitted_share")
    assert lead == "At least 2.2\u00a0% of the records would probably be emitted."
    assert "3.1\u00a0%, interval 2.2–4.3\u00a0%, n\u00a0=\u00a0800" in detail
    assert "an attacker who sees the model's answers" in detail
    assert proved.startswith("Proved: nothing.")


def test_nothing_found_is_never_called_nothing_there():
    run = bare_run(findings=(finding(low=0.4, value=0.5),))
    lead, _, _ = answers(run, "auc")
    assert lead == "Not distinguishable from chance: 0.5 (0.4–0.78)."
    assert "“None found” never means that nothing leaks." in sections(report(run))[0].lead
    assert answer_of(run, run.findings[0]) is Answer.NOT_FOUND


def test_a_void_finding_answers_nothing_and_says_why():
    run = bare_run(findings=(finding(void="words alone tell members apart"),))
    lead, detail, _ = answers(run, "auc")
    assert lead == "No conclusion is possible."
    assert detail == "Words alone tell members apart."
    assert answer_of(run, run.findings[0]) is Answer.OPEN


def test_a_refuted_guarantee_is_told_before_anything_else():
    strong, refuting = finding(low=0.69), finding("tpr_at_fpr_0.01", value=0.4, low=0.3, high=0.5, null=0.01)
    promise = guarantee()
    pairs = (Comparison(strong, promise, 0.75), Comparison(refuting, promise, 0.07))
    run = bare_run(findings=(strong, refuting), guarantee=promise, comparisons=pairs)
    assert speaker(run, question_of("auc")) == refuting
    assert answer_of(run, refuting) is Answer.REFUTED
    assert "does not hold as stated" in proved_sentence(run, refuting)


def test_consistent_is_never_confirmed_and_a_ceiling_is_rounded_up():
    run = full_run()
    said = proved_sentence(run, run.findings[0])
    assert "at most 0.75" in said
    assert "cannot confirm" in said


def test_of_several_attacks_the_highest_low_end_speaks_and_void_ones_do_not():
    weak, strong = finding(attack="weak", low=0.51, high=0.99), finding(attack="strong", low=0.6)
    void = finding(attack="void", low=0.7, void="too few")
    run = bare_run(findings=(void, weak, strong))
    assert speaker(run, question_of("auc")).attack == "strong"


def test_an_unknown_metric_has_a_question_of_its_own():
    run = bare_run(findings=(finding("odd_new_metric", null=None),))
    question = question_of("odd_new_metric")
    assert question.text == "What was measured as “odd new metric”?"
    assert asked([run]) == (question,)
    assert answer_of(run, run.findings[0]) is Answer.MEASURED
    assert lead_sentence(run, question, run.findings[0]) == "At least 0.62."


@pytest.mark.parametrize(
    ("metric", "key", "scale"),
    [
        ("tpr_at_fpr_0.001", "membership", Scale.SHARE),
        ("epsilon_lower_bound_at_delta_1e-05", "epsilon", Scale.EPSILON),
        ("pii_recall_beyond_base", "pii-extraction", Scale.SHARE),
        ("reconstruction_top1", "pii-reconstruction", Scale.SHARE),
        ("reconstruction_membership_auc", "pii-reconstruction", Scale.CHANCE),
        ("inference_accuracy_trained", "pii-inference", Scale.SHARE),
        ("extraction_precision_zlib", "generation", Scale.SHARE),
        ("novelty_gap_7", "novelty", Scale.SHARE),
        ("group_of_8_auc", "group-membership", Scale.CHANCE),
        ("largest_exposure", "exposure", Scale.BITS),
    ],
)
def test_metrics_find_their_question(metric, key, scale):
    assert question_of(metric).key == key
    assert scale_of(metric) is scale


def test_no_metric_belongs_to_two_questions():
    known = ("auc", "exposure", "emitted_share", "pii_recall", "reconstruction_top1", "inference_accuracy")
    for metric in known:
        assert sum(question.measured(metric) is not None for question in QUESTIONS) == 1


def test_a_metric_above_chance_speaks_before_the_leading_one_that_is_not():
    mean = finding("exposure", value=15.0, low=0.1, high=19.9, null=1.44)
    largest = finding("largest_exposure", value=19.9, low=19.9, high=19.9, null=9.0)
    run = bare_run(findings=(mean, largest))
    assert speaker(run, question_of("exposure")) == largest
    assert answer_of(run, largest) is Answer.FOUND
    assert speaker(bare_run(findings=(mean,)), question_of("exposure")) == mean


def test_epsilon_from_below_stands_beside_the_proved_one_for_every_level_of_access():
    metric, promise = "epsilon_lower_bound_at_delta_1e-05", guarantee(epsilon=4.0)
    loss, steps = (
        finding(metric, value=low, low=low, high=math.inf, null=0.0, access=access, attack=attack)
        for low, access, attack in ((1.1, Access.LOGPROBS, "coins"), (3.2, Access.STEPS, "gradient canaries"))
    )
    pairs = tuple(Comparison(one, promise, 4.0) for one in (loss, steps))
    run = bare_run(findings=(loss, steps), guarantee=promise, comparisons=pairs)
    (strip,) = strips([run], question_of(metric))
    assert [(mark.label, mark.low, mark.ceiling) for mark in strip.marks] == [
        ("log-probabilities", 1.1, 4.0),
        ("every step", 3.2, 4.0),
    ]
    assert strip.end == 4.0
    rows = [[one.text for one in row[1:]] for row in bounds_by_access([run], question_of(metric)).rows]
    assert rows == [
        ["text", "no bound", "–", "–"],
        ["log-probabilities", "1.1", "4", "coins"],
        ["weights", "1.1", "4", "coins"],  # whoever has the weights sees log-probabilities too
        ["every step", "3.2", "4", "gradient canaries"],
    ]
    assert bounds_by_access([full_run()], question_of("auc")) is None
