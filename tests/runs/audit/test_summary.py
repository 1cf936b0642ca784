"""What an audit says of itself in Python: in a line, and in a notebook."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from reticent.auditing.settings import AttackSettings
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.model import Access
from reticent.runs.audit.audit import AuditResult


def finding(*, void=""):
    return Finding(
        attack="loss",
        metric="auc",
        value=0.6775,
        low=0.41871,
        high=0.8596,
        confidence=0.99,
        n=40,
        measure="",
        unit=Unit.RECORD,
        access=Access.LOGPROBS,
        null=0.5,
        void=void,
    )


@pytest.fixture
def result():
    usable = finding()
    audit = SimpleNamespace(
        findings=(usable, finding(void="too few")), comparisons=(SimpleNamespace(finding=usable, ceiling=0.80321),)
    )
    return AuditResult(audit, (), None, AttackSettings(confidence=0.95), Path("runs"))


def test_a_summary_rounds_intervals_outward_and_what_is_proved_upward(result):
    assert result.summary() == "auc (loss): 0.678 (0.418–0.86), n = 40, proved at most 0.804"


def test_a_notebook_says_how_sure_intervals_are_and_what_is_left_out(result):
    page = result._repr_html_()
    assert "All intervals hold together at 95\u00a0% confidence. 1 void finding left out." in page
    assert "<th>proved at most</th>" in page
    assert page.count("<td>loss</td>") == 1
