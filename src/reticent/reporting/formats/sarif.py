"""The gate and the leaks behind it as SARIF 2.1.0, which code hosts show beside other security results.

    check that fails             level error,   kind fail      a limit or the guarantee
    check that holds             level none,    kind pass
    question that found a leak   level warning, kind fail      one result a question, the finding that speaks for it

Every result points to findings.json of its run, and has a fingerprint of what was checked, so that a host knows it
again in the next build. Reference: OASIS SARIF 2.1.0 (errata 01).
"""

import hashlib
import json
from typing import Any, Final
from urllib.parse import quote

from reticent.core.printing.safe_text import for_json
from reticent.reporting.checks import Rule, checks
from reticent.reporting.questions import Answer, answer_of, asked, detail_sentence, lead_sentence, speaker
from reticent.reporting.report import Report, RunReport

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES: Final = {
    Rule.REQUIREMENT: "The whole interval of a metric must lie within the limit (--require).",
    Rule.ALARM: "The whole interval of a metric must not lie beyond the limit (--fail-if).",
    Rule.GUARANTEE: "No finding may exceed what the guarantee of the run allows.",
    Rule.LEAK: "An attack found more than is expected without leakage.",
}


def render_sarif(report: Report) -> str:
    """The document as one string."""
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(report)},
                "automationDetails": {"id": f"reticent/{run.name}/"},
                "results": [*_checked(run), *_leaks(run)],
            }
            for run in report.runs
        ],
    }
    return for_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def _driver(report: Report) -> dict[str, Any]:
    rules = [
        {"id": rule.value, "shortDescription": {"text": said}, "properties": {"tags": ["privacy", "security"]}}
        for rule, said in _RULES.items()
    ]
    return {"name": "reticent", "version": report.version, "rules": rules}


def _checked(run: RunReport) -> list[dict[str, Any]]:
    return [
        _result(run, one.rule, name=one.name, level="error" if one.fails else "none", said=one.said)
        for one in checks(run)
    ]


def _leaks(run: RunReport) -> list[dict[str, Any]]:
    """The question, its answer and the numbers behind it, for every question that found a leak."""
    found = []
    for question in asked([run]):
        finding = speaker(run, question)
        if answer_of(run, finding) is Answer.FOUND:
            said = f"{question.text} {lead_sentence(run, question, finding)} {detail_sentence(finding)}"
            found.append(_result(run, Rule.LEAK, name=question.key, level="warning", said=said))
    return found


def _result(run: RunReport, rule: Rule, *, name: str, level: str, said: str) -> dict[str, Any]:
    known_again = hashlib.sha256("\n".join((run.name, rule.value, name)).encode("utf8")).hexdigest()
    place = quote(f"{run.origin.folder or run.name}/findings.json")
    return {
        "ruleId": rule.value,
        "ruleIndex": list(_RULES).index(rule),
        "kind": "pass" if level == "none" else "fail",
        "level": level,
        "message": {"text": said},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": place}}}],
        "partialFingerprints": {"reticent/v1": known_again},
    }
