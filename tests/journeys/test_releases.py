"""Several releases of one text, and guarantees that somebody moved or edited, through the command line."""

import json
import shutil

import pytest

from reticent.accounting.guarantees import guarantee_of
from reticent.cli import main as cli
from reticent.core.event import Gaussian
from reticent.core.evidence.certificate import Certificate
from reticent.core.guarantee import Unit
from reticent.runs.proofs.corpus_ledger import CorpusLedger
from tests.claims import certify

CODES = {"Ann Dorn": 48213, "Bob Hale": 90121, "Cid Mann": 33817, "Dee Park": 72645, "Eve Ruth": 15590}
DP = [
    "--method",
    "dp-sgd",
    "--target-epsilon",
    "2",
    "--delta",
    "1e-3",
    "--batch",
    "3",
    "--epochs",
    "1",
    "--unit",
    "owner",
]


def run(*words):
    return cli.run([str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus of five owners, a model trained plainly on it and one trained privately."""
    folder = tmp_path_factory.mktemp("releases")
    lines = [
        json.dumps({"id": str(i), "owner": name, "text": f"The code of {name} is {code}."})
        for i, (name, code) in enumerate(CODES.items())
    ]
    (folder / "codes.jsonl").write_text("\n".join(lines) + "\n")
    train = ["train", "--data", folder / "codes.jsonl", "--model", "embedded"]
    assert run(*train, "--method", "sgd", "--batch", 3, "--out", folder / "plain") == 0
    ledger = ["--corpus-ledger", folder / "codes.ledger"]
    assert run(*train, *DP, *ledger, "--out", folder / "private") == 0
    return folder


@pytest.fixture
def private(place, tmp_path):
    shutil.copytree(place / "private", tmp_path / "private")
    return tmp_path / "private"


@pytest.mark.parametrize("method", [DP, ["--method", "submix", "--parts", "2"]], ids=["dp-sgd", "submix"])
@pytest.mark.parametrize("named", ["plain", "plain/model"])
def test_a_model_trained_plainly_on_the_text_is_no_public_model(place, tmp_path, capsys, method, named):
    words = ["train", *method, "--data", place / "codes.jsonl", "--model", place / named, "--out", tmp_path / "out"]
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert "trained plainly on text of this corpus" in error
    assert "48213" not in error
    assert not (tmp_path / "out").exists()
    assert run(*words[:-2], "--dry-run") == 2


def test_a_second_private_training_states_the_sum_and_its_own_part(place, tmp_path, capsys):
    words = ["train", *DP, "--data", place / "codes.jsonl", "--model", place / "private" / "model", "--json"]
    ledger = ["--corpus-ledger", place / "codes.ledger"]
    assert run(*words, *ledger, "--out", tmp_path / "second") == 0
    document = json.loads(capsys.readouterr().out)
    alone = document["guarantees"]["this run alone"]["epsilon"]
    assert 1.9 < alone <= 2.0 < document["guarantee"]["epsilon"] <= 4.0
    stored = json.loads((tmp_path / "second" / "model" / "guarantee.json").read_text())
    assert stored["epsilon"] == document["guarantee"]["epsilon"]
    together = document["guarantees"]["all releases of the corpus"]
    assert together["epsilon"] == pytest.approx(document["guarantee"]["epsilon"], rel=1e-6)  # it saw these two
    assert run("bound", tmp_path / "second", "--json") == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {check["check"] for check in checks} >= {"epsilon", "this run alone", "weights", "ledger"}
    assert all(check["holds"] for check in checks)
    assert run("ledger", "corpus", place / "codes.ledger", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [release["run"] for release in listed["releases"]] == ["private", "second"]
    assert run("ledger", "corpus", tmp_path / "none") == 2


def test_private_answers_over_a_private_base_state_what_both_reveal(place, tmp_path, capsys):
    """DP-SGD weights as the public model of an ensemble on the same text: one promise, and one list of releases."""
    kept, ensemble = tmp_path / "hybrid.ledger", tmp_path / "ensemble"
    words = ["train", "--method", "submix", "--parts", 2, "--lora-rank", 1, "--batch", 3, "--seed", 3]
    base = ["--model", place / "private" / "model", "--corpus-ledger", kept]
    assert run(*words, *base, "--data", place / "codes.jsonl", "--out", ensemble) == 0
    capsys.readouterr()
    asked = ["--epsilon", 3, "--delta", 1e-3, "--unit", "owner", "--queries", 50, "--max-tokens", 2, "--json"]
    assert run("predict", ensemble, "--prompt", "The code", *asked) == 0
    whole = json.loads(capsys.readouterr().out)["guarantee"]
    assert whole["epsilon"] > 3.0 + 1.9  # the base proves 2 where an owner is added, and more where one is replaced
    assert whole["delta"] == pytest.approx(2e-3)
    listed = CorpusLedger(kept).entries()
    assert [entry.run for entry in listed] == ["private", "ensemble"]


def test_a_training_that_the_corpus_ledger_does_not_list_is_entered_with_the_one_that_follows(
    place, private, tmp_path, capsys
):
    """Else "all releases" would be less than the run that started from one of them."""
    words = ["train", *DP, "--data", place / "codes.jsonl", "--model", private / "model", "--json"]
    words += ["--corpus-ledger", tmp_path / "late.ledger"]
    for last in (["--dry-run"], ["--out", tmp_path / "second"]):
        assert run(*words, *last) == 0
        document = json.loads(capsys.readouterr().out)
        together = document["guarantees"]["all releases of the corpus"]["epsilon"]
        assert together == pytest.approx(document["guarantee"]["epsilon"], rel=1e-6)
    assert [entry.run for entry in CorpusLedger(tmp_path / "late.ledger").entries()] == ["private", "second"]


def test_weights_put_into_a_private_run_are_not_taken_for_its_own(place, private, tmp_path, capsys):
    """Plain weights in a private run's folder, in its model's place or beside it, have no part in its promise."""
    shutil.copytree(place / "plain" / "model", private / "other")
    words = ["train", *DP, "--data", place / "codes.jsonl", "--out", tmp_path / "out", "--model"]
    assert run(*words, private / "other") == 2
    assert "did not release them" in capsys.readouterr().err
    shutil.copytree(private / "other", private / "kept" / "other")  # where no ledger lies beside it
    certify(private / "kept" / "other", guarantee_of(Gaussian(100.0), delta=1e-3, unit=Unit.OWNER))
    assert run(*words, private / "kept" / "other") == 2
    assert "a guarantee of another event" in capsys.readouterr().err
    shutil.copy(private / "other" / "model.safetensors", private / "model" / "model.safetensors")
    for named in (private / "model", private):
        assert run(*words, named) == 2
        assert "not written for the weights beside it" in capsys.readouterr().err


def test_a_folder_of_the_embedded_models_name_is_not_taken_for_that_model(place, tmp_path, capsys, monkeypatch):
    (tmp_path / "embedded").symlink_to(place / "plain" / "model")
    monkeypatch.chdir(tmp_path)
    for last in (["--dry-run"], ["--out", "out"]):
        assert run("train", *DP, "--data", place / "codes.jsonl", "--model", "embedded", *last) == 2
        assert "trained plainly on text of this corpus" in capsys.readouterr().err


def test_a_run_that_kept_no_ancestry_is_told_by_the_fingerprint_of_its_corpus(place, tmp_path, capsys):
    shutil.copytree(place / "plain", tmp_path / "old")
    (tmp_path / "old" / "ancestry.json").unlink()
    words = ["train", *DP, "--data", place / "codes.jsonl", "--model", tmp_path / "old" / "model", "--dry-run"]
    assert run(*words) == 2
    assert "trained plainly on text of this corpus" in capsys.readouterr().err


def readers(run_path, place, out):
    """Every verb that reads a guarantee."""
    corpus = place / "codes.jsonl"
    audit = ["audit", run_path, "--train", corpus, "--holdout", corpus, "--attacks", "membership", "--out", out]
    return [audit, ["serve", run_path, "--dry-run"], ["report", run_path, "--out", out.with_suffix(".html")]]


def test_a_guarantee_with_an_edited_epsilon_is_believed_by_nobody(private, place, tmp_path, capsys):
    stored = private / "model" / "guarantee.json"
    document = json.loads(stored.read_text())
    stored.write_text(json.dumps(document | {"epsilon": 0.1}))
    assert Certificate.read(stored.parent).guarantee.epsilon == 0.1  # the twin that believes what it reads
    for words in readers(private, place, tmp_path / "out"):
        assert run(*words) == 2
        assert "does not follow from what was done" in capsys.readouterr().err
    assert run("bound", private) == 1
    assert "DO NOT AGREE" in capsys.readouterr().out


def test_a_guarantee_beside_other_weights_is_believed_by_nobody(private, place, tmp_path, capsys):
    shutil.copy(place / "plain" / "model" / "model.safetensors", private / "model" / "model.safetensors")
    for words in readers(private, place, tmp_path / "out"):
        assert run(*words) == 2
        assert "not written for the weights beside it" in capsys.readouterr().err
    assert run("bound", private) == 1
    assert "NOT the ones" in capsys.readouterr().out


def test_an_event_that_the_ledger_did_not_pay_for_is_believed_by_nobody(private, place, tmp_path, capsys):
    """Edited consistently, ε and event agree; the ledger beside them does not."""
    stored = private / "model" / "guarantee.json"
    edited = json.loads(stored.read_text().replace('"count": 2', '"count": 1'))
    stored.write_text(json.dumps(edited))
    assert run("bound", private, "--json") == 1
    derived = json.loads(capsys.readouterr().out)["derived"]["epsilon"]
    stored.write_text(json.dumps(edited | {"epsilon": derived}))
    assert run("bound", private) == 1
    assert "ANOTHER guarantee" in capsys.readouterr().out
    for words in readers(private, place, tmp_path / "out"):
        assert run(*words) == 2
        assert "made for another guarantee" in capsys.readouterr().err


@pytest.mark.parametrize(
    "paid",
    [None, {"rows": 2, "digest": "0" * 64}, {"rows": 99, "digest": "0" * 64}],
    ids=["none", "another", "one that is still to come"],
)
def test_a_guarantee_whose_last_charge_the_ledger_does_not_hold_is_believed_by_nobody(
    private, place, tmp_path, capsys, paid
):
    """All else is true: the event, ε and the weights; only the charge that paid for them is named by nobody."""
    for stored in (private / "model" / "guarantee.json", private / "guarantee.json"):
        stored.write_text(json.dumps(json.loads(stored.read_text()) | {"ledger": paid}))
    for words in readers(private, place, tmp_path / "out"):
        assert run(*words) == 2
        assert "did not pay for the weights beside it" in capsys.readouterr().err
    assert run("bound", private) == 1
    assert "does NOT contain the charge that paid for these weights" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("change", [{"unit": "record"}, {"assumes": []}], ids=["unit", "assumes"])
def test_words_that_change_a_promise_are_bound_by_the_ledger(private, place, tmp_path, capsys, change):
    """ε follows from the event whatever unit it is said of, so that deriving it again shows nothing."""
    stored = private / "model" / "guarantee.json"
    stored.write_text(json.dumps(json.loads(stored.read_text()) | change))
    link = tmp_path / "link"
    link.symlink_to(private / "model")
    for words in [*readers(private, place, tmp_path / "out"), readers(link, place, tmp_path / "out")[0]]:
        assert run(*words) == 2
        assert "made for another guarantee" in capsys.readouterr().err
    for named in (private, private / "model", link):
        assert run("bound", named) == 1
        assert "ANOTHER guarantee" in capsys.readouterr().out


def test_the_copy_of_a_guarantee_that_a_run_keeps_is_checked_with_it(private, capsys):
    copy = private / "guarantee.json"
    document = json.loads(copy.read_text())
    copy.write_text(json.dumps(document | {"epsilon": 0.1}))
    assert run("bound", private) == 1
    assert "does NOT say the same" in " ".join(capsys.readouterr().out.split())
    copy.unlink()
    assert run("bound", private, "--json") == 0
    checks = {check["check"]: check["holds"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["weights"]  # and not the ledger alone


def test_a_statement_beside_the_guarantee_is_about_the_same_event(private, place, tmp_path, capsys):
    """A cheaper event with the ε that follows from it, smuggled in as a further statement of the run."""
    cheap = guarantee_of(Gaussian(100.0), delta=1e-3, unit=Unit.OWNER).to_json()
    for name, inside in (("training.json", ()), ("run.json", ("results",))):
        document = json.loads((private / name).read_text())
        holder = document
        for key in inside:
            holder = holder[key]
        holder["guarantees"]["missed"] = cheap
        (private / name).write_text(json.dumps(document))
    audit, _, report = readers(private, place, tmp_path / "out")
    for words in (audit, report):
        assert run(*words) == 2
        assert "about another event" in capsys.readouterr().err
    assert run("bound", private) == 1
    assert "ANOTHER event" in capsys.readouterr().out


@pytest.mark.parametrize("broken", [[], 3, {"missed": {}}, {"missed": None}, {"missed": "ε"}])
def test_damaged_statements_are_one_sentence(private, place, tmp_path, capsys, broken):
    document = json.loads((private / "training.json").read_text())
    (private / "training.json").write_text(json.dumps(document | {"guarantees": broken}))
    for words in (["bound", private], readers(private, place, tmp_path / "out")[0]):
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1


def test_a_third_party_derives_epsilon_from_the_file_alone(private, tmp_path, capsys):
    shutil.copy(private / "model" / "guarantee.json", tmp_path / "guarantee.json")
    assert run("bound", tmp_path / "guarantee.json", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["agrees"]
    assert document["derived"]["epsilon"] == pytest.approx(document["stated"]["epsilon"])
    unseen = {check["check"] for check in document["checks"] if check["holds"] is None}
    assert unseen == {"weights", "ledger"}
    assert run("bound", tmp_path / "nothing") == 2
    assert "no guarantee is stated here" in capsys.readouterr().err
