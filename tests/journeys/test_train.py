"""Training end to end through the command line: plain, private, LoRA, owners, stopped and resumed."""

import json
import signal
import time

import pytest

from reticent.cli import main as cli
from reticent.core.errors import GuaranteeError
from reticent.core.guarantee import Guarantee
from reticent.core.randomness import Randomness
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.subject import find_model
from tests.journeys.commands import reticent
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import Command


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory):
    """200 private dialogues to train on and 20 others to measure on."""
    folder = tmp_path_factory.mktemp("dialogues")
    corpus = generate_dialogues(220, randomness=Randomness.seeded(7))
    write_corpus(corpus[:200], folder / "train.jsonl")
    write_corpus(corpus[200:], folder / "holdout.jsonl")
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model and a tiny corpus."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    rows = [{"id": f"r{i}", "owner": f"o{i % 8}", "text": f"order {i * 37} is late."} for i in range(32)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run_json(capsys, *arguments):
    """The document of a run inside this process."""
    code = cli.run(["train", "--json", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_private_training_of_the_embedded_model(dialogues, tmp_path):
    done = reticent(
        *("train", "--method", "dp-sgd", "--model", "embedded", "--data", dialogues / "train.jsonl"),
        *("--holdout", dialogues / "holdout.jsonl", "--target-epsilon", 8, "--delta", "1e-4", "--epochs", 0.5),
        *("--batch", 40, "--clip-norm", 1, "--max-length", 64, "--out", tmp_path / "run", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["finished"]
    assert document["steps"] == 3
    run = tmp_path / "run"
    guarantee = Guarantee.from_json(json.loads((run / "model" / "guarantee.json").read_text()))
    assert 7.5 < guarantee.epsilon <= 8.0
    assert guarantee == Guarantee.from_json(json.loads((run / "guarantee.json").read_text()))
    assert json.loads((run / "run.json").read_text())["results"]["evaluation"]["perplexity"] > 1
    assert load_model(run / "model").vocabulary_size == 1024
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoModelForCausalLM.from_pretrained(run / "model")
    AutoTokenizer.from_pretrained(run / "model")
    text = json.loads((dialogues / "train.jsonl").read_text().splitlines()[0])["text"]
    for path in run.rglob("*.json"):
        assert text[:40] not in path.read_text()


def test_plain_training_learns_and_promises_nothing(dialogues, tmp_path, capsys):
    data = ("--model", "embedded", "--data", dialogues / "train.jsonl", "--holdout", dialogues / "holdout.jsonl")
    settings = ("--method", "sgd", "--batch", 16, "--max-length", 64, "--seed", 1)
    short = run_json(capsys, *data, *settings, "--epochs", 0.05, "--out", tmp_path / "a")
    longer = run_json(capsys, *data, *settings, "--epochs", 0.5, "--out", tmp_path / "b")
    assert longer["evaluation"]["perplexity"] < 0.9 * short["evaluation"]["perplexity"]
    assert longer["guarantee"] is None
    assert not (tmp_path / "b" / "guarantee.json").exists()
    assert not (tmp_path / "b" / "model" / "guarantee.json").exists()


def test_lora_leaves_an_adapter_or_a_merged_model(tiny, tmp_path, capsys):
    common = ("--method", "dp-sgd", "--model", tiny / "model", "--data", tiny / "train.jsonl", "--batch", 8)
    private = ("--noise-multiplier", 1, "--delta", "1e-3", "--lora-rank", 2, "--precision", "bfloat16")
    run_json(capsys, *common, *private, "--out", tmp_path / "adapter")
    run_json(capsys, *common, *private, "--merge", "--out", tmp_path / "merged")
    assert (tmp_path / "adapter" / "model" / "adapter_model.safetensors").exists()
    assert not (tmp_path / "merged" / "model" / "adapter_config.json").exists()
    for name in ("adapter", "merged"):
        model = load_model(tmp_path / name / "model")
        assert model.token_log_probs([[5, 6, 7]])[0].shape == (3,)
        assert (tmp_path / name / "model" / "guarantee.json").exists()


def test_owners_and_frozen_embeddings(tiny, tmp_path, capsys):
    document = run_json(
        capsys,
        *("--method", "dp-sgd", "--model", tiny / "model", "--data", tiny / "train.jsonl", "--batch", 2),
        *("--noise-multiplier", 1, "--delta", "1e-3", "--unit", "owner", "--texts-per-owner", 2),
        *("--freeze-embeddings", "--optimiser", "sgd", "--out", tmp_path / "run"),
    )
    assert document["guarantee"]["unit"] == "owner"
    assert document["steps"] == 4  # 8 owners, 2 a step
    import torch

    before, after = load_model(tiny / "model").module, load_model(tmp_path / "run" / "model").module
    assert torch.equal(before.transformer.wte.weight, after.transformer.wte.weight)
    assert not torch.equal(before.transformer.h[0].mlp.c_fc.weight, after.transformer.h[0].mlp.c_fc.weight)


def test_records_of_one_owner_are_priced_together_beside_the_record(tiny, tmp_path, capsys):
    asked = ("--method", "dp-sgd", "--model", tiny / "model", "--data", tiny / "train.jsonl", "--delta", 1e-3)
    steps = ("--noise-multiplier", 2, "--batch", 4, "--epochs", 0.5, "--max-length", 8)
    document = run_json(capsys, *asked, *steps, "--out", tmp_path / "run")
    record, owner = document["guarantee"], document["guarantees"]["owner"]
    assert (record["unit"], owner["unit"]) == ("record", "owner")
    assert record["epsilon"] < owner["epsilon"]
    assert "no owner has more than 4 records, and this number is public" in owner["assumes"]
    assert cli.run(["bound", str(tmp_path / "run")]) == 0
    stored = tmp_path / "run" / "training.json"
    stated = json.loads(stored.read_text())
    stated["guarantees"]["owner"]["basis"]["event"] = record["basis"]["event"]  # the twin: an owner is one record
    stated["guarantees"]["owner"]["epsilon"] = record["epsilon"]
    stored.write_text(json.dumps(stated))
    assert cli.run(["bound", str(tmp_path / "run")]) == 1
    with pytest.raises(GuaranteeError, match="about another event"):
        find_model(str(tmp_path / "run"))


def test_an_lstm_from_random_weights(tiny, tmp_path, capsys):
    run_json(
        capsys,
        *("--method", "dp-sgd", "--model", "lstm:1x200", "--data", tiny / "train.jsonl", "--batch", 8),
        *("--noise-multiplier", 1, "--delta", "1e-3", "--epochs", 0.5, "--out", tmp_path / "run"),
    )
    assert load_model(tmp_path / "run" / "model").context_length is None


def interrupt_after_a_checkpoint(process, folder, known):
    """Send Ctrl-C once there is a checkpoint that was not there before; what the run says then."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.is_running:
        newer = {path.name for path in folder.glob("step-*")} - known
        if newer:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    done = process.end(seconds=PATIENCE)
    assert done.returncode == 130, done.stderr
    return done.stdout


def test_ctrl_c_saves_and_says_how_to_go_on(tiny, tmp_path):
    run = tmp_path / "run"
    folder = run / "checkpoints"
    process = Command(
        *("train", "--method", "sgd", "--model", tiny / "model", "--data", tiny / "train.jsonl", "--batch", 8),
        *("--epochs", 1e6, "--checkpoint-steps", 5, "--out", run),
    )
    said = interrupt_after_a_checkpoint(process, folder, set())
    assert f"reticent train --resume {run}" in said
    reached = max(path.name for path in folder.glob("step-*"))
    again = interrupt_after_a_checkpoint(
        Command("train", "--resume", run), folder, {path.name for path in folder.iterdir()}
    )
    assert "Continue with" in again
    assert max(path.name for path in folder.glob("step-*")) > reached
    assert not (run / "model").exists()


def test_resume_refuses_another_corpus_and_leaves_a_finished_run_alone(tiny, tmp_path, capsys):
    data = tmp_path / "train.jsonl"
    data.write_text((tiny / "train.jsonl").read_text())
    run = tmp_path / "run"
    settings = ("--method", "dp-sgd", "--model", tiny / "model", "--data", data, "--batch", 8)
    first = run_json(capsys, *settings, "--noise-multiplier", 1, "--delta", "1e-3", "--epochs", 0.5, "--out", run)
    assert run_json(capsys, "--resume", run) == first
    information = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(information | {"finished": None}))
    data.write_text(data.read_text().replace("late", "lost"))
    assert cli.run(["train", "--resume", str(run)]) == 2
    assert "not the corpus" in capsys.readouterr().err
    data.write_text(data.read_text().replace("lost", "late"))
    (run / "ledger.db").unlink()
    assert cli.run(["train", "--resume", str(run)]) == 2  # never a new ledger for an old run
    assert "ledger" in capsys.readouterr().err


def test_what_is_proved_of_single_records_stands_beside_what_is_measured_of_them(tiny, tmp_path, capsys):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "dp-sgd", "--target-epsilon", 8)
    plan = ("--delta", "1e-3", "--batch", 8, "--epochs", 2, "--clip-norm", 50, "--individual-accounting")
    document = run_json(capsys, *data, *plan, "--out", tmp_path / "run")
    found = document["individual"]
    assert (found["records"], found["delta"]) == (32, 1e-3)
    assert found["epsilon_10"] <= found["epsilon_50"] <= found["epsilon_90"] < document["guarantee"]["epsilon"]
    path = tmp_path / "run" / "individual.json"
    assert path.stat().st_mode & 0o777 == 0o600
    bounds = json.loads(path.read_text())["records"]
    assert set(bounds) == {f"r{i}" for i in range(32)}
    held_out = tmp_path / "others.jsonl"
    held_out.write_text(
        "".join(json.dumps({"id": f"h{i}", "text": f"order {i} is here."}) + "\n" for i in range(20))
    )
    arguments = (tmp_path / "run", "--train", tiny / "train.jsonl", "--holdout", held_out)
    code = cli.run(["audit", *map(str, arguments), "--attacks", "lazy", "--out", str(tmp_path / "audit"), "--json"])
    assert code == 0, capsys.readouterr().err
    worst = json.loads((tmp_path / "audit" / "risk_map.json").read_text())["worst"]
    assert worst
    for row in worst:
        _, copies, of_text = bounds[row["id"]]
        assert (row["epsilon"], row["copies"]) == (of_text, copies)
        assert row["log_chance"] <= row["log_proved"]
    assert cli.run(["report", str(tmp_path / "audit"), "--out", str(tmp_path / "page.html")]) == 0
    assert "proved at most" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--sampler", "allocation"), "poisson"),
        (("--unit", "owner"), "records"),
        (("--neighbours", "replace"), "add-remove"),
    ],
)
def test_single_records_are_not_accounted_for_where_nothing_is_proved_of_them(tiny, tmp_path, capsys, more, reason):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "dp-sgd", "--target-epsilon", 8)
    plan = ("--delta", "1e-3", "--batch", 8, "--individual-accounting", *more, "--out", tmp_path / "run")
    assert cli.run(["train", *map(str, data), *map(str, plan)]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_clip_norm_that_follows_a_quantile_is_said_and_kept(tiny, tmp_path, capsys):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "dp-sgd", "--target-epsilon", 8)
    plan = ("--delta", "1e-3", "--batch", 8, "--epochs", 2, "--clip-quantile", 0.5, "--out", tmp_path / "run")
    assert cli.run(["train", *map(str, data), *map(str, plan), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clip norm 1 in the first step, which then follows quantile 0.5 of the gradient norms" in said
    document = run_json(capsys, *data, *plan)
    noise = document["guarantee"]["basis"]["count_noise"]
    fixed = run_json(capsys, *data, *plan[:-4], "--out", tmp_path / "fixed")
    assert document["guarantee"]["epsilon"] == fixed["guarantee"]["epsilon"]
    assert document["guarantee"]["basis"]["event"] == fixed["guarantee"]["basis"]["event"]
    assert any("earlier noisy counts alone" in line for line in document["guarantee"]["assumes"])
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["config"]["training"]["clip_quantile"] == 0.5
    planned = json.loads((tmp_path / "run" / "training.json").read_text())["plan"]
    assert (planned["clip_norm"], planned["clip_quantile"], planned["count_noise"]) == (1.0, 0.5, noise)
    assert cli.run(["bound", str(tmp_path / "run")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clip norm 1 at first, then by quantile 0.5 of the gradient norms, from counts with noise" in said


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--sampler", "banded", "--bands", 2), "--sampler banded"),
        (("--audit", 20), "--audit"),
        (("--individual-accounting",), "--individual-accounting"),
        (("--rounding", "proved"), "--rounding proved"),
        (("--optimiser", "corrected-adam"), "corrected-adam"),
        (("--count-noise", 0.01), "half the noise multiplier"),
        (("--method", "crt"), "does not belong to method 'crt'"),
    ],
)
def test_what_was_not_proved_with_a_moving_clip_norm_is_refused(tiny, tmp_path, capsys, more, reason):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "dp-sgd", "--target-epsilon", 8)
    plan = ("--delta", "1e-3", "--batch", 8, "--clip-quantile", 0.5, *more, "--out", tmp_path / "run")
    assert cli.run(["train", *map(str, data), *map(str, plan)]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_noise_on_counts_is_for_a_clip_norm_that_moves(tiny, tmp_path, capsys):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "dp-sgd", "--target-epsilon", 8)
    plan = ("--delta", "1e-3", "--batch", 8, "--count-noise", 3, "--out", tmp_path / "run")
    assert cli.run(["train", *map(str, data), *map(str, plan)]) == 2
    assert "--clip-quantile" in capsys.readouterr().err


@pytest.mark.parametrize("sampler", ["poisson", "allocation"])
def test_a_sampler_belongs_to_dp_sgd_even_where_it_names_the_default(tiny, tmp_path, capsys, sampler):
    data = ("--data", tiny / "train.jsonl", "--model", tiny / "model", "--method", "sgd", "--batch", 8)
    assert cli.run(["train", *map(str, data), "--sampler", sampler, "--out", str(tmp_path / "run")]) == 2
    assert "--sampler does not belong to method 'sgd'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
