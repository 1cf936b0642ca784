"""Private answers through the command line: charged before release, one budget for all, compared on other text."""

import json
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError, LedgerError
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.loading import load_model
from reticent.prediction.budgets import MechanismName
from reticent.runs.ensemble.comparison import Comparison, compare_mechanisms, mechanisms_for
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.prediction import (
    PredictionSettings,
    answering,
    answers_given,
    ledger_identity,
    settings_of,
)
from reticent.runs.ensemble.public_text import calibrate
from reticent.server.launching import Serving, promised
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

ASKED = {"epsilon": 8.0, "delta": 1e-5}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A tiny model, texts of 16 owners to train on, and held-out ones."""
    folder = tmp_path_factory.mktemp("corpus")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    for name, first in (("train", 0), ("held", 500)):
        rows = [{"id": f"r{i}", "owner": f"o{i % 16}", "text": f"order {first + i} is late."} for i in range(48)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def train(corpus, run, *extra):
    """An ensemble of two parts."""
    arguments = (
        *(
            "train",
            "--method",
            "submix",
            "--parts",
            2,
            "--model",
            corpus / "model",
            "--data",
            corpus / "train.jsonl",
        ),
        *(
            "--batch",
            8,
            "--lora-rank",
            2,
            "--learning-rate",
            0.02,
            "--epochs",
            2,
            "--seed",
            3,
            "--out",
            run,
            *extra,
        ),
    )
    assert cli.run([str(argument) for argument in arguments]) == 0
    return run


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """An ensemble, trained once."""
    return train(corpus, tmp_path_factory.mktemp("ensemble") / "run")


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it, nothing spent."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def ask(capsys, *arguments):
    """The exit code, the JSON document (None on failure) and what was complained about."""
    code = cli.run([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if code == 0 else None, captured.err


def test_first_use_fixes_the_budget_and_every_token_is_charged(run, capsys):
    first = ("predict", run, "--prompt", "order ", "--max-tokens", 5)
    assert "--epsilon is missing" in ask(capsys, *first)[2]
    capsys.readouterr()
    code, document, _ = ask(capsys, *first, "--epsilon", 8, "--delta", 1e-5)
    assert code == 0
    assert set(document) == {
        "schema_version",
        "text",
        "tokens",
        "replayed",
        "mechanism",
        "guarantee",
    }  # no costs, no chances
    guarantee = Guarantee.from_json(document["guarantee"])
    assert (guarantee.epsilon <= 8.0, guarantee.delta, guarantee.unit) == (True, 1e-5, Unit.PART)
    identity = ledger_identity(load_ensemble(run), settings_of(run, {}))
    with SqliteLedger.open(run / "ledger.db", identity=identity) as ledger:
        before = answers_given(ledger)
        assert document["tokens"] <= before <= document["tokens"] + 1  # the end token is charged and not shown
        assert 0.0 < max(ledger.spent().values()) <= ledger.budget.limit
    assert ask(capsys, *first)[0] == 0  # later uses need not repeat it
    with SqliteLedger.open(run / "ledger.db") as ledger:
        assert answers_given(ledger) > before
    for name in ("ledger.db", "prediction.json"):
        assert stat.S_IMODE((run / name).stat().st_mode) == 0o600
    code, _, complaint = ask(capsys, *first, "--epsilon", 9)
    assert (code, "already fixed" in complaint) == (2, True)
    for other in (("--queries", 5), ("--weight-limit", 0.4)):  # options are called as the command line calls them
        assert f"{other[0]} {other[1]}" in ask(capsys, *first, *other)[2]


def spent(run) -> tuple[int, float]:
    """Answers that were charged, and what the dearest part has spent."""
    with SqliteLedger.open(run / "ledger.db") as ledger:
        return answers_given(ledger), max(ledger.spent().values())


def test_a_replayed_answer_is_free_and_whatever_else_is_asked_is_charged(run, capsys):
    first = ("predict", run, "--prompt", "order ", "--max-tokens", 6, "--epsilon", 8, "--delta", 1e-5)
    _, drawn, _ = ask(capsys, *first, "--replay")
    assert drawn["replayed"] is False
    before = spent(run)
    for _ in range(2):
        _, again, _ = ask(capsys, *first, "--replay")
        assert (again["replayed"], again["text"], again["tokens"]) == (True, drawn["text"], drawn["tokens"])
    assert spent(run) == before
    kept = run / "transcript.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "order" not in kept.read_text()  # prompts may be private
    others = (
        ("predict", run, "--prompt", "order ", "--max-tokens", 6),  # a fresh draw is never free
        ("predict", run, "--prompt", "order ", "--max-tokens", 5, "--replay"),
        ("predict", run, "--prompt", "order 1", "--max-tokens", 6, "--replay"),
        ("predict", run, "--prompt", "order ", "--max-tokens", 6, "--temperature", 0.9, "--replay"),
        ("predict", run, "--prompt", "order ", "--max-tokens", 6, "--top-k", 50, "--replay"),
    )
    for other in others:
        code, fresh, _ = ask(capsys, *other)
        assert (code, fresh["replayed"]) == (0, False)
        now = spent(run)
        assert now[0] > before[0]
        before = now
    kept.unlink()  # a lost transcript costs budget, never privacy
    assert ask(capsys, *first, "--replay")[1]["replayed"] is False
    assert spent(run)[0] > before[0]


def public_text(tmp_path, name="public.jsonl", *, owner="p", first=900):
    """Public text of the same kind, of other owners, and its path."""
    rows = [{"id": f"q{i}", "owner": f"{owner}{i % 16}", "text": f"order {first + i} is late."} for i in range(48)]
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_public_text_calibrates_the_public_model_once(run, tmp_path, capsys):
    public = public_text(tmp_path)
    first = ("predict", run, "--prompt", "order ", "--max-tokens", 3)
    code, document, _ = ask(capsys, *first, "--epsilon", 8, "--delta", 1e-5, "--public", public)
    assert code == 0
    assert any("calibrated on is public" in line for line in document["guarantee"]["assumes"])
    announced, _ = promised(Serving(run=run, name="orders", settings=settings_of(run, {})))
    assert announced.to_json() == document["guarantee"]  # what `serve --dry-run` would announce
    stored = json.loads((run / "prediction.json").read_text())["calibration"]
    assert stored["temperature"] != 1.0
    assert ask(capsys, *first)[0] == 0
    assert ask(capsys, *first, "--public", public)[0] == 0
    other, fitted = public_text(tmp_path, "other.jsonl", first=800), settings_of(run, {}).calibration
    assert calibrate(run, public, stored=fitted) is fitted  # `evaluate --public` fits no second time
    assert calibrate(run, other, stored=fitted).corpus != fitted.corpus
    code, _, complaint = ask(capsys, *first, "--public", other)
    assert (code, "fixed by the first use" in complaint) == (2, True)
    file = run / "prediction.json"
    changed = json.loads(file.read_text())
    changed["calibration"]["temperature"] *= 1.1
    file.write_text(json.dumps(changed))
    with pytest.raises(LedgerError), answering(run, settings_of(run, {})):
        pass


@pytest.mark.parametrize(("owner", "first"), [("p", 20), ("o", 900)], ids=["texts", "owners"])
def test_calibrating_on_text_that_the_parts_have_seen_is_refused(run, tmp_path, owner, first):
    seen = public_text(tmp_path, owner=owner, first=first)
    with pytest.raises(ConfigError, match="trained on"):
        settings_of(run, ASKED | {"public": seen})
    assert not (run / "prediction.json").exists()


def test_public_text_that_cannot_be_compared_is_refused(run, tmp_path):
    (run / "ancestry.json").unlink()
    with pytest.raises(ConfigError, match="cannot be compared"):
        settings_of(run, ASKED | {"public": public_text(tmp_path)})


def test_a_ledger_of_another_ensemble_is_refused(corpus, run, tmp_path):
    with answering(run, settings_of(run, ASKED)):
        pass
    other = train(corpus, tmp_path / "other", "--epochs", 1)
    for name in ("ledger.db", "ledger.db.head", "prediction.json"):
        (other / name).write_bytes((run / name).read_bytes())
    with pytest.raises(LedgerError), answering(other, settings_of(other, {})):
        pass


def test_a_ledger_of_a_version_that_settled_no_order_is_found_again(run):
    """Version 0.1 wrote no order down and chose it by another rule."""
    older = PredictionSettings(mechanism=MechanismName.SUBMIX_F, epsilon=8.0, delta=1e-5)
    assert settings_of(run, ASKED).order == 3.0
    with answering(run, older) as opened:
        assert opened.guarantee.basis.event.order == 4.0
    with answering(run, settings_of(run, {})) as again:
        assert again.guarantee == opened.guarantee


def test_a_removed_settings_file_does_not_open_a_second_budget(run):
    with answering(run, settings_of(run, ASKED)):
        pass
    (run / "prediction.json").unlink()
    with pytest.raises(LedgerError, match=r"without prediction\.json"), answering(run, settings_of(run, ASKED)):
        pass


@pytest.mark.parametrize("change", [{"epsilon": 200.0}, {"mechanism": "gnmax"}, {"horizon": 5}])
def test_settings_that_were_changed_by_hand_do_not_spend_the_old_ledger(run, change):
    """What is paid by the answer has one limit at every ε: the ledger knows the settings themselves."""
    with answering(run, settings_of(run, ASKED | {"mechanism": MechanismName.PMIXED, "epsilon": 1.0})):
        pass
    file = run / "prediction.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(LedgerError), answering(run, settings_of(run, {})):
        pass


@pytest.mark.parametrize("unknown", [{"queries": 5}, {"colour": "red"}])
def test_settings_with_a_field_that_nobody_wrote_are_refused(run, capsys, unknown):
    with answering(run, settings_of(run, ASKED)):
        pass
    file = run / "prediction.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | unknown))
    code, _, complaint = ask(capsys, "predict", run, "--prompt", "order ")
    assert (code, "prediction.json" in complaint) == (2, True)


def test_owners_are_not_promised_where_the_records_named_none(run):
    manifest = json.loads((run / "ensemble.json").read_text())
    (run / "ensemble.json").write_text(json.dumps(manifest | {"unit": "record"}))
    with pytest.raises(ConfigError, match="records without owners"):
        settings_of(run, ASKED | {"unit": Unit.OWNER})


def test_spent_query_budget_answers_by_the_public_model_or_refuses(run, capsys):
    base = ("predict", run, "--prompt", "order 1", "--epsilon", 8, "--delta", 1e-5, "--queries", 3)
    codes = [ask(capsys, *base, "--max-tokens", 2, "--refuse")[0] for _ in range(4)]
    assert codes[0] == 0
    assert codes[-1] == cli.EXHAUSTED
    assert ask(capsys, *base, "--max-tokens", 2)[0] == 0


def test_a_last_day_is_fixed_by_the_first_use_and_bound_to_the_ledger(run, capsys):
    first = ("predict", run, "--prompt", "order ", "--max-tokens", 2, "--epsilon", 8, "--delta", 1e-5)
    for wrong, complaint in (
        ("2020-01-01", "a day that is over"),
        ("soon", "not a day"),
        ("2999-13-01", "not a day"),
    ):
        assert complaint in ask(capsys, *first, "--until", wrong)[2]
    assert "--until paces SubMix-F alone" in ask(capsys, *first, "--until", "2999-01-01", "--mechanism", "gnmax")[2]
    assert not (run / "ledger.db").exists()
    assert ask(capsys, *first, "--until", "2999-01-01")[0] == 0
    assert ask(capsys, *first)[0] == 0
    assert "already fixed" in ask(capsys, *first, "--until", "2999-01-02")[2]
    stored = json.loads((run / "prediction.json").read_text())
    assert stored["until"] == "2999-01-01"
    (run / "prediction.json").write_text(json.dumps(stored | {"until": "2026-12-31"}))
    assert "something else" in ask(capsys, *first)[2]


def test_what_protects_nothing_does_not_answer(run):
    for kind in (MechanismName.NON_PRIVATE, MechanismName.MEMFREE):
        with pytest.raises(ConfigError, match="protects nothing"):
            settings_of(run, ASKED | {"mechanism": kind})


def test_evaluate_compares_all_mechanisms_and_spends_nothing(corpus, run, capsys):
    code, document, complaint = ask(
        capsys,
        *("evaluate", run, "--data", corpus / "held.jsonl", "--train", corpus / "train.jsonl", "--epsilon", "2,8"),
        *("--queries", 64, "--repeats", 2, "--seed", 1),
    )
    assert code == 0, complaint
    lines = {(line["mechanism"], line["epsilon"]): line for line in document["lines"]}
    targeted = ("submix-f", "pmixed", "clipped-differences", "subsample-and-aggregate", "gnmax")
    unprotected = ("public", "non-private", "memfree")
    assert set(lines) == {(name, None) for name in unprotected} | {(n, e) for n in targeted for e in (2.0, 8.0)}
    perplexity = {key: line["perplexity"] for key, line in lines.items()}
    assert perplexity["non-private", None] < perplexity["submix-f", 8.0] < perplexity["public", None]
    assert perplexity["submix-f", 8.0] <= perplexity["submix-f", 2.0]
    assert lines["submix-f", 8.0]["guarantee"]["epsilon"] <= 8.0
    assert lines["non-private", None]["guarantee"] is None
    low, high = lines["submix-f", 8.0]["interval"]
    assert low < perplexity["submix-f", 8.0] < high
    assert not (run / "ledger.db").exists()


def test_evaluate_says_where_text_is_not_held_out_and_compares_confident_votes_on_request(
    corpus, run, tmp_path, capsys
):
    asked = ("--mechanisms", "confident-gnmax", "--queries", 16, "--repeats", 1, "--seed", 1)
    code, document, complaint = ask(capsys, "evaluate", run, "--data", corpus / "held.jsonl", *asked)
    assert code == 0, complaint
    line = next(line for line in document["lines"] if line["mechanism"] == "confident-gnmax")
    assert 7.9 < line["guarantee"]["epsilon"] <= 8.0
    assert "trained_on" not in document
    code, document, complaint = ask(capsys, "evaluate", run, "--data", corpus / "train.jsonl", *asked)
    assert code == 2
    assert "the held-out text was trained on" in complaint
    texts = {json.loads(row)["text"] for row in (corpus / "train.jsonl").read_text(encoding="utf8").splitlines()}
    mixed = tmp_path / "mixed.jsonl"  # other ids, and one text that is held out
    mixed.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*sorted(texts), "Nobody said this."]))
    code, document, complaint = ask(capsys, "evaluate", run, "--data", mixed, *asked)
    assert code == 0, complaint
    assert document["trained_on"] == len(texts)
    assert cli.run([str(word) for word in ["evaluate", run, "--data", mixed, *asked]]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"was trained on {len(texts)} of these texts" in said
    assert "No interval: the query budget reaches too few texts" in said


@pytest.fixture(scope="module")
def private(corpus, tmp_path_factory):
    """A DP-SGD run from the ensemble's base, on its text."""
    run = tmp_path_factory.mktemp("private") / "run"
    training = ("train", "--method", "dp-sgd", "--model", corpus / "model", "--data", corpus / "train.jsonl")
    noise = ("--noise-multiplier", 1, "--delta", 1e-3, "--batch", 8, "--epochs", 1, "--max-length", 16)
    assert cli.run([str(word) for word in (*training, *noise, "--out", run)]) == 0
    return run


