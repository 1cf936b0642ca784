"""Run directories: complete, resumable, never overwritten."""

import pytest

from reticent.core.document import read_document, write_document
from reticent.core.errors import ConfigError
from reticent.runs.directory import RunDirectory


def test_a_run_leaves_its_record(tmp_path):
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={"a": 1}, seed=3, corpora={"train": "abc"})
    information = RunDirectory.open(tmp_path / "run").information()
    assert information["corpora"] == {"train": "abc"}
    assert information["versions"]["numpy"]
    assert information["finished"] is None
    run.finish(perplexity=3.5)
    assert (tmp_path / "run" / "run.json").stat().st_mode & 0o077 == 0
    assert run.information()["results"] == {"perplexity": 3.5}
    assert run.information()["finished"] >= information["started"]


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigError, match="not an empty directory"):
        RunDirectory.for_new_run(tmp_path)
    with pytest.raises(ConfigError, match="not an empty directory"):
        RunDirectory.for_new_run(tmp_path / "mine.txt")
    with pytest.raises(ConfigError, match="not a run directory"):
        RunDirectory.open(tmp_path)


def test_unknown_schema_version_is_refused(tmp_path):
    run = RunDirectory.for_new_run(tmp_path / "run")
    run.start("train", config={}, seed=None, corpora={})
    path = tmp_path / "run" / "run.json"
    write_document(path, read_document(path) | {"schema_version": 99})
    with pytest.raises(ConfigError, match="schema version"):
        run.information()
