"""What runs in pieces equals what one process does: ensembles (stopped, resumed), shadows, shards, scans."""

import json
from dataclasses import replace

import numpy as np
import pytest

from reticent.auditing.attacks.membership.shadow_models import ShadowTask
from reticent.auditing.progress import CHUNK, watched
from reticent.auditing.subject import make_subject
from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import UsageError
from reticent.engine import local
from reticent.engine.work import EngineSettings, Piece, gather, open_engine
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.retraining import train_shadow
from reticent.runs.audit.shards import sharded_subject
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.settings.file import validate
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import Resumption, TrainSettings
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.processes import PROCESSES

ONE, TWO = EngineSettings(workers=1), EngineSettings(workers=2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, and a corpus of 24 owners."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_gpt2().save_pretrained(folder / "gpt2")
    tiny_tokenizer().save_pretrained(folder / "gpt2")
    rows = [{"id": f"r{i}", "owner": f"o{i % 24}", "text": f"order {i * 37} is late."} for i in range(72)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    import torch

    torch.set_num_threads(1)
    monkeypatch.setattr(local, "get_context", lambda _: PROCESSES)  # quick; test_engine.py starts workers afresh


def config(tiny) -> TrainSettings:
    return validate(
        TrainSettings,
        {
            "data": {"file": str(tiny / "train.jsonl")},
            "model": {"source": str(tiny / "gpt2"), "lora_rank": 2},
            "training": {"method": "submix", "parts": 3, "batch": 8},
            "seed": 3,
        },
        where="test",
    )


def test_an_ensemble_in_pieces_is_the_one_of_one_process_though_it_was_stopped(tiny, tmp_path):
    alone = training_run.train(config(tiny).into(tmp_path / "alone"), observe=lambda *_: True)
    steps, run = [], tmp_path / "spread"

    def until_one_has_landed(progress, _):
        steps.append((progress.step, progress.steps))
        return not list(run.glob("members/*/member.json"))

    stopped = training_run.train(
        config(tiny).into(run).model_copy(update={"workers": 2}), observe=until_one_has_landed
    )
    assert not stopped.is_finished
    first = {path: path.stat().st_mtime_ns for path in run.glob("members/*/member.json")}
    assert first
    again = Resumption(resume=run, workers=1)
    resumed = training_run.train(again, observe=lambda p, _: steps.append((p.step, p.steps)) is None)
    assert resumed.is_finished
    assert all(path.stat().st_mtime_ns == time for path, time in first.items())  # landed once
    assert steps[-1] == (alone.steps, alone.steps)
    assert Manifest.read(run).members == Manifest.read(tmp_path / "alone").members
    assert load_ensemble(run).fingerprint == load_ensemble(tmp_path / "alone").fingerprint
    assert {path.name for path in (run / "members").iterdir()} == {"part-00", "part-01", "part-02"}
    for path in (run, *run.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_one_model_is_not_trained_in_pieces(tiny, tmp_path, capsys):
    arguments = ["train", "--method", "sgd", "--model", str(tiny / "gpt2"), "--data", str(tiny / "train.jsonl")]
    assert cli.run([*arguments, "--out", str(tmp_path / "run"), "--workers", "2"]) == 2
    assert "torchrun" in capsys.readouterr().err


def recipe(tiny) -> dict:
    return {
        "data": {"file": "gone.jsonl", "max_length": 24},
        "model": {"source": str(tiny / "gpt2")},
        "training": {"method": "sgd", "epochs": 1, "batch": 3},
    }


@pytest.mark.slow
def test_shadows_in_pieces_score_as_those_of_one_process(tiny):
    texts = tuple(f"order {number * 37} is late." for number in range(12))
    tasks = [
        ShadowTask(
            number=number,
            recipe=recipe(tiny),
            seed=5,
            records=tuple(Record(f"r{n}", text) for n, text in enumerate(texts[number::2])),
            texts=texts,
        )
        for number in range(2)
    ]
    told = []
    here = [train_shadow(task, told.append) for task in tasks]
    heard = []
    with open_engine(TWO) as engine:
        pieces = [Piece(f"shadow-{task.number}", task) for task in tasks]
        spread = gather(pieces, train_shadow, engine=engine, told=heard.append)
    assert all(np.array_equal(one, other) for one, other in zip(here, spread, strict=True))
    assert not np.array_equal(here[0], here[1])
    assert sum(heard) == sum(told)


def test_audit_shards_score_and_tell_as_one_process_does(tiny):
    model = load_model(tiny / "gpt2", name=str(tiny / "gpt2"))
    corpora = [Corpus([Record(f"{side}{n}", f"{side} {n}")]) for side, n in (("in", 1), ("out", 2))]
    subject = make_subject(model, None, training=corpora[0], held_out=corpora[1])
    rows = model.encode([f"order {number * 91} is late." for number in range(CHUNK + 9)])
    told, heard = [], []
    here = watched(model, told.append).token_log_probs(rows)
    with sharded_subject(subject, ONE) as spread:
        assert spread.scoring_model is not None
        there = watched(spread.scoring_model, heard.append).token_log_probs(rows)
        few = watched(spread.scoring_model, lambda _: None).token_log_probs(rows[:3])
    assert all(np.array_equal(one, other) for one, other in zip(here, there, strict=True))
    assert np.array_equal(few[0], model.token_log_probs(rows[:3])[0])
    assert sum(heard) == sum(told)
    other = replace(subject, model=model)
    with sharded_subject(other, None) as same:
        assert same is other


def test_workers_that_find_another_model_say_so(tiny):
    from reticent.runs.audit.shards import score_shard

    with pytest.raises(UsageError, match="another model"):
        score_shard(((str(tiny / "gpt2"), "not its fingerprint"), [[4, 5]]), lambda _: None)


def test_scans_and_scrubs_with_workers_equal_those_without(tmp_path, capsys):
    rows = [{"id": f"r{n}", "text": f"call 415-555-01{n:02d}, or a{n % 3}@example.org"} for n in range(40)]
    source = tmp_path / "corpus.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(*arguments):
        assert cli.run([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert run("scan", source, "--workers", 2) == run("scan", source)
    spread, alone = tmp_path / "spread.parquet", tmp_path / "alone.jsonl"
    cache = ("--cache", tmp_path / "cache.db", "--keep-ids")
    run("scrub", source, "--out", spread, "--policy", "patterns", "--engine", "local", "--workers", 2, *cache)
    run("scrub", source, "--out", alone, "--policy", "patterns", *cache)
    from reticent.data.reading.corpus_file import open_corpus

    assert list(open_corpus(spread)) == list(open_corpus(alone))
