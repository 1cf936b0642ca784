"""Checkpoints: complete or not there, never pickled, never newer than the ledger, one process at a time."""

import json
from pathlib import Path

import pytest
import torch

from reticent.core.errors import ConfigError, LedgerError, ModelError, UsageError
from reticent.ledger.durable import SqliteLedger
from reticent.training.checkpoint import Checkpoints
from reticent.training.optimiser import Rule
from reticent.training.update_rules import Phase
from tests.training.small_models import gpt2
from tests.training.small_runs import (
    learner,
    new_ledger,
    plain_source,
    private_plan,
    private_source,
    same_weights,
    token_texts,
)


def moved(steps: int = 2, **settings):
    """A learner that took a few steps."""
    who = learner(**settings)
    source = plain_source(who.module, token_texts(8), batch=2, epochs=1.0)
    for _ in range(steps):
        who.apply(source.next().values, Phase(step=0, steps=1))
    return who, source


@pytest.mark.parametrize("rule", list(Rule))
def test_saved_then_restored_is_the_identity_and_goes_on_alike(rule, tmp_path):
    who, source = moved(rule=rule, momentum=0.5)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(who, step=2, source=source.state())
    other = learner(rule=rule, momentum=0.5)
    found = checkpoints.latest()
    assert (found.step, found.source) == (2, {"position": 2})
    found.restore(other)
    assert same_weights(who, other)
    gradient = source.next().values
    for each in (who, other):
        each.apply(gradient, Phase(step=0, steps=1))
    assert same_weights(who, other)


def test_nothing_is_pickled_and_the_last_two_are_kept(tmp_path):
    who, source = moved()
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3, 4):
        checkpoints.save(who, step=step, source=source.state())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    names = {path.name for path in (tmp_path / "step-00000004").iterdir()}
    assert names == {"weights.safetensors", "optimiser.safetensors", "state.json"}
    assert checkpoints.latest().step == 4


def test_an_unfinished_checkpoint_is_ignored_and_cleared_away(tmp_path):
    who, source = moved()
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    checkpoints.save(who, step=1, source=source.state())
    half = tmp_path / ".unfinished-00000002"
    half.mkdir()
    (half / "weights.safetensors").write_bytes(b"half")
    assert checkpoints.latest().step == 1
    checkpoints.save(who, step=2, source=source.state())
    assert checkpoints.latest().step == 2
    assert not half.exists()


def test_a_crash_before_the_rename_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    who, source = moved()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(who, step=1, source=source.state())
    monkeypatch.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError("power")))
    with pytest.raises(OSError, match="power"):
        checkpoints.save(who, step=2, source=source.state())
    assert checkpoints.latest().step == 1


@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors"])
def test_a_damaged_file_is_an_error_and_not_another_model(name, tmp_path):
    who, source = moved()
    path = Checkpoints(tmp_path).save(who, step=1, source=source.state())
    content = bytearray((path / name).read_bytes())
    content[-1] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(ConfigError, match="not what was written"):
        Checkpoints(tmp_path).latest().restore(learner())


def test_an_unknown_version_and_other_parameters_are_refused(tmp_path):
    who, source = moved()
    path = Checkpoints(tmp_path).save(who, step=1, source=source.state())
    module = gpt2()
    module.transformer.wpe.requires_grad_(False)
    with pytest.raises(ModelError, match="other parameters"):
        Checkpoints(tmp_path).latest().restore(learner(module))
    document = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(document | {"schema_version": 2}))
    with pytest.raises(ConfigError, match="schema"):
        Checkpoints(tmp_path).latest()


def test_a_checkpoint_newer_than_its_ledger_is_refused_and_an_older_one_is_not(tmp_path):
    plan, texts = private_plan(8, 4, steps=5), token_texts(8)
    rolled_back = tmp_path / "rolled back"
    rolled_back.mkdir()
    with new_ledger(tmp_path, plan) as ledger:
        with private_source(gpt2(), texts, plan, ledger) as source:
            source.next()
            for path in tmp_path.glob("ledger.db*"):  # all together: a ledger notices one without the other
                (rolled_back / path.name).write_bytes(path.read_bytes())
            older = source.state()
            source.next()
            newer = source.state()
        private_source(gpt2(), texts, plan, ledger).restore(older)
        private_source(gpt2(), texts, plan, ledger).restore(newer)
    with SqliteLedger.open(rolled_back / "ledger.db") as ledger:
        private_source(gpt2(), texts, plan, ledger).restore(older)
        with pytest.raises(LedgerError, match="newer than its ledger"):
            private_source(gpt2(), texts, plan, ledger).restore(newer)


def test_a_second_process_is_refused(tmp_path):
    with (
        Checkpoints(tmp_path).locked(),
        pytest.raises(UsageError, match="another process"),
        Checkpoints(tmp_path).locked(),
    ):
        pass
    with Checkpoints(tmp_path).locked():
        pass


def test_weights_of_a_checkpoint_load_without_us(tmp_path):
    from safetensors.torch import load_file

    who, source = moved()
    path = Checkpoints(tmp_path).save(who, step=1, source=source.state())
    stored = load_file(path / "weights.safetensors")
    assert all(torch.equal(stored[name], value) for name, value in who.weights().items())
