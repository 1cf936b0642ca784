"""`make audit`: every pinned version is looked up, and only an unreachable database is passed over."""

import subprocess

import pytest

from scripts import audit_dependencies
from scripts.audit_dependencies import judged, looked_up, pins, rounds

CLEAN = {"name": "a", "version": "1", "vulns": []}
FLAWED = {"name": "b", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found"}


def test_no_list_names_a_package_twice_and_all_lists_hold_every_pin():
    lists = rounds(pins())
    assert sorted(pin for one in lists for pin in one) == sorted(pins())
    for one in lists:
        names = [pin.partition("==")[0] for pin in one]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ([CLEAN], 0, "no known vulnerability in 1 "),
        ([CLEAN, FLAWED], 1, "b 1: CVE-1, fixed in 2"),
        ([CLEAN, UNKNOWN], 1, "c: not looked up"),
        ([FLAWED, UNKNOWN], 1, "CVE-1"),
        ([UNKNOWN], 0, "skipped"),
    ],
)
def test_a_flaw_or_a_gap_fails_and_an_empty_database_is_said(answers, code, said):
    got, text = judged(answers)
    assert got == code
    assert said in text


def test_only_a_failed_connection_is_taken_for_an_unreachable_database(monkeypatch):
    def failing(error: str) -> None:
        answer = subprocess.CompletedProcess([], 1, stdout="", stderr=error)
        monkeypatch.setattr(audit_dependencies.subprocess, "run", lambda *_, **__: answer)

    failing("Traceback\nrequests.exceptions.ProxyError: Max retries exceeded")
    assert looked_up(["a==1"]) is None
    failing("ERROR:pip_audit._cli:package a has duplicate requirements: a==1")
    with pytest.raises(RuntimeError, match="duplicate"):
        looked_up(["a==1", "a==1"])
