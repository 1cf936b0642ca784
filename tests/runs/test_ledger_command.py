"""`reticent ledger reanchor`: an operator's decision, asked for in words and recorded for good."""

import json

import pytest

from reticent.cli import main as cli
from reticent.ledger.durable import SqliteLedger, witness_path
from reticent.runs.directory import RunDirectory
from tests.ledger.ledgers import EVENT, budget_of

ACCEPT = "--nothing-was-released"


@pytest.fixture
def run(tmp_path):
    """A run whose ledger holds two charges."""
    made = RunDirectory.for_new_run(tmp_path / "run")
    made.start("train", config={}, seed=0, corpora={})
    with SqliteLedger.create(made.ledger, budget_of(4.0), accounts=["a", "b"]) as ledger:
        ledger.charge({"a": 1.0}, EVENT)
        ledger.charge({"b": 1.0}, EVENT)
    return made


def test_a_lost_witness_is_refused_with_the_command_that_accepts_the_ledger(run, capsys):
    witness_path(run.ledger).unlink()
    assert cli.run(["ledger", "verify", str(run.path)]) == 2
    assert "reticent ledger reanchor" in capsys.readouterr().err
    assert cli.run(["ledger", "reanchor", str(run.path)]) == 2  # not without the operator's word
    assert ACCEPT in capsys.readouterr().err
    assert not witness_path(run.ledger).exists()
    assert cli.run(["ledger", "reanchor", str(run.path), ACCEPT]) == 0
    assert "your word" in capsys.readouterr().out
    assert cli.run(["ledger", "verify", str(run.path)]) == 0
    capsys.readouterr()
    assert cli.run(["ledger", "show", str(run.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["reanchored"], shown["rows"]) == (1, 3)
    assert cli.run(["ledger", "show", str(run.path)]) == 0
    assert "without its witness" in " ".join(capsys.readouterr().out.split())


def test_a_ledger_that_was_never_reanchored_does_not_say_so(run, capsys):
    assert cli.run(["ledger", "show", str(run.path)]) == 0
    assert "without its witness" not in " ".join(capsys.readouterr().out.split())


def test_reanchoring_accepts_an_older_copy_but_records_it_and_never_an_edited_one(run, capsys):
    kept = run.ledger.read_bytes()
    with SqliteLedger.open(run.ledger) as ledger:
        ledger.charge({"a": 1.0}, EVENT)
    for beside in run.path.glob("ledger.db-*"):
        beside.unlink()
    run.ledger.write_bytes(kept)
    assert cli.run(["ledger", "verify", str(run.path)]) == 2
    assert "rolled back" in capsys.readouterr().err
    assert cli.run(["ledger", "reanchor", str(run.path), ACCEPT]) == 0
    with SqliteLedger.open(run.ledger) as ledger:
        assert [row.kind for row in ledger.rows()] == ["charge", "charge", "reanchor"]
    run.ledger.write_bytes(
        run.ledger.read_bytes().replace(b'"charge"', b'"chargE"').replace(b"charge{", b"chargE{")
    )
    assert cli.run(["ledger", "reanchor", str(run.path), ACCEPT]) == 2


def test_a_run_without_a_ledger_gets_none(run):
    run.ledger.unlink()
    assert cli.run(["ledger", "reanchor", str(run.path), ACCEPT]) == 2
    assert not run.ledger.exists()