def test_evaluate_sets_a_dp_sgd_model_and_its_answers_beside_private_ones(corpus, run, private, capsys):
    asked = (
        "evaluate",
        run,
        "--data",
        corpus / "held.jsonl",
        "--queries",
        64,
        "--epsilon",
        8,
        "--repeats",
        2,
        "--seed",
        3,
    )
    samples = ("--mechanisms", "submix-f", "--samples", 2, "--prompt", "order", "--max-tokens", 5)
    samples += ("--judge", corpus / "model", "--expect", ".")
    code, document, complaint = ask(capsys, *asked, *samples, "--dp-sgd", private)
    assert code == 0, complaint
    *others, rival = document["lines"]
    stated = json.loads((private / "model" / "guarantee.json").read_text())
    assert (rival["mechanism"], rival["epsilon"]) == ("dp-sgd", stated["epsilon"])
    assert (rival["guarantee"]["unit"], others[-1]["guarantee"]["unit"]) == ("record", "part")
    assert rival["realised"] is not None
    names = [line["mechanism"] for line in document["lines"]]
    assert [sample["mechanism"] for sample in document["samples"]] == names
    assert all(sample["prompt"] == "order" and len(sample["answers"]) == 2 for sample in document["samples"])
    judged = document["judged_held_out"]
    assert judged == pytest.approx(others[0]["perplexity"], rel=0.2)  # the judge is the public model here
    assert all(sample["judged"] > 1.0 and 0 <= sample["as_asked"] <= 2 for sample in document["samples"])
    assert not (run / "ledger.db").exists()
    assert ask(capsys, *asked, *samples, "--dp-sgd", private)[1]["samples"] == document["samples"]  # by the seed


