"""`reticent train` refuses whatever would give less privacy than was asked for, before anything is written."""

import json

import pytest

from reticent.cli import main as cli
from reticent.training.plans.plan import PROVED_ROUNDING, ROUNDING

DP = ["--method", "dp-sgd", "--model", "embedded", "--delta", "1e-4", "--noise-multiplier", "1"]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    rows = [{"id": f"r{i}", "owner": f"o{i % 20}", "text": f"text of record {i}"} for i in range(100)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def refused(corpus, tmp_path, capsys):
    """Runs train with these arguments; it must exit with code 2, say `message` in one line and write nothing."""

    def check(message, *arguments, data=corpus):
        before = sorted(tmp_path.iterdir())
        code = cli.run(["train", "--data", str(data), "--out", str(tmp_path / "run"), *map(str, arguments)])
        said = capsys.readouterr().err
        assert code == 2, said
        assert message in said
        assert len(said.strip().splitlines()) == 1
        assert "text of record" not in said
        assert sorted(tmp_path.iterdir()) == before

    return check


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--target-epsilon", "8"),
        ("--noise-multiplier", "1"),
        ("--delta", "1e-5"),
        ("--clip-norm", "1"),
        ("--unit", "record"),
        ("--neighbours", "replace"),
        ("--texts-per-owner", "2"),
    ],
)
def test_plain_training_with_any_private_flag_is_an_error(flag, value, refused):
    refused("without any privacy", "--method", "sgd", "--model", "embedded", flag, value)


def test_private_training_without_noise_or_target_is_an_error(refused):
    method = ("--method", "dp-sgd", "--model", "embedded")
    refused("neither", *method, "--delta", "1e-4")
    both = "found --target-epsilon and --noise-multiplier"
    refused(both, *method, "--delta", "1e-4", "--noise-multiplier", "1", "--target-epsilon", "8")
    refused("needs a delta", *method, "--noise-multiplier", "1")
    refused("without noise is not private", *method, "--delta", "1e-4", "--noise-multiplier", "0")
    refused("clipping", *DP, "--clip-norm", "inf")


@pytest.mark.parametrize(
    ("message", "targets"),
    [
        ("--target-epsilon and --target-tpr", ["--target-tpr", "0.05@0.01", "--target-epsilon", "8"]),
        ("--target-bits and --target-advantage", ["--target-bits", "10:20", "--target-advantage", "0.1"]),
        ("--target-advantage and --noise-multiplier", ["--target-advantage", "0.1", "--noise-multiplier", "1"]),
        ("what guessing gives", ["--target-tpr", "0.01@0.05"]),
        ("LEAKED:SECRET", ["--target-bits", "20:10"]),
        ("above 0 and below 1", ["--target-advantage", "1.5"]),
    ],
)
def test_a_risk_target_that_contradicts_another_or_promises_nothing_is_an_error(message, targets, refused):
    refused(message, "--method", "dp-sgd", "--model", "embedded", "--delta", "1e-4", *targets)


@pytest.mark.parametrize("method", ["sgd", "crt", "submix"])
def test_a_risk_target_belongs_to_dp_sgd_alone(method, refused):
    refused("does not belong", "--method", method, "--model", "embedded", "--target-tpr", "0.05@0.01")


def test_a_delta_that_promises_nothing_is_an_error(refused):
    refused(
        "delta promises nothing",
        "--method",
        "dp-sgd",
        "--model",
        "embedded",
        "--delta",
        "0.01",
        "--noise-multiplier",
        "1",
    )
    # 20 owners, 100 records: δ is held against what is protected.
    arguments = ("--method", "dp-sgd", "--model", "embedded", "--noise-multiplier", "1", "--batch", "4")
    refused("1 / 20 owners", *arguments, "--delta", "0.05", "--unit", "owner")


def test_owners_are_protected_only_where_they_are_named(refused, tmp_path):
    nameless = tmp_path / "nameless.txt"
    nameless.write_text("one\ntwo\nthree\n")
    refused("have no owners", *DP, "--unit", "owner", "--batch", "1", data=nameless)
    planted, key = (
        tmp_path / "planted.jsonl",
        tmp_path / "key.json",
    )  # has the field, and owners of no more than one
    assert cli.run(["plant", str(nameless), "--out", str(planted), "--key", str(key), "--copies", "2"]) == 0
    refused("owned by its own id", *DP, "--unit", "owner", "--batch", "1", data=planted)
    for number, how in enumerate(
        (("--count", "2"), ("--audit", "20", "--length", "6"))
    ):  # canaries alone have owners
        out, made = tmp_path / f"{number}.jsonl", str(tmp_path / f"key-{number}.json")
        said = ("--out", str(out), "--key", made, "--copies", "2", "--owner", "canary")
        assert cli.run(["plant", str(nameless), *said, *how]) == 0
        refused("owned by its own id", *DP, "--unit", "owner", "--batch", "1", data=out)
    refused("--texts-per-owner is for --unit owner", *DP, "--texts-per-owner", "2")


