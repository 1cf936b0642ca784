"""The gate: a tiny strict grammar, the low end of the interval, and no passed gate for want of a measurement."""

import dataclasses

import pytest

from reticent.app.gate import Limit, asked_rates, check_gate, check_known, parse_limit
from reticent.core.errors import ConfigError
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Access


def finding(low: float, value: float, high: float, *, metric: str = "tpr_at_fpr_0.01", void: str = "") -> Finding:
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


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tpr_at_fpr_0.01>0.05", Limit("tpr_at_fpr_0.01", ">", 0.05)),
        (" auc >= 0.6 ", Limit("auc", ">=", 0.6)),
        ("epsilon_lower_bound_at_delta_1e-05>2", Limit("epsilon_lower_bound_at_delta_1e-05", ">", 2.0)),
        ("novelty_gap_5<-1e-3", Limit("novelty_gap_5", "<", -1e-3)),
        ("auc<=.5", Limit("auc", "<=", 0.5)),
    ],
)
def test_a_limit_is_metric_comparison_number(expression, expected):
    assert parse_limit(expression) == expected
    assert parse_limit(str(expected)) == expected


@pytest.mark.parametrize(
    "expression",
    [
        *("", "auc", "auc>", ">0.5", "auc=0.5", "auc==0.5", "auc>>0.5", "0.5<auc", "auc>0.5 or 1>0", "auc>0.5>0.4"),
        *("auc>nan", "auc>inf", "auc>1_0", "auc>0x1", "auc>__import__('os')", "auc>1e999", "auc>0.5;auc>0.6"),
    ],
)
def test_anything_else_is_refused(expression):
    with pytest.raises(ConfigError):
        parse_limit(expression)


def test_a_limit_is_passed_by_the_low_end_and_not_by_the_value():
    limit = parse_limit("tpr_at_fpr_0.01>0.05")
    assert not limit.is_passed_by(finding(0.01, 0.2, 0.6))
    assert limit.is_passed_by(finding(0.06, 0.2, 0.6))
    assert not limit.is_passed_by(finding(0.05, 0.2, 0.6))
    assert parse_limit("tpr_at_fpr_0.01>=0.05").is_passed_by(finding(0.05, 0.2, 0.6))


def test_a_value_that_passes_without_its_interval_is_undecided():
    unsure, void = finding(0.01, 0.2, 0.6), finding(0.01, 0.2, 0.6, void="no")
    (result,) = check_gate([parse_limit("tpr_at_fpr_0.01>0.05")], [unsure, void, finding(0.0, 0.04, 0.1)])
    assert not result.is_passed
    assert result.undecided == (unsure,)
    (passed,) = check_gate([parse_limit("tpr_at_fpr_0.01>0.05")], [finding(0.06, 0.2, 0.6)])
    assert passed.undecided == ()


def test_a_lower_limit_looks_at_the_high_end():
    limit = parse_limit("tpr_at_fpr_0.01<0.5")
    assert limit.end == "high"
    assert not limit.is_passed_by(finding(0.1, 0.2, 0.6))
    assert limit.is_passed_by(finding(0.1, 0.2, 0.4))


def test_any_of_several_attacks_may_pass_a_limit():
    weak, strong = finding(0.0, 0.0, 0.1), dataclasses.replace(finding(0.3, 0.4, 0.5), attack="wbc")
    (result,) = check_gate([parse_limit("tpr_at_fpr_0.01>0.05")], [weak, strong])
    assert result.is_passed
    assert [one.attack for one in result.passed_by] == ["wbc"]
    assert result.to_json() == {
        "limit": "tpr_at_fpr_0.01>0.05",
        "end": "low",
        "passed": True,
        "by": [{"attack": "wbc", "low": 0.3}],
        "undecided": [],
    }


def test_an_unknown_metric_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"tpr_at_fpr_0\.02.*auc, tpr_at_fpr_0\.01"):
        check_known([parse_limit("tpr_at_fpr_0.02>0.05")], ["tpr_at_fpr_0.01", "auc"])
    with pytest.raises(ConfigError):
        check_gate([parse_limit("auc>0.5")], [finding(0.0, 0.1, 0.2)])


def test_a_gate_on_void_measurements_is_an_error_and_never_open():
    void = finding(0.9, 0.95, 1.0, void="too few non-members")
    assert not parse_limit("tpr_at_fpr_0.01>0.05").is_passed_by(void)
    with pytest.raises(ConfigError, match="void"):
        check_gate([parse_limit("tpr_at_fpr_0.01>0.05")], [void])
    with pytest.raises(ConfigError):
        check_gate([parse_limit("tpr_at_fpr_0.01>0.05")], [])


def test_rates_that_limits_name_are_measured():
    limits = [parse_limit(text) for text in ("tpr_at_fpr_0.05>0.1", "auc>0.5", "tpr_at_fpr_0.010>0.1")]
    assert asked_rates(limits) == (0.05,)  # 0.010 would be measured as 0.01: unknown, and said so
