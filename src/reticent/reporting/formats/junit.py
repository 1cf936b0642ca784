"""The gate as JUnit XML, which build servers show as tests: a suite for each run, a case for each check.

A check that fails is a `failure`; JUnit's `error` and `skipped` are never used, since a gate always decides.
"""

import xml.etree.ElementTree as Xml

from reticent.core.printing.safe_text import on_one_line
from reticent.reporting.checks import Check, checks
from reticent.reporting.report import Report, RunReport


def render_junit(report: Report) -> str:
    """The document as one string."""
    root = Xml.Element("testsuites", name="reticent")
    for run in report.runs:
        root.append(_suite(run))
    counts = [(len(checks(run)), sum(one.fails for one in checks(run))) for run in report.runs]
    root.set("tests", str(sum(tests for tests, _ in counts)))
    root.set("failures", str(sum(failures for _, failures in counts)))
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def _suite(run: RunReport) -> Xml.Element:
    decided = checks(run)
    suite = Xml.Element(
        "testsuite",
        name=on_one_line(run.name),
        tests=str(len(decided)),
        failures=str(sum(one.fails for one in decided)),
        errors="0",
        skipped="0",
        timestamp=run.origin.started[:19],  # JUnit's schema knows no time zone; ours is UTC
    )
    for one in decided:
        suite.append(_case(run, one))
    return suite


def _case(run: RunReport, one: Check) -> Xml.Element:
    case = Xml.Element("testcase", classname=on_one_line(f"reticent.{run.name}"), name=on_one_line(one.name))
    if one.fails:
        Xml.SubElement(case, "failure", type=one.rule.value, message=on_one_line(one.said)).text = on_one_line(
            one.said
        )
    else:
        Xml.SubElement(case, "system-out").text = on_one_line(one.said)
    return case
