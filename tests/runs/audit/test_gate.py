"""The gate: a tiny strict grammar, whole intervals, and no met requirement for want of a measurement."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import ConfigError
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Access
from reticent.runs.audit.gate import (
    GateResult,
    Limit,
    LimitKind,
    Outcome,
    asked_rates,
    check_gate,
    check_known,
    parse_limit,
)
from reticent.runs.settings.gate import GateOptions


def finding(low: float, value: float, high: float, *, metric: str = "auc", void: str = "") -> Finding:
    return Finding(
        attack="loss",
        metric=metric,
        value=value,
        low=low,
        high=high,
        confidence=0.95,
        n=10,
        measure="a share",
        unit=Unit.RECORD,
        access=Access.LOGPROBS,
        void=void,
    )


def required(expression: str, *findings: Finding, missing: str = "") -> GateResult:
    (result,) = check_gate([parse_limit(expression, LimitKind.REQUIRE)], findings, missing=missing)
    return result


def alarm(expression: str, *findings: Finding) -> GateResult:
    (result,) = check_gate([parse_limit(expression)], findings)
    return result


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tpr_at_fpr_0.01>0.05", Limit("tpr_at_fpr_0.01", ">", 0.05)),
        (" auc >= 0.6 ", Limit("auc", ">=", 0.6)),
        ("epsilon_lower_bound_at_delta_1e-05>2", Limit("epsilon_lower_bound_at_delta_1e-05", ">", 2.0)),
        ("novelty_gap_5<-1e-3", Limit("novelty_gap_5", "<", -1e-3, LimitKind.REQUIRE)),
        ("auc<=.5", Limit("auc", "<=", 0.5, LimitKind.REQUIRE)),
    ],
)
def test_a_limit_is_metric_comparison_number(expression, expected):
    assert parse_limit(expression, expected.kind) == expected
    assert parse_limit(str(expected), expected.kind) == expected


@pytest.mark.parametrize(
    ("kind", "expression", "why", "advice"),
    [
        (LimitKind.REQUIRE, "auc>0.6", "met by a model that leaks", '--require "auc<=0.6", or --fail-if "auc>0.6"'),
        (LimitKind.REQUIRE, "exposure>=3", "met by a model that leaks", '--require "exposure<3"'),
        (LimitKind.FAIL_IF, "auc<=0.6", "spare a model that leaks", '--fail-if "auc>0.6", or --require "auc<=0.6"'),
        (LimitKind.FAIL_IF, "nobody_declared<1", "spare a model that leaks", '--fail-if "nobody_declared>=1"'),
    ],
)
def test_a_limit_in_the_wrong_direction_is_refused_with_the_one_that_was_meant(kind, expression, why, advice):
    """`--require "auc>0.6"` was accepted, and met exactly by models that leak."""
    with pytest.raises(ConfigError, match=why) as refused:
        parse_limit(expression, kind)
    assert advice in (refused.value.hint or "")


@pytest.mark.parametrize(("kind", "sign"), [(LimitKind.REQUIRE, "<="), (LimitKind.FAIL_IF, ">")])
def test_a_limit_above_all_values_of_its_metric_is_refused_since_it_can_never_fail(kind, sign):
    """60 is how one writes 60 % by mistake."""
    with pytest.raises(ConfigError, match="can never fail: auc is at most 1") as refused:
        parse_limit(f"auc{sign}60", kind)
    assert refused.value.hint == f'60 % is 0.6, as in "auc{sign}0.6"'
    for possible in (
        f"auc{sign}1",
        f"exposure{sign}60",
        f"epsilon_lower_bound{sign}60",
        f"nobody_declared{sign}60",
    ):
        assert str(parse_limit(possible, kind)) == possible


@pytest.mark.parametrize(
    "expression",
    [
        *("", "auc", "auc>", ">0.5", "auc=0.5", "auc==0.5", "auc>>0.5", "0.5<auc", "auc>0.5 or 1>0", "auc>0.5>0.4"),
        *("auc>nan", "auc>inf", "auc>1_0", "auc>0x1", "auc>__import__('os')", "auc>1e999", "auc>0.5;auc>0.6"),
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_option(expression):
    for kind in LimitKind:
        with pytest.raises(ConfigError, match=f"{kind.value} takes|not a finite number"):
            parse_limit(expression, kind)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.0, 0.977, Outcome.UNDECIDED),  # passed `--fail-if "auc>0.6"` with exit code 0
        (0.4, 0.6, Outcome.WITHIN),  # the bound itself is within <=
        (0.4, 0.61, Outcome.UNDECIDED),
        (0.61, 0.9, Outcome.EXCEEDED),
        (0.6, 0.9, Outcome.UNDECIDED),
    ],
)
def test_a_requirement_fails_unless_the_high_end_lies_within(low, high, outcome):
    result = required("auc<=0.6", finding(low, 0.5 * (low + high), high))
    assert result.outcome is outcome
    assert result.fails is (outcome is not Outcome.WITHIN)
    assert result.limit.end == "high"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.0, 0.977, Outcome.UNDECIDED),
        (0.4, 0.6, Outcome.WITHIN),
        (0.61, 0.9, Outcome.EXCEEDED),
        (0.6, 0.9, Outcome.UNDECIDED),
    ],
)
def test_an_alarm_is_raised_only_when_the_low_end_lies_beyond(low, high, outcome):
    result = alarm("auc>0.6", finding(low, 0.5 * (low + high), high))
    assert result.outcome is outcome
    assert result.fails is (outcome is Outcome.EXCEEDED)
    assert result.limit.end == "low"


UNIT = st.floats(0.0, 1.0)


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=4), UNIT)
def test_both_options_agree_where_the_interval_lies_and_a_requirement_is_never_laxer(ends, number):
    """The same limit said in both ways has one outcome; whatever raises the alarm fails the requirement too."""
    findings = [finding(min(pair), 0.5 * sum(pair), max(pair)) for pair in ends]
    must, must_not = required(f"auc<={number!r}", *findings), alarm(f"auc>{number!r}", *findings)
    assert must.outcome is must_not.outcome
    assert must.fails >= must_not.fails
    # The oracle: every point of every interval.
    is_within = all(max(pair) <= number for pair in ends)
    assert must.fails is not is_within


def test_broken_twin_a_gate_by_the_value_alone_lets_a_wide_interval_through():
    """What a gate on point values would say of 0 … 0.977: within. The real one does not."""
    wide = finding(0.0, 0.5, 0.977)
    assert wide.value <= 0.6
    assert required("auc<=0.6", wide).fails


def test_of_several_attacks_the_worst_speaks():
    weak, strong = finding(0.0, 0.1, 0.2), dataclasses.replace(finding(0.7, 0.8, 0.9), attack="wbc")
    unsure = dataclasses.replace(finding(0.5, 0.6, 0.7), attack="zlib")
    result = required("auc<=0.6", weak, unsure, strong)
    assert result.outcome is Outcome.EXCEEDED
    assert result.to_json() == {
        "option": "--require",
        "limit": "auc<=0.6",
        "end": "high",
        "outcome": "exceeded",
        "fails": True,
        "by": [{"attack": "wbc", "low": 0.7, "high": 0.9}],
        "void": [],
        "reason": "",
    }
    assert required("auc<=0.6", weak, unsure).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("result", "said", "unsaid"),
    [
        (
            required("auc<=0.6", finding(0.0, 0.5, 0.977)),
            "--require auc<=0.6: UNDECIDED (loss 0–0.977).",
            "EXCEED",
        ),
        (
            required("auc<=0.6", finding(0.4, 0.5, 0.55)),
            "--require auc<=0.6: within (loss 0.4–0.55).",
            "More targets",
        ),
        (required("auc<=0.6", finding(0.7, 0.8, 0.9)), "--require auc<=0.6: EXCEEDED (loss 0.7–0.9).", "within"),
        (alarm("auc>0.6", finding(0.7, 0.8, 0.9)), "--fail-if auc>0.6: EXCEEDED (loss 0.7–0.9).", "--require"),
        (alarm("auc>0.6", finding(0.0, 0.5, 0.977)), "the exit code stays 0; --require fails here", "EXCEEDED"),
        (
            required("auc<=0.6", missing="membership was skipped: no time"),
            "NOT MEASURED: membership was skipped",
            "–",
        ),
        (required("auc<=0.6"), "NOT MEASURED: no attack measured it. A metric that was not", "void"),
        (
            required("auc<=0.6", finding(0, 0.1, 1, void="too few")),
            "every measurement is void: too few",
            "no attack",
        ),
        (
            required("auc<=0.6", finding(0, 0.1, 0.2), finding(0, 0.1, 1, void="few")),
            "1 void measurement was",
            "are",
        ),
    ],
)
def test_the_sentence_says_exceeded_within_undecided_or_not_measured_and_never_passed(result, said, unsaid):
    assert said in result.sentence()
    assert unsaid not in result.sentence().partition(": ")[2]
    assert "pass" not in result.sentence().lower()


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones():
    for kind in LimitKind:
        limit = parse_limit(f"tpr_at_fpr_0.02{kind.comparisons[0]}0.05", kind)
        with pytest.raises(ConfigError, match=rf"{kind.value} names .*tpr_at_fpr_0\.02.*auc, tpr_at_fpr_0\.01"):
            check_known([limit], ["tpr_at_fpr_0.01", "auc"])
    with pytest.raises(ConfigError):
        alarm("tpr_at_fpr_0.1>0.5", finding(0.0, 0.1, 0.2))


def test_what_was_not_measured_meets_no_requirement_and_leaves_no_alarm_untested():
    void = finding(0.9, 0.95, 1.0, void="too few non-members")
    assert required("auc<=1", void).fails
    assert required("auc<=1", void).outcome is Outcome.NOT_MEASURED
    assert required("auc<=1").fails
    with pytest.raises(ConfigError, match="void"):
        alarm("auc>0.05", void)
    with pytest.raises(ConfigError):
        alarm("auc>0.05")


def test_requirements_come_before_alarms():
    limits = GateOptions.of(require=("auc<=0.6",), fail_if=("exposure>3",)).limits()
    assert [(str(limit), limit.kind) for limit in limits] == [
        ("auc<=0.6", LimitKind.REQUIRE),
        ("exposure>3", LimitKind.FAIL_IF),
    ]
    assert GateOptions.of().limits() == []


def test_rates_that_limits_name_are_measured():
    limits = [parse_limit(text) for text in ("tpr_at_fpr_0.05>0.1", "auc>0.5", "tpr_at_fpr_0.010>0.1")]
    assert asked_rates(limits) == (0.05,)  # 0.010 would be measured as 0.01: unknown, and said so