def test_the_loss_of_a_dp_sgd_model_is_that_of_its_own_token_log_probabilities(corpus, run, private, capsys):
    asked = ("evaluate", run, "--data", corpus / "held.jsonl", "--queries", 10**6, "--repeats", 1)
    line = ask(capsys, *asked, "--mechanisms", "submix-f", "--dp-sgd", private)[1]["lines"][-1]
    model = load_model(private / "model")
    texts = [json.loads(row)["text"] for row in (corpus / "held.jsonl").read_text().splitlines()]
    losses = np.concatenate(model.token_log_probs(model.encode(texts)))
    assert line["perplexity"] == pytest.approx(np.exp(-losses.mean()))


def test_evaluate_states_perplexity_outside_secrets_beside_the_plain_one(corpus, run, private, capsys):
    asked = ("evaluate", run, "--data", corpus / "held.jsonl", "--queries", 10**6, "--repeats", 1)
    asked += ("--mechanisms", "submix-f", "--dp-sgd", private, "--policy", f"regex:{corpus / 'digits.tsv'}")
    (corpus / "digits.tsv").write_text("DIGITS\t[0-9]+\n")
    lines = ask(capsys, *asked)[1]["lines"]
    model = load_model(private / "model")
    texts = [json.loads(row)["text"] for row in (corpus / "held.jsonl").read_text().splitlines()]
    rest = np.concatenate(  # one token a character
        [
            row[[not character.isdigit() for character in text]]
            for row, text in zip(model.token_log_probs(model.encode(texts)), texts, strict=True)
        ]
    )
    assert lines[-1]["outside"]["perplexity"] == pytest.approx(np.exp(-rest.mean()))
    assert all(line["outside"]["perplexity"] != pytest.approx(line["perplexity"], rel=1e-3) for line in lines)
    assert cli.run([str(word) for word in asked]) == 0
    assert "outside" in capsys.readouterr().out
    assert all(line["outside"] is None for line in ask(capsys, *asked[:-2])[1]["lines"])
    assert "compare mechanisms" in ask(capsys, *asked, "--compare-settings")[2]


