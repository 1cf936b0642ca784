"""Private synthetic corpora through the command line: covered by what was proved, paid for, and resumed."""

import json
import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import reticent as library
from reticent.core.evidence.certificate import Certificate
from reticent.ledger.durable import SqliteLedger
from reticent.runs.ensemble.prediction import answers_given
from reticent.runs.synthesis import sources, synthesize
from reticent.runs.synthesis.draft import Draft
from tests.journeys.commands import reticent
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.patience import PATIENCE
from tests.processes import Command

SECRET = "my code is 4711."
EXTREME = ("0", "-1", "nan", "inf", "1e308", "1e-300", str(10**12), str(10**23))


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A tiny model, private text that says one secret over and over, other text and public prompts."""
    folder = tmp_path_factory.mktemp("there")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    private = [
        {"id": f"r{i}", "owner": f"o{i % 16}", "text": SECRET if i % 2 else f"order {i} is late."}
        for i in range(48)
    ]
    other = [{"id": f"h{i}", "owner": f"p{i}", "text": f"order {500 + i} is late."} for i in range(8)]
    prompts = [{"text": "hello "}, {"text": "dear "}]
    for name, rows in (("train", private), ("held", other), ("prompts", prompts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def train(there, run, method, *extra):
    basic = ("train", "--method", method, "--model", there / "model", "--data", there / "train.jsonl", "--seed", 3)
    done = reticent(*basic, "--batch", 8, "--out", run, *extra)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def private(there, tmp_path_factory):
    """A model trained with much noise."""
    noise = ("--noise-multiplier", 4, "--delta", "1e-3", "--epochs", 1)
    return train(there, tmp_path_factory.mktemp("private") / "run", "dp-sgd", *noise)


@pytest.fixture(scope="module")
def plain(there, tmp_path_factory):
    """A model that knows the secret by heart."""
    return train(there, tmp_path_factory.mktemp("plain") / "run", "sgd", "--learning-rate", 0.01, "--epochs", 20)


@pytest.fixture(scope="module")
def trained_ensemble(there, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ensemble")
    return train(there, folder / "run", "submix", "--parts", 2, "--lora-rank", 2, "--epochs", 1)


@pytest.fixture
def ensemble(trained_ensemble, tmp_path):
    """A copy of it, nothing spent."""
    return Path(shutil.copytree(trained_ensemble, tmp_path / "ensemble"))


def drawn(run, out, *extra, count=12, tokens=20):
    """`reticent synthesize`, its result and its document."""
    basic = ("synthesize", run, "--out", out, "--count", count, "--max-tokens", tokens, "--policy", "patterns")
    done = reticent(*basic, *extra, "--json")
    return done, json.loads(done.stdout) if done.stdout else None


def texts(path):
    return library.open_corpus(path).load().texts


# --- a model that was trained privately


def test_texts_of_a_private_model_have_its_guarantee_and_cost_nothing(private, tmp_path):
    out = tmp_path / "corpus.jsonl"
    with SqliteLedger.open(private / "ledger.db") as ledger:
        before = ledger.head()
    done, document = drawn(private, out)
    assert done.returncode == 0, done.stderr
    corpus = library.open_corpus(out).load()
    assert (len(corpus), len(corpus.owners), document["complete"]) == (12, 12, True)
    sheet = json.loads((tmp_path / "corpus.datasheet.json").read_text())
    proved = Certificate.read(private / "model")
    assert library.Guarantee.from_json(sheet["guarantee"]) == proved.guarantee
    assert sheet["source"]["weights"] == proved.released
    assert sheet["sampling"] == {
        "max_tokens": 20,
        "prompts": None,
        "temperature": 1.0,
        "top_k": None,
        "top_p": None,
    }
    assert sheet["figures"]["records"] == 12
    with SqliteLedger.open(private / "ledger.db") as ledger:
        assert ledger.head() == before
    page = (tmp_path / "corpus.datasheet.md").read_text()
    assert "at no further cost" in page
    assert all(assumption.split(":")[0] in page for assumption in proved.guarantee.assumes)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "corpus.datasheet.json",
        "corpus.datasheet.md",
        "corpus.jsonl",
    ]


def test_the_corpus_is_read_by_other_verbs_in_every_format(private, tmp_path):
    for name in ("a.jsonl.gz", "b.parquet", "c.csv"):
        assert drawn(private, tmp_path / name, count=3)[0].returncode == 0
        assert reticent("scan", tmp_path / name, "--policy", "patterns").returncode == 0
        assert reticent("bound", tmp_path / f"{name[0]}.datasheet.json").returncode == 0
    done, _ = drawn(private, tmp_path / "d.txt", count=3)
    assert done.returncode == 2
    assert "line breaks" in done.stderr


def test_the_datasheet_shows_no_private_text_and_no_fingerprint_of_it(private, there, ensemble, tmp_path):
    budget = ("--epsilon", 8, "--delta", "1e-5")
    assert drawn(private, tmp_path / "a.jsonl", count=3)[0].returncode == 0
    assert drawn(ensemble, tmp_path / "b.jsonl", *budget, count=3)[0].returncode == 0
    corpus = library.open_corpus(there / "train.jsonl").load()
    manifest = json.loads((ensemble / "ensemble.json").read_text())
    hidden = [SECRET, "late", corpus.fingerprint, *(member["weights"] for member in manifest["members"])]
    hidden += [member["corpus"] for member in manifest["members"]]
    with SqliteLedger.open(ensemble / "ledger.db") as ledger:
        hidden += [ledger.head().digest, ledger.identity.split()[0]]
    for path in tmp_path.glob("*.datasheet.*"):
        assert not [value for value in hidden if value in path.read_text()]


def test_an_edited_corpus_or_datasheet_is_told_from_what_was_written(private, tmp_path):
    out, sheet = tmp_path / "corpus.jsonl", tmp_path / "corpus.datasheet.json"
    assert drawn(private, out)[0].returncode == 0
    found = reticent("bound", sheet)
    assert found.returncode == 0, found.stdout
    assert "they agree" in found.stdout
    assert "the one it was written for" in found.stdout
    whole, stated = out.read_bytes(), sheet.read_text()
    out.write_bytes(whole.replace(b"synthetic-000001", b"synthetic-900001"))
    assert "NOT the one" in (changed := reticent("bound", sheet)).stdout
    assert changed.returncode == 1
    out.write_bytes(whole)
    document = json.loads(stated)
    document["guarantee"]["epsilon"] /= 2
    sheet.write_text(json.dumps(document))
    assert reticent("bound", sheet).returncode == 1
    for broken in (
        {},
        {"corpus": {"file": "../x", "digest": ""}},
        {"guarantee": {}},
        {"other_guarantees": {"x": 1}},
    ):
        sheet.write_text(json.dumps(json.loads(stated) | broken if broken else {}))
        assert reticent("bound", sheet).returncode == 2


def test_nothing_is_drawn_from_weights_that_were_not_proved_private(private, plain, tmp_path):
    done, _ = drawn(plain, tmp_path / "corpus.jsonl")
    assert done.returncode == 2
    assert "nothing was proved" in done.stderr
    edited = Path(shutil.copytree(private, tmp_path / "edited"))
    for place in (edited, edited / "model"):
        document = json.loads((place / "guarantee.json").read_text())
        (place / "guarantee.json").write_text(json.dumps(document | {"epsilon": document["epsilon"] / 2}))
    assert "does not follow" in drawn(edited, tmp_path / "corpus.jsonl")[0].stderr
    swapped = Path(shutil.copytree(private, tmp_path / "swapped"))
    shutil.copy(plain / "model" / "model.safetensors", swapped / "model")
    done, _ = drawn(swapped, tmp_path / "corpus.jsonl")
    assert done.returncode == 2
    assert "not written for the weights beside it" in done.stderr
    assert not list(tmp_path.glob("corpus*"))


def test_the_broken_twin_that_trusts_any_weights_repeats_the_secret(private, plain, tmp_path, monkeypatch):
    """What the check of the weights keeps out: a model that says in plain words what it was trained on."""
    assert drawn(private, tmp_path / "real.jsonl", count=60)[0].returncode == 0
    assert not [text for text in texts(tmp_path / "real.jsonl") if SECRET in text]
    swapped = Path(shutil.copytree(private, tmp_path / "swapped"))
    shutil.copy(plain / "model" / "model.safetensors", swapped / "model")
    monkeypatch.setattr(sources, "weights_guarantee", lambda run: Certificate.read(run / "model").guarantee)
    assert drawn(swapped, tmp_path / "twin.jsonl", count=60)[0].returncode == 0
    assert len([text for text in texts(tmp_path / "twin.jsonl") if SECRET in text]) > 10


def test_there_is_no_seed_and_no_budget_for_weights(private, tmp_path):
    for extra, said in (
        (("--seed", 1), "No such option"),
        (("--epsilon", 8), "nothing to charge"),
        (("--ledger", "postgresql://host/x#y"), "nothing to charge"),
        (("--temperature", 0), "greedy"),
        (("--top-p", 2), "top_p"),
    ):
        done, _ = drawn(private, tmp_path / "corpus.jsonl", *extra)
        assert done.returncode == 2
        assert said in done.stderr
    with pytest.raises(library.UsageError, match="unknown option 'seed'"):
        library.synthesize(private, out=tmp_path / "corpus.jsonl", seed=1)


def test_no_number_is_a_bug(private, tmp_path):
    for option in ("--count", "--max-tokens", "--temperature", "--top-k", "--top-p", "--queries", "--order"):
        for value in EXTREME:
            done, _ = drawn(private, tmp_path / f"{option}{value}.jsonl", option, value, count=1)
            assert done.returncode in (0, 2), (option, value, done.stderr)


# --- prompts and held-out text


def test_public_prompts_are_continued_in_turn_and_the_guarantee_says_so(private, there, tmp_path):
    done, _ = drawn(private, tmp_path / "corpus.jsonl", "--prompts", there / "prompts.jsonl", count=6)
    assert done.returncode == 0, done.stderr
    assert {text[:4] for text in texts(tmp_path / "corpus.jsonl")} == {"hell", "dear"}
    sheet = json.loads((tmp_path / "corpus.datasheet.json").read_text())
    assert sheet["sampling"]["prompts"] == {"file": "prompts.jsonl", "count": 2}
    assert sheet["guarantee"]["assumes"][-1].startswith("the prompts are public: ")


def test_prompts_of_private_text_are_refused(private, there, tmp_path):
    one = tmp_path / "one.jsonl"
    one.write_text(json.dumps({"text": "hello "}) + "\n" + json.dumps({"text": SECRET.upper()}) + "\n")
    known = tmp_path / "known.jsonl"
    known.write_text(json.dumps({"text": "another text", "owner": "o3"}) + "\n")
    for prompts in (there / "train.jsonl", one, known):
        done, _ = drawn(private, tmp_path / "corpus.jsonl", "--prompts", prompts)
        assert done.returncode == 2
        assert "in common" in done.stderr
        assert SECRET not in done.stderr
    (tmp_path / "none.jsonl").write_text("")
    assert drawn(private, tmp_path / "corpus.jsonl", "--prompts", tmp_path / "none.jsonl")[0].returncode == 2
    forgetful = Path(shutil.copytree(private, tmp_path / "forgetful"))
    (forgetful / "ancestry.json").unlink()
    done, _ = drawn(forgetful, tmp_path / "corpus.jsonl", "--prompts", there / "prompts.jsonl")
    assert "no trace was kept" in done.stderr


def test_what_is_computed_from_other_text_is_shown_and_not_in_the_datasheet(private, there, tmp_path):
    done, document = drawn(private, tmp_path / "corpus.jsonl", "--holdout", there / "held.jsonl")
    assert done.returncode == 0, done.stderr
    assert document["closeness"]["covered_by_guarantee"] is False
    sheet = json.loads((tmp_path / "corpus.datasheet.json").read_text())
    assert set(sheet) == {
        *("schema_version", "corpus", "guarantee", "other_guarantees", "source", "sampling", "figures", "version"),
    }
    for path in tmp_path.glob("*.datasheet.*"):
        assert "phrases" not in path.read_text()
        assert "held" not in path.read_text()


# --- an ensemble


def answers(run):
    with SqliteLedger.open(run / "ledger.db") as ledger:
        return answers_given(ledger)


def is_paid(run, document):
    """Whether the ledger holds every token of the corpus."""
    return answers(run) >= document["figures"]["tokens"]


def test_an_ensemble_is_charged_for_every_token_and_stops_at_its_budget(ensemble, tmp_path):
    budget = ("--epsilon", 8, "--delta", "1e-5", "--queries", 90)
    done, document = drawn(ensemble, tmp_path / "corpus.jsonl", *budget)
    assert done.returncode == 3, done.stderr
    assert not document["complete"]
    assert 1 <= document["figures"]["records"] < 12
    assert answers(ensemble) == 90
    assert is_paid(ensemble, document)
    sheet = json.loads((tmp_path / "corpus.datasheet.json").read_text())
    with SqliteLedger.open(ensemble / "ledger.db") as ledger:
        assert library.Guarantee.from_json(sheet["guarantee"]) == ledger.budget.guarantee
    assert "weights" not in sheet["source"]
    assert reticent("bound", tmp_path / "corpus.datasheet.json").returncode == 0
    again, _ = drawn(ensemble, tmp_path / "more.jsonl")
    assert again.returncode == 3
    assert "used up" in again.stderr
    assert not list(tmp_path.glob("more*"))
    assert answers(ensemble) == 90


@pytest.mark.parametrize("mechanism", ["pmixed", "gnmax"])
def test_mechanisms_that_are_paid_by_the_answer_stop_too(mechanism, ensemble, tmp_path):
    budget = ("--epsilon", 50, "--delta", "1e-3", "--queries", 50, "--mechanism", mechanism)
    done, document = drawn(ensemble, tmp_path / "corpus.jsonl", *budget)
    assert done.returncode == 3, done.stderr
    assert answers(ensemble) == 50
    assert is_paid(ensemble, document)


def test_the_broken_twin_that_draws_past_the_ledger_is_told_by_its_charges(ensemble, tmp_path, monkeypatch):
    """Texts of the public model and the members, drawn without a step of the predictor, are nowhere charged."""

    def uncharged(self, handles):
        rows = self._streams.look_up(handles)
        return [int(row[-1].argmax()) for row in rows]

    def append(self, handles):
        tokens = uncharged(self, handles)
        for handle, token in zip(handles, tokens, strict=True):
            self._streams.append(handle, token)
        return tokens

    monkeypatch.setattr("reticent.prediction.predictor.TokenPredictor.step", append)
    done, document = drawn(ensemble, tmp_path / "twin.jsonl", "--epsilon", 8, "--delta", "1e-5", count=2)
    assert done.returncode == 0, done.stderr
    assert not is_paid(ensemble, document)


@pytest.mark.parametrize("mechanism", ["submix", "public", "non-private"])
def test_mechanisms_without_a_guarantee_to_publish_are_refused_and_fix_nothing(
    mechanism, ensemble, there, tmp_path
):
    if mechanism == "submix":  # Algorithm 2 needs halves
        halves = ("--parts", 2, "--halves", "--lora-rank", 2, "--epochs", 0.2)
        ensemble = train(there, tmp_path / "halves", "submix", *halves)
    budget = ("--epsilon", 8, "--delta", "1e-5", "--mechanism", mechanism)
    done, _ = drawn(ensemble, tmp_path / "corpus.jsonl", *budget)
    assert done.returncode == 2
    assert ("could publish" in done.stderr) == (mechanism != "non-private")
    assert not list(tmp_path.glob("corpus*"))
    assert not [name for name in ("ledger.db", "prediction.json") if (ensemble / name).exists()]


def test_an_unfinished_or_edited_ensemble_is_refused(ensemble, tmp_path):
    member = next((ensemble / "members").glob("*/model/*.safetensors"))
    member.write_bytes(member.read_bytes()[:-1] + b"x")
    done, _ = drawn(ensemble, tmp_path / "corpus.jsonl", "--epsilon", 8, "--delta", "1e-5")
    assert done.returncode == 2
    assert "not the weights that were written" in done.stderr


# --- killed and resumed


def test_the_same_call_goes_on_where_a_killed_one_stopped(private, tmp_path, monkeypatch):
    out, draft = tmp_path / "corpus.jsonl", tmp_path / "corpus.jsonl.draft"
    monkeypatch.setattr(sources, "_TOGETHER", 4)
    add = Draft.add

    def interrupted(self, rows):
        add(self, rows)
        if len(self.texts) >= 8:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Draft, "add", interrupted)
        assert drawn(private, out)[0].returncode == 130
    kept = [json.loads(line)["text"] for line in draft.read_text().splitlines()[1:]]
    assert len(kept) == 8
    assert draft.stat().st_mode & 0o077 == 0
    draft.write_bytes(draft.read_bytes() + b'{"text": "half of a li')  # what a crash leaves
    other, _ = drawn(private, out, "--temperature", 0.7)
    assert other.returncode == 2
    assert "another call" in other.stderr
    done, document = drawn(private, out)
    assert done.returncode == 0, done.stderr
    begun = [text for text in kept if text.strip()]
    assert texts(out)[: len(begun)] == begun
    assert document["complete"]
    assert not draft.exists()
    again, _ = drawn(private, out)
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_two_calls_do_not_write_one_corpus(private, tmp_path, monkeypatch):
    out = tmp_path / "corpus.jsonl"
    with ExitStack() as stack:
        stack.enter_context(Draft.open(tmp_path / "corpus.jsonl.draft", ["mine"]))
        done, _ = drawn(private, out)
    assert done.returncode == 2
    assert "another call is writing" in done.stderr


def test_an_ensemble_that_was_killed_keeps_its_charges_and_goes_on(ensemble, tmp_path):
    out, draft = tmp_path / "corpus.jsonl", tmp_path / "corpus.jsonl.draft"
    call = ("synthesize", ensemble, "--out", out, "--count", 150, "--max-tokens", 20, "--policy", "patterns")
    running = Command(*call, "--epsilon", 8, "--delta", "1e-5", "--queries", 10_000)
    until = time.monotonic() + PATIENCE
    while not (draft.is_file() and len(draft.read_bytes().splitlines()) > 1):
        assert running.is_running, running.end(seconds=PATIENCE).stderr
        assert time.monotonic() < until
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.end(seconds=PATIENCE).returncode == -signal.SIGKILL
    spent = answers(ensemble)
    kept = [json.loads(line)["text"] for line in draft.read_text().splitlines()[1:] if line.endswith("}")]
    done, document = drawn(ensemble, out, count=150)
    assert done.returncode == 0, done.stderr
    assert spent > 0
    assert answers(ensemble) > spent
    begun = [text for text in kept if text.strip()]
    assert texts(out)[: len(begun)] == begun
    assert is_paid(ensemble, document)


def test_a_model_that_writes_nothing_is_said_and_not_waited_for(private, tmp_path, monkeypatch):
    monkeypatch.setattr(
        sources.WeightsSource, "draw", lambda _, prompts: [sources.Drawn("", 0, True) for _ in prompts]
    )
    done, _ = drawn(private, tmp_path / "corpus.jsonl", count=3)
    assert done.returncode == 2
    assert "empty texts" in done.stderr
    assert synthesize._TRIES == 20
