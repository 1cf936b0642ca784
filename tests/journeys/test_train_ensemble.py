"""Training an ensemble through the command line: split, trained, killed, resumed, checked and loaded."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError, ModelError
from reticent.data.splits import part_of
from reticent.runs.directory import MANIFEST
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.manifest import Manifest, finished_member
from reticent.runs.settings.file import validate
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import TrainSettings
from tests.models.tiny import CONTEXT, tiny_gpt2, tiny_llama, tiny_tokenizer
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, and a corpus of 24 owners."""
    folder = tmp_path_factory.mktemp("tiny")
    for name, module in (("gpt2", tiny_gpt2()), ("llama", tiny_llama())):
        module.save_pretrained(folder / name)
        tiny_tokenizer().save_pretrained(folder / name)
    rows = [{"id": f"r{i}", "owner": f"o{i % 24}", "text": f"order {i * 37} is late."} for i in range(72)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def train(capsys, *arguments):
    """The document of a training run inside this process."""
    code = cli.run(["train", "--json", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def basics(tiny, out, *, model="gpt2", parts=3):
    """What all runs here have in common."""
    return (
        *("--method", "submix", "--parts", parts, "--model", tiny / model, "--data", tiny / "train.jsonl"),
        *("--batch", 8, "--lora-rank", 2, "--seed", 3, "--out", out),
    )


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """A finished ensemble of three adapters."""
    run = tmp_path_factory.mktemp("ensemble") / "run"
    assert cli.run(["train", *map(str, basics(tiny, run))]) == 0
    return run


def test_manifest_names_every_owner_once_and_the_key_stays_apart(tiny, trained):
    manifest = Manifest.read(trained)
    key = (trained / "split.key").read_bytes()
    assert manifest.is_complete
    assert manifest.unit == "owner"
    assert sum(member.owners for member in manifest.members) == 24
    assert sum(member.records for member in manifest.members) == 72
    counts = [sum(part_of(f"o{i}", 3, key=key) == part for i in range(24)) for part in range(3)]
    assert [member.owners for member in manifest.members] == counts
    for path in trained.rglob("*.json"):
        text = path.read_text()
        assert key.hex() not in text
        assert "is late" not in text
    assert json.loads((trained / "run.json").read_text())["notice"].count("Never publish")


def test_owners_that_are_only_the_ids_of_their_records_are_no_owners(tiny, tmp_path, capsys):
    """`plant` and `dedup` write the field into every corpus: an ensemble by records could promise owners."""
    rows = [{"id": f"r{i}", "owner": f"r{i}", "text": f"order {i * 37} is late."} for i in range(12)]
    rows.append({"id": "canary/canary-0/0", "owner": "canary/canary-0", "text": "My ID is 123."})
    data = tmp_path / "planted.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(capsys, *basics(tiny, tmp_path / "run", parts=2), "--data", data)
    assert Manifest.read(tmp_path / "run").unit == "record"


def test_nobody_else_can_read_an_ensemble(trained):
    for path in (trained, *trained.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_loaded_in_one_batch_equals_members_one_at_a_time(trained):
    batched, separate = load_ensemble(trained), load_ensemble(trained, one_batch=False)
    assert type(batched).__name__ == "AdapterEnsemble"
    assert type(separate).__name__ == "SeparateEnsemble"
    assert batched.parts == separate.parts == ("part-00", "part-01", "part-02")
    text = batched.public.encode(["order 37 is late."])[0]
    found = batched.position_log_probs(text)
    assert np.abs(found - separate.position_log_probs(text)).max() < 1e-4
    assert np.abs(found[:, 1:] - found[:, :1]).max() > 1e-3  # they learnt something


def test_halves_and_top_layers(tiny, tmp_path, capsys):
    run = tmp_path / "run"
    document = train(capsys, *basics(tiny, run, model="llama", parts=2), "--halves", "--adapter-layers", 1)
    assert (document["parts"], document["members"], document["guarantee"]) == (2, 4, None)
    ensemble = load_ensemble(run)
    assert ensemble.rows == (0, 0, 1, 1)
    assert ensemble.decoder.first_adapted == 1


def test_whole_models_and_bases_that_are_not_batched_are_read_one_at_a_time(tiny, tmp_path, capsys):
    train(capsys, *basics(tiny, tmp_path / "whole", parts=2), "--lora-rank", 0)
    ensemble = load_ensemble(tmp_path / "whole")
    assert type(ensemble).__name__ == "SeparateEnsemble"
    streams = ensemble.streams()
    handle = streams.open([4, 5])
    expected = ensemble.position_log_probs([4, 5, 6])[-1]
    assert np.abs(streams.look_up([handle])[0] - expected).max() < 1e-4


def test_dry_run_writes_nothing_and_promises_nothing(tiny, tmp_path, capsys):
    document = train(capsys, *basics(tiny, tmp_path / "run"), "--dry-run")
    assert (document["dry_run"], document["members"], document["guarantee"]) == (True, 3, None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--target-epsilon", 8), "without noise"),
        (("--holdout", "x.jsonl"), "not in training"),
        (("--parts", 40), "some parts are empty"),
        (("--method", "sgd"), "make an ensemble"),
        (("--max-length", CONTEXT), "the longest text must fit the model"),  # the start token takes a place
    ],
)
def test_what_an_ensemble_cannot_honour_is_refused(tiny, tmp_path, capsys, monkeypatch, extra, message):
    (tmp_path / "x.jsonl").write_text('{"id": "1", "text": "held out"}\n')
    monkeypatch.chdir(tmp_path)
    assert cli.run(["train", *map(str, (*basics(tiny, tmp_path / "run"), *extra))]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_exchanged_member_is_caught(tiny, tmp_path, capsys):
    run = tmp_path / "run"
    train(capsys, *basics(tiny, run))
    ours, theirs = (run / "members" / f"part-0{part}" / "model" / "adapter_model.safetensors" for part in (0, 1))
    ours.write_bytes(theirs.read_bytes())
    with pytest.raises(ModelError, match="not the weights that were written"):
        load_ensemble(run)


def test_an_unfinished_ensemble_is_not_loaded(tiny, tmp_path, capsys):
    run = tmp_path / "run"
    train(capsys, *basics(tiny, run))
    document = json.loads((run / MANIFEST).read_text())
    (run / MANIFEST).write_text(json.dumps(document | {"members": document["members"][:2]}))
    with pytest.raises(ConfigError, match="not finished"):
        load_ensemble(run)
    with pytest.raises(ConfigError, match="not an ensemble"):
        load_ensemble(tiny)


def test_stopped_run_goes_on_and_ends_as_if_never_stopped(tiny, trained, tmp_path, capsys):
    config = validate(TrainSettings, json.loads((trained / "run.json").read_text())["config"], where="test")
    stopped = training_run.train(config.into(tmp_path / "run"), observe=lambda progress, _: progress.step != 5)
    assert (stopped.step, stopped.is_finished) == (5, False)
    assert train(capsys, "--resume", tmp_path / "run")["finished"]
    assert load_ensemble(tmp_path / "run").fingerprint == load_ensemble(trained).fingerprint


@pytest.mark.slow
def test_killed_run_goes_on_where_it_was_and_ends_as_if_never_killed(tiny, tmp_path, capsys):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    more = ("--epochs", 4, "--checkpoint-steps", 2)
    train(capsys, *basics(tiny, whole), *more)
    arguments = [*map(str, basics(tiny, killed)), *map(str, more)]
    command = [sys.executable, "-c", "from reticent.cli.main import main; main()", "train", *arguments]
    child = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE
    while not (killed / "members" / "part-00" / "member.json").exists() and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not Manifest.read(killed).is_complete  # killed after the first member, long before the last
    first = finished_member(killed, "part-00")
    again = train(capsys, "--resume", killed)
    assert again["finished"]
    assert load_ensemble(killed).fingerprint == load_ensemble(whole).fingerprint
    assert Manifest.read(killed).members[0] == first
    assert train(capsys, "--resume", killed)["step"] == again["steps"]


def test_resuming_with_another_corpus_is_refused(tiny, tmp_path, capsys):
    data = tmp_path / "train.jsonl"
    data.write_text((tiny / "train.jsonl").read_text())
    run = tmp_path / "run"
    train(capsys, *basics(tiny, run), "--data", data)
    document = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(document | {"finished": None}))
    lines = data.read_text().splitlines(keepends=True)
    data.write_text("".join(lines[1:]))
    assert cli.run(["train", "--resume", str(run)]) == 2
    assert "not the corpus" in capsys.readouterr().err
    data.write_text("".join(lines))
    Path(run / "split.key").write_bytes(b"x" * 32)
    assert cli.run(["train", "--resume", str(run)]) == 2
    assert "not the key" in capsys.readouterr().err