def test_only_a_model_with_a_proof_and_the_same_tokens_is_set_beside_private_answers(corpus, run, private, capsys):
    asked = ("evaluate", run, "--data", corpus / "held.jsonl", "--queries", 64)
    assert "no differential privacy is proved" in ask(capsys, *asked, "--dp-sgd", corpus / "model")[2]
    assert "at temperature 1" in ask(capsys, *asked, "--dp-sgd", private, "--temperature", 0.5)[2]
    assert "belongs to --samples" in ask(capsys, *asked, "--prompt", "order")[2]
    assert "compare mechanisms" in ask(capsys, *asked, "--compare-settings", "--samples", 1)[2]


def test_evaluate_compares_settings_of_submix_f_that_predict_then_takes(corpus, run, capsys):
    asked = ("evaluate", run, "--data", corpus / "held.jsonl", "--queries", 64, "--epsilon", 8, "--seed", 1)
    code, document, complaint = ask(capsys, *asked, "--compare-settings")
    assert code == 0, complaint
    settings = document["settings"]
    assert len(settings) == 18  # three orders, six weight limits
    assert [one["perplexity"] for one in settings] == sorted(one["perplexity"] for one in settings)
    best = settings[0]
    assert 0.0 < best["realised"] < 1.0
    chosen = settings_of(run, ASKED | {"order": best["order"], "weight_limit": best["weight_limit"]})
    assert (chosen.order, chosen.weight_limit) == (best["order"], best["weight_limit"])
    assert not (run / "ledger.db").exists()


