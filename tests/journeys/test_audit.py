"""The audit through the command line: a model that learnt secrets by heart, its false promises, and the gate."""

import json
import shutil

import pytest

from reticent.accounting.bounds.ceiling import ceiling
from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.evidence.certificate import Certificate
from reticent.core.finding import Finding
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace
from reticent.data.canaries import make_canaries, plant_canaries, read_key, write_key
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from tests.claims import certify, claim
from tests.journeys.commands import reticent

DIALOGUES, HELD_OUT, COPIES = 60, 60, 12
SMALL = ("--records", 60, "--texts", 24, "--seed", 1)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """The embedded model trained without defence on 60 dialogues and 2 secrets planted 12 times each."""
    folder = tmp_path_factory.mktemp("audit")
    randomness = Randomness.seeded(11)
    whole = generate_dialogues(DIALOGUES + HELD_OUT, randomness=randomness.child("dialogues"))
    corpus = Corpus(Record(one.id, one.text[:160], owner=one.owner) for one in whole)  # short, to be quick
    template = "USR: Hello, my customer ID is {}."
    canaries = make_canaries(template, CodeSpace(6), count=2, copies=COPIES, randomness=randomness.child("codes"))
    write_corpus(
        plant_canaries(corpus[:DIALOGUES], canaries, randomness=randomness.child("places")), folder / "train.jsonl"
    )
    write_corpus(corpus[DIALOGUES:], folder / "holdout.jsonl")
    write_key(canaries, folder / "key.json")
    arguments = ["train", "--method", "sgd", "--model", "embedded", "--data", folder / "train.jsonl", "--seed", 3]
    arguments += ["--epochs", 8, "--batch", 8, "--learning-rate", 2e-3, "--out", folder / "run"]
    assert cli.run([str(argument) for argument in arguments]) == 0
    return folder


def audit(story, model, out, *arguments) -> list[str]:
    """The words of the command."""
    words = ["audit", model, "--train", story / "train.jsonl", "--holdout", story / "holdout.jsonl", "--out", out]
    return [str(word) for word in [*words, "--cache", story / "cache", *SMALL, *arguments]]


