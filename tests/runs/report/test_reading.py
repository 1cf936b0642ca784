"""Run directories made by hand: an update whose phrases were revealed, and documents of another version."""

import pytest

from reticent.core.document import write_document
from reticent.core.errors import ConfigError
from reticent.reporting.formats.page import render_page
from reticent.runs.directory import RunDirectory
from reticent.runs.report.reading import read_report
from tests.reporting.sample_reports import finding

PHRASE = "the vault opens with marigold"


@pytest.fixture
def update(tmp_path):
    """A run of `reticent diff --reveal`, whose documents hold a phrase."""
    run = RunDirectory.for_new_run(tmp_path / "update")
    run.start("diff", config={"snapshots": ["a", "b"]}, seed=0, corpora={"update": "0123abcd"})
    phrase = {"number": 0, "bits": 31.5, "differential_score": 4.2, "above_null": True, "records": ["new-7"]}
    exposed = finding("exposed_records", value=0.3, low=0.1, high=0.5, null=0.0)
    document = {
        "schema_version": 1,
        "findings": [exposed.to_json()],
        "updates": [{"before": "a", "after": "b", "phrases": [phrase | {"text": PHRASE, "tokens": [1, 2]}]}],
    }
    write_document(run.path / "findings.json", document)
    run.finish(findings=1)
    return run.path


def test_an_update_is_told_by_numbers_and_ids_even_where_its_run_revealed_text(update):
    made = read_report([update])
    (phrase,) = made.runs[0].update
    assert (phrase.bits, phrase.is_above_null, phrase.records) == (31.5, True, ("new-7",))
    page = render_page(made)
    assert "new-7" in page
    assert "At least 10\u00a0% of the added records contain a phrase that was found." in page
    assert "a → b" in page
    assert PHRASE not in page
    assert "0123abcd" not in page


def test_a_document_of_another_version_is_refused(update):
    write_document(update / "findings.json", {"schema_version": 99})
    with pytest.raises(ConfigError, match="unknown schema version"):
        read_report([update])