def test_halves_allow_algorithm_2(corpus, tmp_path):
    ensemble = load_ensemble(train(corpus, tmp_path / "run", "--halves"))
    assert MechanismName.SUBMIX in mechanisms_for("all", ensemble, has_index=False)
    assert MechanismName.MEMFREE not in mechanisms_for("all", ensemble, has_index=False)
    settings = Comparison(mechanisms=(MechanismName.SUBMIX,), epsilons=(8.0,), delta=1e-5, queries=20, repeats=1)
    texts = ensemble.public.encode(["order 503 is late.", "order 504 is late."])
    lines = compare_mechanisms(ensemble, texts, settings, randomness=Randomness.seeded(0))
    assert [line.mechanism for line in lines] == [
        MechanismName.PUBLIC,
        MechanismName.NON_PRIVATE,
        MechanismName.SUBMIX,
    ]
    assert lines[-1].guarantee is not None
    assert lines[-1].guarantee.data_dependent


def test_wrong_names_and_numbers_are_refused(corpus, run, capsys):
    base = ("evaluate", run, "--data", corpus / "held.jsonl")
    assert "no such mechanism" in ask(capsys, *base, "--mechanisms", "submixx")[2]
    assert "not part of an ensemble" in ask(capsys, *base, "--mechanisms", "dp-sgd", "--epsilon", 8)[2]
    assert "positive numbers" in ask(capsys, *base, "--epsilon", "2,x")[2]
    assert "not an ensemble" in ask(capsys, "predict", corpus, "--prompt", "a", "--epsilon", 8, "--delta", 0.1)[2]


