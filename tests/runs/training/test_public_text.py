"""`train --method dp-sgd --public-text`: plain steps on public text first, at no cost in ε."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.errors import ConfigError
from reticent.core.guarantee import Guarantee
from reticent.core.randomness import Randomness
from reticent.data.reading.corpus_file import CorpusFile
from reticent.ledger.durable import SqliteLedger
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs import ancestry
from reticent.runs.proofs.ancestry import Shared
from reticent.runs.proofs.rederivation import rederive
from reticent.runs.report.reading import read_report
from reticent.runs.training import comparison, run
from reticent.runs.training.advice import PlanSettings, plan
from reticent.runs.training.settings import Resumption, TrainSettings
from reticent.training.batches import Units
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.source import TRAINING_ACCOUNT, PlainGradients, PrivateGradients
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.methods.public_first import PUBLIC_RATE, PublicFirstGradients
from reticent.training.optimiser import Learner, OptimiserSettings
from reticent.training.plans.plan import PlainPlan
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.training.small_models import gpt2
from tests.training.small_runs import COMPUTATION, budget, private_plan, same_weights, token_texts

RECORDS, PUBLIC = 32, 12
PRIVATE_STEPS, PUBLIC_STEPS = 4, 3


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, a tiny corpus and public text, each record with an owner."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_gpt2().save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    for name, count in (("private", RECORDS), ("public", PUBLIC)):
        rows = [
            {"id": f"r{i}", "owner": f"{name} {i}", "text": f"{name} order {i * 37} is late."} for i in range(count)
        ]
        write(folder / f"{name}.jsonl", rows)
    return folder


def write(path, rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def options(tiny, **others):
    return {
        "data": str(tiny / "private.jsonl"),
        "model": str(tiny / "model"),
        "method": "dp-sgd",
        "delta": 1e-3,
        "noise_multiplier": 1.0,
        "batch": 8,
        "epochs": 1.0,
        "public_text": str(tiny / "public.jsonl"),
        "public_batch": 4,
        **others,
    }


def settings(tiny, out=None, **others) -> TrainSettings:
    return TrainSettings.of(**options(tiny, **others), out=out)


def flags(given):
    return [part for key, value in given.items() for part in (f"--{key.replace('_', '-')}", str(value))]


def proved(folder) -> Guarantee:
    return Guarantee.from_json(json.loads((folder / "guarantee.json").read_text()))


def test_public_steps_come_first_cost_nothing_and_are_confessed(tiny, tmp_path, capsys):
    out, plain = tmp_path / "run", tmp_path / "plain"
    assert cli.run(["train", "--json", *flags(options(tiny)), "--out", str(out)]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["steps"] == PUBLIC_STEPS + PRIVATE_STEPS
    run.train(settings(tiny, plain, public_text=None, public_batch=None))
    with SqliteLedger.open(out / "ledger.db") as ledger:
        assert ledger.spent()[TRAINING_ACCOUNT] == PRIVATE_STEPS
    assert (proved(out).epsilon, proved(out).delta) == (proved(plain).epsilon, proved(plain).delta)
    compared, first = [line for line in proved(out).assumes if line not in proved(plain).assumes]
    assert compared.startswith("the starting model's training (the steps on public text) used other text: no equal")
    assert first.startswith("the model that the steps on public text started from has not seen the private text")
    assert rederive(out).agrees
    assert run.preview(settings(tiny)).guarantee.assumes == proved(out).assumes


def test_every_corpus_is_read_once_and_what_is_not_held_out_is_told(tiny, tmp_path, monkeypatch, capsys):
    """Held-out and public text were read again when needed: twice the time, and a file may change meanwhile."""
    read, load = [], CorpusFile.load
    monkeypatch.setattr(CorpusFile, "load", lambda self: (read.append(self.path.name), load(self))[1])
    write(tmp_path / "held.jsonl", [{"text": "private order 37 is late."}, {"text": "Nobody said this."}])
    given = options(tiny, holdout=str(tmp_path / "held.jsonl"), holdout_policy="patterns")
    assert cli.run(["train", *flags(given), "--out", str(tmp_path / "run")]) == 0
    assert sorted(read) == ["held.jsonl", "private.jsonl", "public.jsonl"]
    assert "The training corpus holds 1 of these texts too" in " ".join(capsys.readouterr().out.split())
    assert RunDirectory.open(tmp_path / "run").information()["results"]["evaluation"]["trained_on"] == 1
    assert read_report([tmp_path / "run"]).runs[0].notes == (
        "1 of the texts that usefulness was measured on was trained on.",
    )


def test_public_text_that_holds_a_record_is_refused_and_only_the_comparison_refuses_it(tiny, tmp_path, monkeypatch):
    rows = [{"id": "x", "text": "Something else."}, {"id": "y", "text": "private  Order 37 is late."}]
    write(tmp_path / "mixed.jsonl", rows)
    mixed = str(tmp_path / "mixed.jsonl")
    with pytest.raises(ConfigError, match="--public-text holds what the corpus holds"):
        run.preview(settings(tiny, public_text=mixed))
    with pytest.raises(ConfigError, match="--public-text holds what the corpus holds"):
        run.train(settings(tiny, tmp_path / "run", public_text=mixed))
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(ancestry.Members, "shared", lambda self, corpus: Shared(0, None))  # the broken twin
    assert run.preview(settings(tiny, public_text=mixed)).guarantee is not None


def test_public_text_of_a_protected_owner_is_refused(tiny, tmp_path):
    write(tmp_path / "mixed.jsonl", [{"id": "x", "owner": "private 3", "text": "Something else."}])
    mixed = str(tmp_path / "mixed.jsonl")
    assert run.preview(settings(tiny, public_text=mixed)).guarantee is not None  # records are protected
    with pytest.raises(ConfigError, match="--public-text holds what the corpus holds"):
        run.preview(settings(tiny, public_text=mixed, unit="owner"))


def test_a_later_run_may_not_call_the_public_text_private(tiny, tmp_path):
    run.train(settings(tiny, tmp_path / "first"))
    later = settings(
        tiny,
        data=str(tiny / "public.jsonl"),
        model=str(tmp_path / "first" / "model"),
        public_text=None,
        public_batch=None,
        batch=4,
    )
    with pytest.raises(ConfigError, match="trained plainly on text of this corpus"):
        run.preview(later)


@pytest.mark.parametrize("stop_after", [1, PUBLIC_STEPS, PUBLIC_STEPS + 2])
def test_a_run_that_was_stopped_in_either_phase_goes_on_where_it_was(tiny, tmp_path, stop_after):
    out, taken = tmp_path / "run", []
    stopped = run.train(settings(tiny, out), observe=lambda progress, _: progress.step < stop_after)
    assert (stopped.step, stopped.is_finished) == (stop_after, False)
    ledger = rederive(out).checks[-1]
    assert (ledger.name, ledger.holds) == ("ledger", False)  # nothing is released yet
    assert "as in a run that is not finished" in ledger.sentence
    finished = run.train(Resumption(resume=out), observe=lambda progress, _: taken.append(progress.step) or True)
    assert taken == list(range(stop_after + 1, PUBLIC_STEPS + PRIVATE_STEPS + 1))
    assert finished.is_finished
    assert rederive(out).agrees


def test_a_run_goes_on_with_its_own_public_text_alone(tiny, tmp_path):
    public = tmp_path / "public.jsonl"
    public.write_text((tiny / "public.jsonl").read_text())
    out = tmp_path / "run"
    run.train(settings(tiny, out, public_text=str(public)), observe=lambda progress, _: progress.step < 2)
    write(public, [{"id": "x", "text": "Another text."}])
    with pytest.raises(ConfigError, match="not the public text that this run was started with"):
        run.train(Resumption(resume=out))


def test_a_plan_with_public_text_trains_on_it_first(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "compare_on", lambda *_, **__: ())  # trains three models
    monkeypatch.setattr(comparison, "advice_on", lambda _: "None is better.")
    monkeypatch.setattr(comparison, "expectation", lambda *_: "Expected: 10 (9 to 11).")
    asked = {"records": 300, "model": "embedded", "target_epsilon": 8.0, "public_text": "public.jsonl"}
    found = plan(PlanSettings.of(**asked))
    assert found.values["public_text"] == "public.jsonl"
    assert 'public_text = "public.jsonl"' in found.config
    assert any("trained on first" in reason for reason in found.reasons)
    assert found.expectation == "Expected: 10 (9 to 11)."


def test_canaries_are_in_private_steps_alone(tiny, tmp_path):
    found = run.train(settings(tiny, tmp_path / "run", audit=20))
    assert found.measured is not None
    assert found.steps == PUBLIC_STEPS + PRIVATE_STEPS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"public_text": None}, "--public-batch is for --public-text"),
        ({"public_text": None, "public_batch": None, "public_epochs": 2.0}, "--public-epochs is for --public-text"),
        ({"optimiser": "corrected-adam"}, "corrected-adam needs noise in every step"),
        (
            {"method": "sgd", "noise_multiplier": None, "delta": None},
            "--public-text, --public-batch do not belong to method 'sgd'",
        ),
    ],
)
def test_what_public_text_cannot_be_combined_with_is_refused(tiny, given, said):
    with pytest.raises(ConfigError, match=said):
        settings(tiny, **given).check()


def test_it_is_plain_training_on_public_text_and_then_private_training_from_there(tmp_path):
    """Oracle: the two trainings one after the other, each with an optimiser of its own."""
    public, private = Units(token_texts(9, seed=1)), Units(token_texts(10, seed=2))
    first_plan, plan = PlainPlan(units=9, batch=4, epochs=2.0, seed=3), private_plan(10, 4, steps=3)
    together = gpt2()
    source = PublicFirstGradients(
        PlainGradients(together, public, first_plan, computation=COMPUTATION),
        noisy(together, private, plan, tmp_path / "together.db"),
    )
    first = trained(together, source, tmp_path / "together")
    apart = gpt2()
    plain = PlainGradients(apart, public, first_plan, computation=COMPUTATION)
    trained(apart, plain, tmp_path / "plain", learning_rate=PUBLIC_RATE)
    second = trained(apart, noisy(apart, private, plan, tmp_path / "apart.db"), tmp_path / "apart")
    assert same_weights(first, second)


def noisy(module, units, plan, path) -> PrivateGradients:
    ledger = SqliteLedger.create(path, budget(plan), accounts=[TRAINING_ACCOUNT])
    seeded = Randomness.seeded(5)
    return PrivateGradients(module, units, plan, ledger=ledger, randomness=seeded, computation=COMPUTATION)


def trained(module, source, folder, *, learning_rate=1e-2) -> Learner:
    learner = Learner(module, OptimiserSettings(learning_rate=learning_rate))
    schedule = CheckpointSchedule(seconds=1e9)
    train_learner(learner, source, checkpoints=Checkpoints(folder), schedule=schedule, seed=0)
    return learner
