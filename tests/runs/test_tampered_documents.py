"""Run documents that somebody edited: one line that names the file, exit code 2, never a traceback."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reticent.cli.main import run as command_line
from reticent.core.document import read_document, write_document
from reticent.core.errors import UsageError
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs.certificates import proved_of, read_certificate
from reticent.runs.report.reading import read_report
from reticent.runs.schemas import SCHEMAS, json_schema, require_valid
from scripts.write_schemas import FOLDER, schema_files
from tests.reporting.sample_reports import finding, guarantee

BAD = [float("nan"), float("inf"), -5, 0, 10**400, -(10**400), "word", None, [], {}, [[]], True, 1e308, "inf", ""]


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An audit's directory."""
    run = RunDirectory.for_new_run(tmp_path_factory.mktemp("tampered") / "run")
    run.start("audit", config={"model": "m"}, seed=0, corpora={"training": "0123abcd"})
    plan = {"attack": "loss", "needs": "logprobs", "n": 3, "seconds": 0.5, "skipped": None}
    document = {
        "schema_version": 1,
        "model": {"name": "m", "fingerprint": "f"},
        "base": None,
        "confidence": 0.95,
        "notes": ["a note"],
        "attacks": [plan],
        "findings": [finding().to_json()],
        "guarantee": None,
        "comparisons": [{"finding": 0, "ceiling": 0.9, "greatest": 1.0, "reason": ""}],
        "gate": [],
    }
    write_document(run.path / "findings.json", document)
    run.finish(findings=1)
    return run.path


def places(document, above=()):
    """Every place in a JSON document."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in entries:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def edited(document, place, value):
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def is_refused(read):
    """Whether reading ends in one line; any other error passes through and fails the test."""
    try:
        read()
    except UsageError as error:
        return "\n" not in str(error)
    return False


@pytest.mark.parametrize("name", ["findings.json", "run.json"])
def test_any_value_at_any_place_is_read_or_refused_in_one_line(audited, name):
    original = (audited / name).read_text()
    document = json.loads(original)
    refused = 0
    try:
        for place in places(document):
            for value in BAD:
                (audited / name).write_text(json.dumps(edited(document, place, value)))
                refused += is_refused(lambda: read_report([audited]))
    finally:
        (audited / name).write_text(original)
    assert refused > 100
    assert len(read_report([audited]).runs) == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("findings", 0, "value"), float("nan")),
        (("findings", 0, "n"), -5),
        (("findings", 0, "n"), 10**400),
        (("findings", 0, "high"), 10**400),
        (("findings", 0, "unit"), 3),
        (("findings",), "none"),
        (("comparisons", 0, "finding"), 7),
        (("attacks", 0, "n"), "many"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_the_command_line_says_one_line_and_exits_by_two(audited, tmp_path, capsys, place, value):
    original = (audited / "findings.json").read_text()
    try:
        (audited / "findings.json").write_text(json.dumps(edited(json.loads(original), place, value)))
        assert command_line(["report", str(audited), "--out", str(tmp_path / "out.html")]) == 2
    finally:
        (audited / "findings.json").write_text(original)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "findings.json" in said


def test_a_fingerprint_that_is_a_number_is_refused_in_one_line(audited, tmp_path, capsys):
    original = (audited / "findings.json").read_text()
    try:
        place = ("model", "fingerprint")
        (audited / "findings.json").write_text(json.dumps(edited(json.loads(original), place, 10**400)))
        assert command_line(["report", str(audited), "--out", str(tmp_path / "out.html")]) == 2
    finally:
        (audited / "findings.json").write_text(original)
    assert "findings.json: model.fingerprint is not what it should be" in capsys.readouterr().err


def test_any_value_at_any_place_of_a_guarantee_is_read_or_refused(tmp_path):
    document = guarantee(profile=((1.0, 1e-3),), renyi=((2.0, 0.5),)).to_json()
    for place in places(document):
        for value in BAD:
            (tmp_path / "guarantee.json").write_text(json.dumps(edited(document, place, value)))
            for read in (read_certificate, proved_of):
                is_refused(lambda read=read: read(tmp_path))


texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", list(SCHEMAS))
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(document=st.dictionaries(st.text(max_size=8), texts, max_size=4))
def test_nonsense_is_refused_by_every_schema(name, document):
    with pytest.raises(UsageError):
        require_valid(document | {"schema_version": 2}, name, where=name)


def test_what_is_written_is_valid_by_the_published_schemas(audited):
    jsonschema = pytest.importorskip("jsonschema")
    for name in ("run.json", "findings.json"):
        jsonschema.validate(read_document(audited / name), json_schema(name))
    jsonschema.validate(guarantee().to_json(), json_schema("guarantee.json"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(guarantee().to_json() | {"delta": 2.0}, json_schema("guarantee.json"))


def test_the_published_schemas_are_those_of_the_code():
    assert {path.name: path.read_text(encoding="utf8") for path in FOLDER.glob("*.json")} == schema_files()
