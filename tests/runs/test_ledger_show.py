"""`reticent ledger show`: a training is charged by steps, an ensemble by tokens."""

import json

import pytest

from reticent.cli import main as cli
from reticent.core.document import write_document
from reticent.core.errors import LedgerError
from reticent.core.event import Composed, NoisyVote, RealisedCharge, SampledGaussian, event_from_json, event_to_json
from reticent.core.ledger import Budget
from reticent.ledger.chain import Row, canonical
from reticent.ledger.durable import SqliteLedger
from reticent.prediction.budgets import MechanismName
from reticent.runs.directory import PREDICTION, RunDirectory
from reticent.runs.ensemble.prediction import PredictionSettings, answers_in
from reticent.server.operator.spending import STEPS
from reticent.training.plans.plan import MEASURE
from tests.reporting.sample_reports import guarantee

EVENT = SampledGaussian(1.0, 0.1)


def run_with(folder, measure: str, accounts: list[str]):
    """A run whose ledger was charged three times."""
    run = RunDirectory.for_new_run(folder)
    run.start("train", config={}, seed=None, corpora={})
    budget = Budget(measure, 30.0, guarantee(epsilon=7.98765))
    with SqliteLedger.create(run.ledger, budget, accounts=accounts) as ledger:
        for _ in range(3):
            ledger.charge(dict.fromkeys(accounts, 1.0), EVENT)
    return str(run.path)


def test_a_training_speaks_of_steps_and_never_of_tokens(tmp_path, capsys):
    run = run_with(tmp_path / "run", MEASURE, ["model"])
    assert cli.run(["ledger", "show", run]) == 0
    shown = capsys.readouterr().out
    assert "The training may take 30 noisy steps, within (ε = 7.988, δ = 1e-05)." in shown  # rounded up
    assert "3 steps in 3 charges." in shown
    assert "token" not in shown
    assert "part" not in shown
    assert cli.run(["ledger", "show", run, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["steps"] == 3.0
    assert "answers" not in document


def test_an_ensemble_speaks_of_tokens_and_of_parts(tmp_path, capsys):
    run = run_with(tmp_path / "run", "renyi", ["0", "1"])
    assert cli.run(["ledger", "show", run]) == 0
    shown = capsys.readouterr().out
    assert "Each part may spend 30 renyi" in shown
    assert "3 tokens in 3 charges. Private: do not publish." in shown
    assert "steps" not in shown
    assert "query budget" not in shown  # nobody wrote one


def test_an_ensemble_says_how_many_tokens_of_its_query_budget_are_left(tmp_path, capsys):
    run = run_with(tmp_path / "run", "renyi", ["0", "1"])
    settings = PredictionSettings(mechanism=MechanismName.SUBMIX_F, epsilon=8.0, delta=1e-5, queries=1500)
    write_document(tmp_path / "run" / PREDICTION, settings.to_json())
    assert cli.run(["ledger", "show", run]) == 0
    assert "The query budget is 1,500 tokens, of which 1,497 are left." in capsys.readouterr().out
    assert cli.run(["ledger", "show", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["queries"] == 1500


def test_the_measure_of_a_training_has_one_name():
    assert STEPS == MEASURE


def test_a_run_that_never_charged_is_not_said_to_have_lost_its_ledger(tmp_path, capsys):
    plain = RunDirectory.for_new_run(tmp_path / "plain")
    plain.start("train", config={}, seed=None, corpora={})
    assert cli.run(["ledger", "show", str(plain.path)]) == 2
    error = capsys.readouterr().err
    assert "this run has no ledger" in error
    assert "restore" not in error
    for trace in ("guarantee.json", "prediction.json", "ledger.db.head"):
        (plain.path / trace).write_text("{}")
        assert cli.run(["ledger", "show", str(plain.path)]) == 2
        assert "the ledger is missing" in capsys.readouterr().err
        (plain.path / trace).unlink()


def row_of(event, kind="charge"):
    return Row(1, "2030-05-02T12:00:00+00:00", kind, "{}", event, "")


@pytest.mark.parametrize(
    "event",
    [
        RealisedCharge(2.0, 0.5),
        Composed((RealisedCharge(2.0, 0.5),)),
        Composed(tuple(RealisedCharge(2.0, number / 7) for number in range(32))),
        Composed((NoisyVote(1.0, (1, 2, 3)), Composed((RealisedCharge(2.0, 0.5), RealisedCharge(2.0, 0.25))))),
        Composed(()),
    ],
)
def test_answers_are_counted_as_the_events_themselves_say(event):
    text = canonical(event_to_json(event))
    made = event_from_json(json.loads(text))
    count = len(made.events) if isinstance(made, Composed) and made.events else 1
    assert answers_in(row_of(text)) == count
    assert answers_in(row_of("null", "reanchor")) == 0


@pytest.mark.parametrize("text", ["null", "[]", "7", "{}", "{", "[" * 100_000 + "]" * 100_000])
def test_a_charge_without_an_event_is_refused(text):
    with pytest.raises(LedgerError, match="row 1"):
        answers_in(row_of(text))


@pytest.mark.parametrize("verb", ["show", "verify"])
@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"[" * 100_000 + b"]" * 100_000])
def test_an_address_that_is_no_operators_port_is_refused_in_one_line(verb, answer, monkeypatch, capsys):
    monkeypatch.setattr("reticent.cli.ledger._fetched", lambda *_: answer)
    assert cli.run(["ledger", verb, "http://127.0.0.1:9"]) == 2
    assert "does not answer as an operator's port" in capsys.readouterr().err