@pytest.mark.parametrize(
    "flags",
    [
        *(("--epsilon", value) for value in ("0", "-1", "nan", "inf", "1e308", "1e-300")),
        *(("--delta", value) for value in ("-1", "nan", "inf", "1e308", "1")),
        *(("--queries", value) for value in ("0", "-1", str(10**23))),
        *(("--order", value) for value in ("0", "-1", "1", "nan", "-inf", "1e308")),
        *(("--weight-limit", value) for value in ("0", "-1", "nan", "inf", "1")),
        *(("--temperature", value) for value in ("0", "-1", "nan", "inf", "1e308", "1e-300")),
        *(("--top-p", value) for value in ("0", "nan", "inf")),
        ("--top-k", "0"),
        ("--max-tokens", str(10**12)),
        ("--mechanism", "gnmax", "--delta", "0"),
        ("--mechanism", "gnmax", "--queries", str(10**12), "--epsilon", "1e-9"),
    ],
    ids=" ".join,
)
def test_numbers_that_nobody_means_are_refused_in_one_line_and_spend_nothing(run, flags, capsys):
    before = sorted(path.name for path in run.iterdir())
    asked = ["predict", str(run), "--prompt", "order", "--epsilon", "8", "--delta", "1e-5", "--max-tokens", "1"]
    capsys.readouterr()
    assert cli.run([*asked, *flags]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert sorted(path.name for path in run.iterdir()) == before


@pytest.mark.parametrize(
    "flags",
    [("--epsilon", "1e308"), ("--delta", "nan"), ("--queries", "0"), ("--repeats", str(10**12))],
    ids=" ".join,
)
def test_an_evaluation_refuses_numbers_that_nobody_means(trained, corpus, flags, capsys):
    capsys.readouterr()
    assert cli.run(["evaluate", str(trained), "--data", str(corpus / "held.jsonl"), *flags]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
