"""Redacted and selective training end to end through the command line: promises, resuming, refusals."""

import json
import math

import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.data.redaction.masking import MASK
from reticent.models.huggingface.loading import load_model
from reticent.runs.settings.file import validate
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import Resumption, TrainSettings
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

SECRET = "843-58572-7002"
NAMES = [f"Nadia{letter} Quint" for letter in "abcdefghij"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Orders that patterns find, names that only the dictionary knows, and texts that hold nothing."""
    folder = tmp_path_factory.mktemp("redacted")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    texts = [f"order {SECRET} of day {i} is late." for i in range(12)]
    texts += [f"{name} called us again." for name in NAMES for _ in range(2)]
    texts += [f"it rained for {i} days in the north." for i in range(16)]
    rows = [{"id": f"r{i}", "text": text} for i, text in enumerate(texts)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    for row in rows:
        found = next((name for name in (*NAMES, SECRET) if name in row["text"]), None)
        row["spans"] = []
        if found is not None:
            start = row["text"].index(found)
            row["spans"] = [{"start": start, "end": start + len(found), "type": "SECRET"}]
    (folder / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def redacted(files, *more):
    conservative = f"patterns,dictionary:{files / 'names.txt'}"
    return [
        *("--method", "crt", "--model", files / "model", "--data", files / "train.jsonl"),
        *("--policy", "patterns", "--conservative-policy", conservative),
        *("--noise-multiplier", 2, "--delta", "1e-4", "--epochs", 2, "--batch", 8, "--seed", 1, *more),
    ]


def run_json(capsys, *arguments):
    """The document of a run inside this process."""
    code = cli.run(["train", "--json", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_redacted_training_leaves_a_model_with_the_mask_and_all_that_was_proved(files, tmp_path, capsys):
    given = ("--miss-rate", 0.3, "--conservative-miss-rate", 0)
    dry = run_json(capsys, *redacted(files, *given, "--dry-run"))
    done = run_json(capsys, *redacted(files, *given, "--out", tmp_path / "run"))
    assert done["guarantee"] == dry["guarantee"]
    headline = Guarantee.from_json(done["guarantee"])
    beside = {name: Guarantee.from_json(each) for name, each in done["guarantees"].items()}
    assert headline.notion.value == "confidentiality"
    assert headline.neighbours.value == "mask one"
    assert headline.epsilon == beside["missed"].epsilon < math.inf
    assert beside["bayesian"].epsilon == pytest.approx(math.log1p(0.3 * math.expm1(headline.epsilon)))
    assert any("given, not measured" in line for line in headline.assumes)
    for place in ("guarantee.json", "model/guarantee.json"):
        assert Guarantee.from_json(json.loads((tmp_path / "run" / place).read_text())) == headline
    assert json.loads((tmp_path / "run" / "run.json").read_text())["results"]["guarantees"] == done["guarantees"]
    model = load_model(tmp_path / "run" / "model", device="cpu")
    assert len(model.encode([MASK])[0]) == 1
    for path in (tmp_path / "run").rglob("*.json"):
        assert SECRET not in path.read_text()
        assert "Nadia" not in path.read_text()


def test_the_operator_sees_what_redaction_did_and_may_read_it(files, tmp_path, capsys):
    kept = tmp_path / "redacted.jsonl"
    asked = redacted(
        files, "--miss-rate", 0.3, "--conservative-miss-rate", 0, "--dry-run", "--write-redacted", kept
    )
    counts = run_json(capsys, *asked)["redaction"]
    assert (counts["records"], counts["public"], counts["private"], counts["bare"]) == (48, 16, 32, 0)
    assert sum(counts["found"].values()) == 12  # the orders
    assert (counts["doubtful"], counts["repeated_spans"]) == ({"LISTED": 20}, 10)  # ten names, each twice
    assert counts["masked"] == 12 + 10
    assert kept.stat().st_mode & 0o777 == 0o600
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [row["part"] for row in rows] == ["public"] * 16 + ["private"] * 32
    assert not any(SECRET in row["text"] for row in rows)
    assert sum(NAMES[0] in row["text"] for row in rows) == 1
    assert cli.run(["train", *map(str, asked)]) == 2  # never written over
    assert "already exists" in capsys.readouterr().err
    assert cli.run(["train", *map(str, asked[:-2])]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Public records: 16 (0 duplicates dropped). Private records: 32." in said
    assert "of the words are trained with noise" in said


def test_an_lstm_is_trained_on_redacted_text_and_its_perplexity_outside_secrets_stands_on_the_page(
    files, tmp_path, capsys
):
    """What is outside is scored without the digits of the orders; --group states a group of that size."""
    asked = redacted(files, "--miss-rate", 0.3, "--conservative-miss-rate", 0, "--group", 2)
    asked[asked.index("--model") + 1] = "lstm:1x200"
    held_out = tmp_path / "held-out.jsonl"  # of the same kind: other words around the same orders
    rows = map(json.loads, (files / "train.jsonl").read_text().splitlines())
    held_out.write_text("".join(json.dumps({"text": f"{row['text']} thanks"}) + "\n" for row in rows))
    asked += ["--holdout", held_out, "--out", tmp_path / "run"]
    assert cli.run(["train", *map(str, asked)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    document = json.loads((tmp_path / "run" / "run.json").read_text())["results"]
    whole, outside = document["evaluation"], document["evaluation"]["outside"]
    assert outside["tokens"] < whole["tokens"]
    assert outside["perplexity"] != pytest.approx(whole["perplexity"], rel=1e-3)
    assert f"Outside the secrets that the policy finds in it: perplexity {outside['perplexity']:,.2f}" in said
    pair, one = (Guarantee.from_json(document["guarantees"][name]) for name in ("group", "missed"))
    assert pair.covers.startswith("2 secrets together")
    assert one.epsilon < pair.epsilon
    assert cli.run(["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]) == 0
    assert "held-out perplexity outside secrets" in (tmp_path / "page.html").read_text().lower()


def test_measured_miss_rates_are_upper_ends_and_make_the_worst_case_infinite(files, capsys):
    found = run_json(capsys, *redacted(files, "--labelled", files / "labelled.jsonl", "--dry-run"))
    assert found["guarantee"]["epsilon"] == "inf"
    misses = found["plan"]["misses"]
    # 20 of 32 secrets are names: Clopper–Pearson 0.437 to 0.789; none is public, which is not a rate of zero.
    assert misses["policy"] == pytest.approx(0.789, abs=1e-3)
    assert misses["both"] == pytest.approx(0.1089, abs=1e-4)
    assert found["guarantees"]["bayesian"]["delta"] == pytest.approx(misses["both"] + misses["policy"] * 1e-4)
    assert cli.run(["train", *map(str, redacted(files, "--labelled", files / "labelled.jsonl", "--dry-run"))]) == 0
    said = capsys.readouterr().out
    assert "Would be proved: nothing, ε = ∞, for a secret that both policies miss" in said
    assert "Would be proved as well (missed): (" in said
    assert "proved as well (group): nothing, since δ = 1 (ε = " in said
    assert "Proved" not in said


def config_of(files, **training):
    conservative = f"patterns,dictionary:{files / 'names.txt'}"
    values = {
        "method": "crt",
        "policy": "patterns",
        "conservative_policy": conservative,
        "conservative_miss_rate": 0.0,
        "noise_multiplier": 2.0,
        "delta": 1e-4,
        "epochs": 2.0,
        "batch": 8,
    }
    tables = {
        "data": {"file": str(files / "train.jsonl")},
        "model": {"source": str(files / "model")},
        "training": values | training,
        "seed": 1,
    }
    return validate(TrainSettings, tables, where="a test")


def test_an_interrupted_redacted_run_goes_on_and_refuses_other_policies(files, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text((files / "names.txt").read_text())
    config = config_of(files, conservative_policy=f"patterns,dictionary:{names}")
    epsilons: list[float | None] = []

    def observe(progress, epsilon):
        epsilons.append(epsilon)
        return progress.step != 4

    stopped = training_run.train(config.into(tmp_path / "run"), observe=observe)
    assert not stopped.is_finished
    assert epsilons[0] == 0.0  # a public step
    names.write_text("Somebody Else\n")
    with pytest.raises(ConfigError, match="policies find other spans"):
        training_run.train(Resumption(resume=tmp_path / "run"), observe=lambda *_: True)
    names.write_text((files / "names.txt").read_text())
    done = training_run.train(
        Resumption(resume=tmp_path / "run"), observe=lambda _, epsilon: epsilons.append(epsilon) or True
    )
    assert done.is_finished
    assert epsilons[-1] == pytest.approx(done.other_guarantees["missed"].epsilon)
    assert (
        training_run.train(Resumption(resume=tmp_path / "run"), observe=lambda *_: True).other_guarantees
        == done.other_guarantees
    )


def test_without_a_conservative_policy_everything_is_trained_with_noise(files, tmp_path):
    config = config_of(files, conservative_policy=None, conservative_miss_rate=None, epochs=1.0)
    done = training_run.train(config.into(tmp_path / "run"), observe=lambda *_: True)
    plan = json.loads((tmp_path / "run" / "training.json").read_text())["plan"]
    assert plan["public"] is None
    assert plan["private"]["units"] == 48
    # A miss rate that was neither given nor measured is taken as 1: nothing is assumed of it.
    assert not any("miss rate" in line or "misses at most" in line for line in done.guarantee.assumes)
    given = config_of(files, conservative_policy=None, conservative_miss_rate=None, epochs=1.0, miss_rate=0.2)
    assumed = training_run.preview(given).guarantee.assumes
    assert "the policy misses at most 0.2 of all secrets (given, not measured)" in assumed
    assert done.other_guarantees["bayesian"].epsilon == pytest.approx(done.guarantee.epsilon)


def test_selective_training_says_what_it_does_not_protect(files, tmp_path, capsys):
    arguments = [
        *("--method", "selective", "--model", "lstm:1x200", "--data", files / "train.jsonl", "--seed", 1),
        *("--policy", "patterns", "--noise-multiplier", 9, "--delta", "1e-4", "--epochs", 1, "--batch", 24),
    ]
    done = run_json(capsys, *arguments, "--out", tmp_path / "run")
    assert done["finished"]
    assert done["guarantee"]["epsilon"] == "inf"
    assert "misses is trained on plainly" in done["guarantee"]["covers"]
    assert 0 < done["guarantees"]["marked"]["epsilon"] < 10
    perfect = run_json(capsys, *arguments, "--miss-rate", 0, "--dry-run")
    assert perfect["guarantee"]["epsilon"] == done["guarantees"]["marked"]["epsilon"]
    load_model(tmp_path / "run" / "model", device="cpu")


CRT = ("--method", "crt", "--policy", "patterns")
SELECTIVE = ("--method", "selective", "--policy", "patterns")
NOBODY = "dictionary:{files}/nobody.txt"


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("needs a policy", CRT[:2]),
        ("that rate must be known", (*CRT, "--conservative-policy", "patterns")),
        ("none is given", (*CRT, "--conservative-miss-rate", "0")),
        ("not both", (*CRT, "--miss-rate", "0.1", "--labelled", "x")),
        ("--unit", (*CRT, "--unit", "owner")),
        (
            "policies find nothing",
            (*CRT[:3], NOBODY, "--conservative-policy", NOBODY, "--conservative-miss-rate", "0"),
        ),
        ("--policy", ("--method", "dp-sgd", "--policy", "patterns")),
        ("whole epochs", (*SELECTIVE, "--epochs", "0.5")),
        ("--conservative-policy", (*SELECTIVE, "--conservative-policy", "patterns")),
        ("recurrent model alone", SELECTIVE),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_anything_is_written(message, arguments, files, tmp_path, capsys):
    (files / "nobody.txt").write_text("Nobody Atall\n")
    common = ["--model", str(files / "model"), "--data", str(files / "train.jsonl"), "--out", str(tmp_path / "run")]
    private = ["--noise-multiplier", "2", "--delta", "1e-4", "--batch", "8"]
    chosen = [argument.format(files=files) for argument in arguments]
    assert cli.run(["train", *common, *private, *chosen]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_adapters_train_on_filled_masks_and_cannot_learn_a_mask(files, tmp_path, capsys):
    """A frozen embedding has no row for the mask. Where made-up values stand in its place none is needed."""
    adapters = ("--lora-rank", 2, "--conservative-miss-rate", 0)
    arguments = [str(word) for word in redacted(files, *adapters, "--out", tmp_path / "masks")]
    assert cli.run(["train", *arguments]) == 2
    assert "--fill-masks kind" in capsys.readouterr().err
    done = run_json(capsys, *redacted(files, *adapters, "--fill-masks", "kind", "--out", tmp_path / "filled"))
    assert done["guarantee"]["epsilon"] < math.inf
    model = load_model(tmp_path / "filled" / "model")
    assert len(model.encode([MASK])[0]) > 1


def test_filled_masks_train_resume_and_mean_nothing_to_other_methods(files, tmp_path):
    config = config_of(files, fill_masks="kind")
    stopped = training_run.train(config.into(tmp_path / "run"), observe=lambda progress, _: progress.step != 4)
    assert not stopped.is_finished
    finished = training_run.train(Resumption(resume=tmp_path / "run"), observe=lambda *_: True)
    assert finished.is_finished
    assert finished.guarantee == stopped.guarantee
    # What is drawn by kind shows the kind, and every statement says so; what is drawn from all kinds does not.
    for each in (finished.guarantee, *finished.other_guarantees.values()):
        assert any("mask that names the kind" in line for line in each.assumes)
    unkind = training_run.preview(config_of(files, fill_masks="any")).guarantee
    assert not any("mask that names the kind" in line for line in unkind.assumes)
    with pytest.raises(ConfigError, match="fill"):
        config_of(
            files,
            method="dp-sgd",
            fill_masks="any",
            policy=None,
            conservative_policy=None,
            conservative_miss_rate=None,
        ).training.check()
