"""What other programs read of a report: JUnit, SARIF, a model card and an annex, each read by its own parser."""

import json
from dataclasses import replace
from pathlib import Path

import junitparser
import pytest
import yaml
from huggingface_hub import ModelCard

from reticent.core.finding import Comparison
from reticent.core.metric import QUESTIONS
from reticent.reporting.checks import Rule, checks
from reticent.reporting.formats.annex import OPINION, render_annex
from reticent.reporting.formats.junit import render_junit
from reticent.reporting.formats.model_card import render_model_card
from reticent.reporting.formats.sarif import render_sarif
from reticent.reporting.report import GateLine, Report, RunReport
from tests.reporting.sample_reports import bare_run, finding, full_run, guarantee

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text(encoding="utf8"))


def limit(said="auc<=0.6", *, option="--require", outcome="exceeded", fails=True, by=("loss",)) -> GateLine:
    return GateLine(option=option, limit=said, end="high", outcome=outcome, fails=fails, by=by)


def gated(**changes) -> RunReport:
    """A run with one limit that fails and one that holds, and a guarantee that no finding refutes."""
    lines = (limit(), limit("auc>0.9", option="--fail-if", outcome="within", fails=False))
    return replace(full_run("audit-a"), gate=lines, **changes)


def report(*runs: RunReport) -> Report:
    return Report(runs, "2024-01-01T00:00+00:00", "1.2.3")


def refuted() -> RunReport:
    measured = finding(low=0.8, value=0.85, high=0.9)
    promise = guarantee()
    return bare_run(
        "refuted", findings=(measured,), comparisons=(Comparison(measured, promise, 0.75, 1.0),), guarantee=promise
    )


def parsed(text: str) -> junitparser.JUnitXml:
    return junitparser.JUnitXml.fromstring(text.encode("utf8"))


def test_junit_has_a_suite_a_run_and_a_failure_for_every_check_that_fails():
    suites = parsed(render_junit(report(gated(), refuted())))
    assert (suites.tests, suites.failures) == (4, 2)
    failed = {case.name: case.result[0].message for suite in suites for case in suite if case.result}
    assert set(failed) == {"--require auc<=0.6", "the guarantee is not refuted"}
    assert "62" not in failed["the guarantee is not refuted"]
    assert failed["--require auc<=0.6"] == "--require auc<=0.6: exceeded (loss 0.62–0.78)."
    assert "at least 0.8 where at most 0.75" in failed["the guarantee is not refuted"]


def test_a_metric_whose_name_begins_another_does_not_lend_it_its_interval():
    run = bare_run(findings=(finding("auc"), finding("auc_of_more", low=0.1)), gate=(limit("auc_of_more>0.2"),))
    assert "0.1–" in checks(run)[0].said
    assert "0.62" not in checks(run)[0].said


def test_names_from_outside_cannot_break_the_xml():
    name = 'a"<b>&\x00\x1b]]>'
    suites = parsed(render_junit(report(replace(gated(), name=name))))
    assert next(iter(suites)).name.startswith('a"<b>&')


def test_sarif_is_valid_by_the_published_schema_and_says_what_fails():
    document = json.loads(render_sarif(report(gated(), refuted(), bare_run("third"))))
    jsonschema.validate(document, SCHEMA)
    first, second, third = (run["results"] for run in document["runs"])
    told = [(one["ruleId"], one["level"], one["kind"]) for one in first]
    assert told[:3] == [
        ("requirement", "error", "fail"),
        ("alarm", "none", "pass"),
        ("guarantee", "none", "pass"),
    ]
    assert {one[:2] for one in told[3:]} == {("leak", "warning")}
    assert [(one["ruleId"], one["level"]) for one in second] == [("guarantee", "error")]
    assert third == []
    rules = document["runs"][0]["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in first)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"version": "2"}, SCHEMA)


def test_a_result_keeps_its_fingerprint_when_only_numbers_change():
    def fingerprints(run: RunReport) -> list[str]:
        results = json.loads(render_sarif(report(run)))["runs"][0]["results"]
        return [one["partialFingerprints"]["reticent/v1"] for one in results]

    later = replace(gated(), gate=(limit(outcome="undecided"), *gated().gate[1:]))
    assert fingerprints(gated()) == fingerprints(later)
    assert len(set(fingerprints(gated()))) == len(fingerprints(gated()))


def test_the_metadata_of_a_model_card_is_read_by_the_hub_and_by_yaml_as_numbers():
    text = render_model_card(report(gated()))
    metadata = yaml.safe_load(text.split("---\n")[1])
    metrics = {one["type"]: one for one in metadata["model-index"][0]["results"][0]["metrics"]}
    assert metrics["auc"]["value"] == 0.7
    assert metrics["auc"]["args"] == {
        "low": 0.62,
        "high": 0.78,
        "n": 300,
        "without_leakage": 0.5,
        "proved_at_most": 0.75,
    }
    assert metrics["epsilon"]["args"]["delta"] == 1e-5  # a plain 1e-05 would be text in YAML 1.1
    results = ModelCard(text).data.eval_results
    assert {one.metric_type for one in results} == set(metrics)
    assert "differential-privacy" in metadata["tags"]
    assert "No finding proves that nothing leaks." in text


def test_a_model_card_keeps_a_promise_that_depends_on_the_data_to_itself():
    promise = guarantee(epsilon=1.2345, data_dependent=True)
    text = render_model_card(report(replace(gated(), guarantee=promise)))
    assert "1.234" not in text
    assert "epsilon" not in text
    assert "not published" in text


def test_a_model_card_of_a_run_that_measured_nothing_says_so():
    text = render_model_card(report(bare_run()))
    assert yaml.safe_load(text.split("---\n")[1]) == {"tags": ["privacy-audit"]}
    assert "was not measured" in text
    assert "Proved: nothing." in text


def test_every_question_has_a_place_in_the_annex():
    placed = {key for keys in OPINION.values() for key in keys}
    assert placed == {question.key for question in QUESTIONS}


def test_the_annex_states_what_was_measured_proved_and_not_measured():
    text = render_annex(report(gated()))
    rows = dict(line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| "))
    assert "leak found" in rows["C11.2.5 Membership inference does not exceed guessing"].lower()
    assert rows["Testing against attacks: attribute inference"] == "Not measured."
    assert "ε ≤ 2" in rows["C11.2.4 Training on sensitive data is differentially private"]
    assert "exceeded" in rows["C11.1.2 A test suite is run on every update or release"]
    assert "no legal advice" in text


def test_every_rule_of_a_check_is_declared():
    assert {one.rule for one in checks(gated())} <= set(Rule)
