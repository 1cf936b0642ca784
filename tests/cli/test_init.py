"""`reticent init`: every file it writes is read back by the verb it is for."""

import tomllib

import pytest

from reticent.cli import main as cli
from reticent.runs.settings.file import override, validate
from reticent.runs.settings.starter import Journey, config_text
from reticent.runs.training.settings import TrainSettings


@pytest.mark.parametrize("journey", list(Journey))
def test_every_written_config_is_accepted(journey):
    text = config_text(journey, name="reticent.toml")
    config = validate(TrainSettings, tomllib.loads(text), where=journey.value)
    config.training.check()
    assert text.count("#") > 15
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("journey", list(Journey))
def test_keys_that_are_commented_out_are_keys_that_exist(journey):
    """A comment such as `# labelled = ...` must name a real key, or it misleads whoever uncomments it."""
    tables = [TrainSettings.model_fields[name].annotation for name in ("data", "model", "training")]
    known = {key for table in tables for key in table.model_fields}
    commented = [
        line[2:].split("=")[0].strip()
        for line in config_text(journey, name="x").splitlines()
        if line.startswith("# ") and "=" in line and line[2].isalpha() and line[2].islower()
    ]
    assert set(commented) <= known


def test_an_unknown_key_beside_the_written_ones_is_refused():
    tables = override(tomllib.loads(config_text(Journey.PLAIN, name="x")), {"training": {"epoch": 3}})
    with pytest.raises(Exception, match="did you mean 'epochs'"):
        validate(TrainSettings, tables, where="x")


def test_init_writes_once_and_replaces_only_when_told(tmp_path, capsys):
    path = tmp_path / "run.toml"
    assert cli.run(["init", "private-owners", "--out", str(path)]) == 0
    assert 'unit = "owner"' in path.read_text()
    assert cli.run(["init", "plain", "--out", str(path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert cli.run(["init", "plain", "--out", str(path), "--force", "--json"]) == 0
    assert 'method = "sgd"' in path.read_text()


def test_a_written_config_drives_a_dry_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train", "holdout"):
        lines = "".join(
            f'{{"id": "{name}{i}", "owner": "o{i}", "text": "{name} number {i}"}}\n' for i in range(200)
        )
        (tmp_path / f"{name}.jsonl").write_text(lines)
    assert cli.run(["init"]) == 0
    assert cli.run(["train", "--config", "reticent.toml", "--dry-run"]) == 0
    assert "differential privacy" in capsys.readouterr().out
