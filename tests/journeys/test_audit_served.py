"""A served model audited as a user does it: what its server scores is what the same weights score here."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace
from reticent.data.canaries import make_canaries, plant_canaries, write_key
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from tests.models.remote.test_remote import NAME, serving

ATTACKS = "exposure,membership,lazy,extraction"
RECORDS = 8


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """The embedded model trained for a moment on short texts and a planted code."""
    folder = tmp_path_factory.mktemp("served")
    randomness = Randomness.seeded(5)
    whole = generate_dialogues(2 * RECORDS, randomness=randomness.child("dialogues"))
    corpus = Corpus(Record(one.id, one.text[:90]) for one in whole)
    canaries = make_canaries(
        "My code is {}.", CodeSpace(2), count=1, copies=3, randomness=randomness.child("codes")
    )
    write_corpus(
        plant_canaries(corpus[:RECORDS], canaries, randomness=randomness.child("places")), folder / "train.jsonl"
    )
    write_corpus(corpus[RECORDS:], folder / "holdout.jsonl")
    write_key(canaries, folder / "key.json")
    words = ["train", "--method", "sgd", "--model", "embedded", "--data", folder / "train.jsonl", "--seed", 3]
    words += ["--epochs", 2, "--batch", 5, "--learning-rate", 1e-3, "--out", folder / "run"]
    assert cli.run([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="module")
def model(story):
    return load_model(story / "run" / "model")


def audit(story, source, out, *arguments) -> int:
    words = ["audit", source, "--train", story / "train.jsonl", "--holdout", story / "holdout.jsonl", "--out", out]
    words += ["--canaries", story / "key.json", "--base", "embedded", "--no-cache", "--json"]
    words += ["--seed", 1, "--texts", 8]
    return cli.run([str(word) for word in [*words, *arguments]])


def findings(capsys) -> dict:
    document = json.loads(capsys.readouterr().out)
    return {(one["metric"], one["attack"]): one for one in document["findings"]} | {"document": document}


def card(model) -> dict:
    # A server counts the token that it must sample.
    return {"created": 1_700_000_000, "max_model_len": model.context_length + 1}


def test_findings_are_those_of_the_weights_here(story, model, tmp_path, capsys):
    capsys.readouterr()
    audit(story, story / "run", tmp_path / "local", "--attacks", ATTACKS)
    here = findings(capsys)
    with serving(model=model, card=card(model)) as (url, _):
        audit(story, f"{url}#{NAME}", tmp_path / "served", "--attacks", ATTACKS)
    there = findings(capsys)
    assert any("whole records are sent" in note for note in there["document"]["notes"])
    attacks = {line["attack"]: line for line in there["document"]["attacks"]}
    assert all(not attacks[name]["skipped"] for name in ATTACKS.split(","))
    # What needs whole distributions is left out and says so; its share of the error goes to the others.
    left_out = [line["skipped"] for line in attacks.values() if "distributions" in line["needs"]]
    assert left_out == ["a server scores given text but returns no distributions"]
    compared = [key for key in there if key in here and key != "document"]
    assert {metric for metric, _ in compared} >= {"auc", "exposure", "emitted_share", "discoverable_share"}
    for key in compared:
        assert there[key]["value"] == pytest.approx(here[key]["value"], abs=1e-9), key
        assert there[key]["n"] == here[key]["n"]


def test_an_audit_that_was_cut_off_asks_for_the_rest_alone(story, model, tmp_path, capsys):
    journal = tmp_path / "scores.db"
    words = ("--attacks", "membership,lazy", "--journal", journal)
    # Probes and half of the scores are answered, then the server is gone for good.
    with serving(model=model, card=card(model), faults=[None] * 30 + [(403, ())] * 1000) as (url, first):
        source = f"{url}#{NAME}"
        assert audit(story, source, tmp_path / "one", *words) == 2
        asked = first.count()
        first.faults.clear()
        assert audit(story, source, tmp_path / "two", *words) in (0, 1)
        resumed = first.count() - asked
        capsys.readouterr()
        before = first.count()
        assert audit(story, source, tmp_path / "three", *words) in (0, 1)
        again = first.count() - before
    assert again < resumed  # everything is known: what is left are probes and the trial of speed
    assert journal.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [({"scorings": frozenset()}, "no scores of prompts"), ({"has_token_ids": False}, "no ids of sampled tokens")],
)
def test_a_server_of_text_alone_has_no_scores_to_keep(story, model, tmp_path, capsys, behaviour, said):
    with serving(model=model, card=card(model), **behaviour) as (url, _):
        assert audit(story, f"{url}#{NAME}", tmp_path / "run", "--journal", tmp_path / "scores.db") == 2
    error = capsys.readouterr().err
    assert said in error
    assert "--journal" in error


def test_a_journal_belongs_to_a_served_model(story, tmp_path, capsys):
    assert audit(story, story / "run", tmp_path / "run", "--journal", tmp_path / "scores.db") == 2
    assert "served model" in capsys.readouterr().err


def test_a_local_tokenizer_serves_where_the_server_has_none(story, model, tmp_path, capsys):
    with serving(model=model, card=card(model), has_tokenizer=False) as (url, _):
        words = ("--attacks", "membership", "--tokenizer", story / "run" / "model")
        audit(story, f"{url}#{NAME}", tmp_path / "run", *words)
    assert any(metric == "auc" for metric, *_ in findings(capsys) if metric != "document")