def document_of(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def first(story):
    """The first audit, as a user runs it, with everything on."""
    return reticent(
        *audit(story, story / "run", story / "first", "--canaries", story / "key.json", "--json"),
        *("--fail-if", "auc>0.6", "--fail-if", "auc>=1", "--require", "auc<=0.6", "--require", "auc<=1"),
    )


def test_what_was_learnt_is_found_and_the_gate_says_so(story, first):
    assert first.returncode == 1, first.stderr
    assert first.stderr == ""
    document = json.loads(first.stdout)
    findings = [Finding.from_json(entry) for entry in document["findings"]]
    above = {(one.metric, one.attack) for one in findings if one.beats_null}
    assert {("largest_exposure", "canary exposure"), ("auc", "loss"), ("auc", "min-k")} <= above
    exposure = next(one for one in findings if one.metric == "exposure")
    assert exposure.value > 15.0  # of 19.93 bits
    outcomes = [(result["option"], result["outcome"], result["fails"]) for result in document["gate"]]
    assert outcomes[0] == ("--require", "exceeded", True)
    assert outcomes[1] == ("--require", "within", False)
    assert outcomes[2] == ("--fail-if", "exceeded", True)
    assert outcomes[3] in (("--fail-if", "undecided", False), ("--fail-if", "within", False))
    assert json.loads((story / "first" / "run.json").read_text())["results"]["limits_failed"] == 2
    assert "passed" not in first.stdout
    assert document["base"]["name"] == "embedded"  # what run.json says the run started from
    assert document["guarantee"] is None
    assert document["comparisons"] == []


def test_a_second_audit_comes_from_the_cache(story, first, tmp_path, capsys):
    again = audit(story, story / "run", tmp_path / "again", "--canaries", story / "key.json", "--json")
    assert cli.run(again) == 0  # without a limit nothing can be exceeded
    document = document_of(capsys)
    assert document["cached"] == ["exposure", "codes", "membership", "lazy", "extraction", "generation"]
    assert document["findings"] == json.loads(first.stdout)["findings"]


def test_no_secret_and_no_text_stands_in_any_file(story, first):
    secrets = [canary.secret.reveal() for canary in read_key(story / "key.json")]
    words = [json.loads(line)["text"][:24] for line in (story / "train.jsonl").read_text().splitlines()[:40]]
    files = [*(story / "first").iterdir(), *(story / "cache").glob("*.json")]
    assert len(files) >= 11  # other tests keep scores in the same cache
    written = "".join(path.read_text(encoding="utf8") for path in files) + first.stdout + first.stderr
    tokens = set(written.replace('"', " ").replace(",", " ").split())
    assert not [secret for secret in secrets if secret in tokens]
    assert not [word for word in words if word in written]


def test_a_false_guarantee_beside_the_weights_is_refuted(story, first, tmp_path, capsys):
    shutil.copytree(story / "run" / "model", tmp_path / "model")
    forgotten = claim(1.0)  # of DP-SGD whose noise was forgotten
    certify(tmp_path / "model", forgotten)
    words = audit(story, tmp_path / "model", tmp_path / "out", "--base", "embedded", "--attacks", "membership")
    assert cli.run([*words, "--json"]) == 1
    document = document_of(capsys)
    refuted = [one for one in document["comparisons"] if one["verdict"] == "refuted"]
    assert refuted
    for one in refuted:
        finding = document["findings"][one["finding"]]
        assert one["ceiling"] == pytest.approx(ceiling(finding["metric"], forgotten))
        assert finding["low"] > one["ceiling"]


def test_the_tables_say_what_was_planned_skipped_and_found(story, first, tmp_path, capsys):
    words = audit(story, "embedded", tmp_path / "out", "--attacks", "membership,lazy", "--no-cache")
    words.remove("--cache")
    words.remove(str(story / "cache"))
    assert cli.run(words) == 0
    shown = capsys.readouterr().out
    for said in (
        "Plan",
        "Skipped: lazy: no base model",
        "AUC (auc), null 0.5",
        "No finding proves",
        "Void: membership: tpr_at_fpr_0.001: ",
    ):
        assert said in shown
    assert "Void: true-positive rate" not in shown  # the plan has said why these rates are void
    assert "safe" not in shown
    assert shown.count("above null") == shown.count("not above null") > 0  # it never saw the dialogues


def test_a_wide_interval_raises_no_alarm_and_meets_no_requirement(story, tmp_path, capsys):
    """The embedded model never saw the dialogues: the interval of its AUC holds both 0.5 and 0.6."""
    few = ("--attacks", "membership", "--records", "8")
    assert cli.run(audit(story, "embedded", tmp_path / "alarm", *few, "--fail-if", "auc>0.6")) == 0
    assert "--fail-if auc>0.6: UNDECIDED" in capsys.readouterr().out
    assert cli.run(audit(story, "embedded", tmp_path / "gate", *few, "--require", "auc<=0.6")) == 1
    assert "--require auc<=0.6: UNDECIDED" in capsys.readouterr().out


def test_a_required_metric_that_was_not_measured_fails_with_a_sentence(story, tmp_path, capsys):
    """So few records say nothing of a rate of 0.1: every measurement of it is void."""
    few = ("--attacks", "membership", "--records", "8", "--require", "tpr_at_fpr_0.1<=0.9")
    assert cli.run(audit(story, "embedded", tmp_path / "gate", *few)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "--require tpr_at_fpr_0.1<=0.9: NOT MEASURED: every measurement is void" in shown
    assert "does not meet a requirement" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fail-if", "tpr>0.5"), "does not measure: tpr"),
        (("--require", "tpr<=0.5"), "--require names a metric that this audit does not measure: tpr"),
        (("--fail-if", "auc~0.5"), "a metric, a comparison and a number"),
        (("--attacks", "exposre"), "unknown attack 'exposre', did you mean 'exposure'?"),
        (("--require", "acu<=0.6"), "did you mean 'auc'?"),
        (("--require", "auc<=60%"), "60 % is 0.6"),
        (("--attacks", "exposure"), "no attack can run"),
        (("--budget", "soon"), "a budget is a time"),
        (("--no-cache",), "contradict"),
        (("--base", "embedded"), "the same"),
        (("--shadow-models", "3"), "in pairs"),
        (("--attacks", "shadow"), "not the directory of a training run"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(story, tmp_path, capsys, arguments, said):
    assert cli.run(audit(story, "embedded", tmp_path / "out", *arguments)) == 2
    complaint = capsys.readouterr().err
    assert said in complaint
    assert len(complaint.splitlines()) == 1


def test_secrets_are_shown_only_where_the_operator_asks(story, tmp_path, capsys):
    key = ("--canaries", story / "key.json", "--attacks", "exposure,lazy")
    assert cli.run(audit(story, story / "run", tmp_path / "open", *key, "--reveal")) == 0
    assert "do not share it" in capsys.readouterr().out
    revealed = json.loads((tmp_path / "open" / "revealed.json").read_text())["revealed"]
    secrets = {canary.secret.reveal() for canary in read_key(story / "key.json")}
    assert {entry["secret"] for entry in revealed if "secret" in entry} == secrets
    assert len([entry for entry in revealed if entry["attack"] == "lazy"]) == 20
    rest = "".join(path.read_text() for path in (tmp_path / "open").iterdir() if path.name != "revealed.json")
    assert not [secret for secret in secrets if f'"{secret}"' in rest]
    cached = "".join(path.read_text() for path in (story / "cache").glob("*.json"))
    assert not [entry for entry in revealed if entry.get("text", "nothing of the kind") in cached]


def test_a_folder_that_holds_something_is_refused(story, capsys):
    assert cli.run(audit(story, "embedded", story)) == 2
    assert "not an empty directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_private_model_passes_no_ceiling_and_its_promise_is_refuted_on_weights_without_noise(tmp_path, capsys):
    """Closing the loop at ε = 2: with noise nothing passes a ceiling, without it the same claim is refuted."""
    whole = generate_dialogues(400, randomness=Randomness.seeded(21))
    corpus = Corpus(Record(one.id, one.text[:160], owner=one.owner) for one in whole)
    canaries = make_canaries(
        "USR: Hello, my customer ID is {}.", CodeSpace(6), count=6, copies=1, randomness=Randomness.seeded(5)
    )
    write_corpus(plant_canaries(corpus[:200], canaries, randomness=Randomness.seeded(6)), tmp_path / "train.jsonl")
    write_corpus(corpus[200:], tmp_path / "holdout.jsonl")
    write_key(canaries, tmp_path / "key.json")
    shared = ["--model", "embedded", "--data", tmp_path / "train.jsonl", "--learning-rate", 2e-3, "--epochs", 10]
    private = ["--method", "dp-sgd", "--target-epsilon", 2, "--delta", 1e-4, "--batch", 50]
    for method, out in ((private, "private"), (["--method", "sgd", "--batch", 8], "plain")):
        words = ["train", *method, *shared, "--out", tmp_path / out]
        assert cli.run([str(word) for word in words]) == 0
    certify(tmp_path / "plain" / "model", Certificate.read(tmp_path / "private" / "model").guarantee)
    capsys.readouterr()
    refuted = {}
    for name, code in (("private", 0), ("plain", 1)):
        words = audit(tmp_path, tmp_path / name, tmp_path / f"audit-{name}", "--canaries", tmp_path / "key.json")
        assert cli.run([*words, "--records", "200", "--texts", "200", "--json"]) == code
        document = document_of(capsys)
        comparable = [one for one in document["comparisons"] if one["verdict"] != "not comparable"]
        assert len(comparable) > 8
        refuted[name] = [document["findings"][one["finding"]] for one in comparable if one["verdict"] == "refuted"]
    assert refuted["private"] == []
    assert len({finding["attack"] for finding in refuted["plain"]}) >= 3
