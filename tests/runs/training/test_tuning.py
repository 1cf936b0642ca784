"""`train --tune`: the best of a random number of runs, charged and stated as such."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.runs.proofs.rederivation import rederive
from reticent.runs.training import tuning
from reticent.runs.training.settings import TrainSettings
from reticent.training.plans.plan import NO_TUNING, TUNED
from tests.models.tiny import tiny_gpt2, tiny_tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, a tiny corpus and public text."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    for name, count in (("private", 32), ("public", 4)):
        rows = [{"id": f"r{i}", "text": f"{name} order {i * 37} is late."} for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def options(tiny, **others):
    return {
        "data": str(tiny / "private.jsonl"),
        "model": str(tiny / "model"),
        "method": "dp-sgd",
        "delta": 1e-3,
        "target_epsilon": 4.0,
        "batch": 8,
        "epochs": 1.0,
        "learning_rate": 1e-3,
        "tune": 3,
        "tune_score": str(tiny / "public.jsonl"),
        **others,
    }


def test_a_dry_run_says_how_many_runs_there_may_be(tiny, capsys):
    assert cli.run(["train", *flags(options(tiny, tune=10)), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Would make 10 such runs on average" in said
    assert "there are at most 4 runs, with 95 % at most 41 runs" in said
    share = sum(tuning.likely_runs(10, (place + 0.5) / 2000) <= 41 for place in range(2000)) / 2000
    assert share == pytest.approx(0.95, abs=0.005)


def flags(given):
    return [part for key, value in given.items() for part in (f"--{key.replace('_', '-')}", str(value))]


def test_the_best_run_is_kept_and_states_what_the_best_of_several_proves(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tuning, "number_of_runs", lambda *_, **__: 2)
    out = tmp_path / "run"
    assert cli.run(["train", "--json", *flags(options(tiny)), "--out", str(out)]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["run"] == str(out)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # of the other runs nothing is left
    guarantee = Guarantee.from_json(json.loads((out / "guarantee.json").read_text()))
    assert guarantee.mechanism == "DP-SGD, tuned"
    assert 3.9 < guarantee.epsilon <= 4.0
    assert TUNED in guarantee.assumes
    assert NO_TUNING not in guarantee.assumes
    assert rederive(out).agrees  # weights, ledger and certificate say the same
    rate = json.loads((out / "run.json").read_text())["config"]["training"]["learning_rate"]
    assert rate / 1e-3 in tuning.FACTORS


def test_of_several_runs_the_one_with_the_least_loss_is_kept(tiny, tmp_path, monkeypatch):
    losses = iter([3.0, 1.0, 2.0])
    kept = []

    def score(given, found):
        kept.append((next(losses), (found.model / "guarantee.json").read_text()))
        return kept[-1][0]

    monkeypatch.setattr(tuning, "number_of_runs", lambda *_, **__: 3)
    monkeypatch.setattr(tuning, "_score", score)
    assert cli.run(["train", "--json", *flags(options(tiny)), "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "model" / "guarantee.json").read_text() == min(kept)[1]  # it names the weights


def test_a_choice_by_text_that_is_trained_on_is_refused(tiny, tmp_path, capsys):
    rows = [{"id": "x", "text": "Something else."}, {"id": "y", "text": "private  Order 37 is late."}]
    (tmp_path / "score.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = options(tiny, tune_score=str(tmp_path / "score.jsonl"))
    assert cli.run(["train", "--json", *flags(given), "--out", str(tmp_path / "run")]) == 2
    assert "found 1 text in common" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_promises_nothing_of_a_choice_that_training_refuses(tiny, capsys):
    given = options(tiny, tune_score=str(tiny / "private.jsonl"))
    assert cli.run(["train", *flags(given), "--dry-run"]) == 2
    said = capsys.readouterr()
    assert "cannot be chosen by text that is trained on" in said.err
    assert "Would be proved" not in said.out


@pytest.mark.parametrize(
    "wrong",
    [
        {"tune_score": None},
        {"tune": None},
        {"sampler": "allocation"},
        {"audit": 20},
        {"target_epsilon": None, "target_advantage": 0.2},
        {"corpus_ledger": "ledger.json"},
    ],
)
def test_what_has_no_price_for_the_best_of_several_runs_is_refused(tiny, wrong):
    with pytest.raises(ConfigError, match="--tune"):
        TrainSettings.of(**options(tiny, **wrong)).check()