def test_impossible_batches_models_and_options_are_errors(refused):
    refused("batch", *DP, "--batch", "101")
    refused("no such file", "--method", "sgd", "--model", "./nowhere")
    refused("unknown LSTM size", "--method", "sgd", "--model", "lstm:7x7")
    refused("nothing to adapt", "--method", "sgd", "--model", "lstm:1x200", "--lora-rank", "2")
    refused("--merge is for LoRA", "--method", "sgd", "--model", "embedded", "--merge")
    refused("must fit the model", "--method", "sgd", "--model", "embedded", "--max-length", "5000")
    refused("--epochs is out of range: found 0.0", "--method", "sgd", "--model", "embedded", "--epochs", "0")
    refused("--method is missing: one of sgd, dp-sgd, crt", "--model", "embedded")
    refused("--model is missing", "--method", "sgd")
    refused("did you mean 'embedded'?", "--method", "sgd", "--model", "embeded")


def test_a_file_with_an_unknown_key_is_refused_with_advice(refused, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[training]\nmethod = 'dp-sgd'\nnoise_multiplyer = 1.0\n[model]\nsource = 'embedded'\n")
    refused("did you mean 'noise_multiplier'?", "--config", path)


def test_a_folder_that_holds_something_is_not_overwritten(corpus, tmp_path, capsys):
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("precious")
    arguments = ["train", "--data", str(corpus), "--method", "sgd", "--model", "embedded", "--out", str(full)]
    assert cli.run(arguments) == 2
    assert "--resume" not in capsys.readouterr().err  # there is no run to go on with
    assert [path.name for path in full.iterdir()] == ["mine"]
    (full / "training.json").write_text("{}")
    assert cli.run(arguments) == 2
    assert "--resume" in capsys.readouterr().err


def test_resume_takes_no_other_options_and_needs_a_run(tmp_path, capsys):
    assert cli.run(["train", "--resume", str(tmp_path), "--noise-multiplier", "0.1"]) == 2
    assert "nothing about it can be changed" in capsys.readouterr().err
    assert cli.run(["train", "--resume", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_out_is_needed_unless_nothing_is_written(corpus, capsys):
    assert cli.run(["train", "--data", str(corpus), *DP]) == 2
    assert "--out is missing" in capsys.readouterr().err


def test_dry_run_prints_the_guarantee_and_touches_nothing(corpus, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    arguments = ["train", "--data", str(corpus), *DP, "--batch", "10", "--dry-run", "--json"]
    assert cli.run([*arguments, "--out", str(tmp_path / "run")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["steps"] == 10
    assert document["guarantee"]["epsilon"] > 0
    assert document["guarantee"]["unit"] == "record"
    assert sorted(tmp_path.rglob("*")) == before
    assert cli.run(arguments[:-1]) == 0
    said = capsys.readouterr().out
    assert "Would be proved: (" in said  # nothing ran, so nothing was proved
    assert "Proved" not in said
    assert cli.run(["train", "--data", str(corpus), "--method", "sgd", "--model", "x", "--dry-run"]) == 0
    assert "No guarantee" in capsys.readouterr().out


def test_correlated_noise_gets_a_batch_that_its_cycle_has_room_for(corpus, capsys):
    words = ["train", "--data", str(corpus), "--model", "embedded", "--method", "dp-sgd", "--sampler", "banded"]
    words += ["--target-epsilon", "8", "--delta", "1e-3", "--dry-run", "--json"]
    assert cli.run(words) == 0, capsys.readouterr().err
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["bands"] * plan["batch"] <= plan["units"]


def said_of(corpus, capsys, *flags):
    """What a dry run says, on one line."""
    assert cli.run(["train", "--data", str(corpus), *DP, "--batch", "10", "--dry-run", *flags]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_promise_for_records_is_said_to_be_none_for_people_who_have_several(corpus, tmp_path, capsys):
    said = said_of(corpus, capsys)
    assert "All owners have several records (20 of 20; at most 5), and the promise is for one record." in said
    assert "for 5 records (all of the owners have at most so many)" in said
    for sampler in (["--sampler", "allocation"], ["--neighbours", "replace"]):
        said = said_of(corpus, capsys, *sampler)
        assert "All owners" in said
        assert "No ε is known here for all records of one owner together." in said
    assert "several records" not in said_of(corpus, capsys, "--unit", "owner")
    rows = [{"id": f"r{i}", "owner": f"o{i}", "text": f"text of record {i}"} for i in range(100)]
    alone = tmp_path / "alone.jsonl"
    alone.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "several records" not in said_of(alone, capsys)


def test_owners_of_very_different_numbers_of_records_are_told_apart(tmp_path, capsys):
    owners = [f"o{i // 2}" if i < 20 else f"p{i}" if i < 60 else "all" for i in range(100)]
    rows = [{"id": f"r{i}", "owner": owner, "text": f"text of record {i}"} for i, owner in enumerate(owners)]
    path = tmp_path / "unequal.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = said_of(path, capsys)
    assert "Some owners have several records (11 of 51; at most 40)" in said
    assert "for 2 records (nine tenths of the owners have at most so many)" in said
    assert "above 20 for 40 records (all of the owners have at most so many)" in said
    assert "An ε above 20 by itself promises practically nothing." in said
    assert said_of(path, capsys, "--json").count('"nine_tenths": 2') == 1


def test_a_finished_run_says_of_owners_what_its_dry_run_said(corpus, tmp_path, capsys):
    before = said_of(corpus, capsys, "--epochs", "0.2")
    words = [
        "train",
        "--data",
        str(corpus),
        *DP,
        "--batch",
        "10",
        "--epochs",
        "0.2",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.run(words) == 0
    after = " ".join(capsys.readouterr().out.split())
    ours = before[before.index("All owners") : before.index("Would be proved")]
    assert "ε for all records of one owner together" in ours
    assert ours.strip() in after
    assert "Some owners" not in after


def test_a_dry_run_warns_that_nobody_looked_for_the_model(corpus, capsys):
    words = ["train", "--data", str(corpus), "--method", "dp-sgd", "--delta", "1e-4", "--dry-run"]
    assert cli.run([*words, "--target-epsilon", "8", "--model", "embeded"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Warning: the model 'embeded' is not in a folder here, and a dry run asks no hub" in said
    assert "it is taken for a large model" in said
    assert "Did you mean 'embedded'?" in said
    assert cli.run([*words, "--noise-multiplier", "1", "--model", "some/model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model_is_here"] is False
    for known in ("embedded", "lstm:1x20"):
        assert cli.run([*words, "--noise-multiplier", "1", "--model", known]) == 0
        assert "Warning" not in capsys.readouterr().out


def test_a_dry_run_says_what_else_the_run_would_measure_and_prove(corpus, capsys):
    assert "canaries" not in said_of(corpus, capsys)
    said = said_of(corpus, capsys, "--audit", "50", "--individual-accounting")
    assert "with 50 gradient canaries" in said
    assert "150 units with them, and a batch of 15," in said
    assert "Would also prove an ε for each record by its own gradients" in said


def test_an_epsilon_of_each_record_is_refused_for_owners_with_advice(refused):
    refused("leave one of the two out", *DP, "--individual-accounting", "--unit", "owner")


def test_a_delta_of_zero_is_refused_with_one_that_would_do(refused):
    zero = [*DP[:4], "--noise-multiplier", "1", "--delta", "0"]
    refused("at δ = 0 Gaussian noise proves no finite ε", *zero)
    refused("hint: --delta 0.001", *zero)


@pytest.mark.parametrize("chosen", ["tested", "proved"])
def test_why_rounding_is_harmless_is_what_was_asked_for(corpus, capsys, chosen):
    words = ["train", "--data", str(corpus), *DP, "--batch", "10", "--dry-run", "--json", "--rounding", chosen]
    assert cli.run(words) == 0
    assumes = json.loads(capsys.readouterr().out)["guarantee"]["assumes"]
    assert (ROUNDING in assumes, PROVED_ROUNDING in assumes) == (chosen == "tested", chosen == "proved")


def test_flags_override_the_file(corpus, tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text(
        f"[data]\nfile = '{corpus}'\n[model]\nsource = 'embedded'\n[training]\nmethod = 'dp-sgd'\n"
        "noise_multiplier = 1.0\ndelta = 1e-4\nbatch = 10\nunit = 'owner'\n"
    )
    assert cli.run(["train", "--config", str(path), "--batch", "5", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["batch"] == 5
    assert document["plan"]["units"] == 20
    assert document["guarantee"]["unit"] == "owner"


@pytest.mark.parametrize("table", ["[prediction]", "[[audit]]", "[report]"])
def test_a_table_that_training_would_not_read_is_refused(corpus, tmp_path, capsys, table):
    path = tmp_path / "run.toml"
    path.write_text(
        f"[data]\nfile = '{corpus}'\n[model]\nsource = 'embedded'\n[training]\nmethod = 'sgd'\n{table}\na = 1\n"
    )
    assert cli.run(["train", "--config", str(path), "--dry-run"]) == 2
    assert f"unknown key '{table.strip('[]')}'" in capsys.readouterr().err


def test_a_model_whose_layers_mix_records_is_refused_before_anything_is_written(refused, monkeypatch):
    import torch

    from reticent.runs.training import model as model_run

    load = model_run.load_for_training

    def with_batch_norm(start, *, seed):
        model = load(start, seed=seed)
        model.module.add_module("mixing", torch.nn.BatchNorm1d(4))
        return model

    monkeypatch.setattr(model_run, "load_for_training", with_batch_norm)
    refused("'mixing' mixes the records", *DP)


def test_more_canaries_than_the_weights_have_room_for_leave_no_run_behind(refused):
    asked = ("--model", "embedded", "--lora-rank", "1", "--method", "dp-sgd", "--noise-multiplier", "1")
    refused("no room for so many canaries", *asked, "--delta", "1e-6", "--audit", "100000")


def test_the_training_text_is_not_held_out(refused, corpus, tmp_path):
    refused("the held-out text was trained on", *DP, "--holdout", corpus)
    copy = tmp_path / "copy.txt"  # a part of it, in another order, without ids and owners
    copy.write_text("Text  of record 7\ntext of record 3\n")
    refused("the held-out text was trained on", *DP, "--holdout", copy)
