"""Weights in shards on several processes: the gradients, noise and charges are those of one process."""

import json

import pytest
import torch
from safetensors.torch import load_file

from reticent.cli import main as cli
from reticent.core.errors import ConfigError, ModelError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.runs.training.model import _check_shards
from reticent.training.batches import Units
from reticent.training.distributed.ranked import RankedLedger
from reticent.training.distributed.ranks import Ranks
from reticent.training.distributed.sharded import ShardedGradients, shard
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation, PrivateGradients
from tests.models.tiny import tiny_gpt2, tiny_tokenizer
from tests.processes import PROCESSES
from tests.training.distributed.ranked_run import (
    STEPS,
    alone,
    free_port,
    plan,
    plan_of,
    texts,
    train_shards,
    weights_of,
)
from tests.training.distributed.test_ranked import distance, end, new_ledger, together
from tests.training.killed_run import configuration
from tests.training.small_models import START, gpt2
from tests.training.small_runs import COMPUTATION


@pytest.mark.parametrize("unit", [Unit.RECORD, pytest.param(Unit.OWNER, marks=pytest.mark.slow)])
def test_sharded_gradients_noise_and_charges_are_those_of_one_process(tmp_path, unit):
    """The model's embedding is tied, so its two uses lie in different blocks of shards."""
    expected = alone(new_ledger(tmp_path / "alone", unit), unit)
    path = new_ledger(tmp_path / "together", unit)
    ranks = together(path, size=2, kind="sharded", unit=unit)
    for found in ranks:
        assert isinstance(found, dict), found
        assert distance(found["gradients"], expected) < 1e-5
        assert found["held"]
        assert found["at"] == STEPS
    assert ranks[0]["draws"] > 0
    assert ranks[1]["draws"] == 0  # neither sample nor noise
    with SqliteLedger.open(path) as ledger:
        assert ledger.spent() == {TRAINING_ACCOUNT: float(STEPS)}
        ledger.verify()


def test_sums_that_are_averaged_over_ranks_are_caught(tmp_path):
    expected = alone(new_ledger(tmp_path / "alone"), Unit.RECORD)
    found = together(new_ledger(tmp_path / "together"), size=2, kind="averaged")[0]
    assert distance(found["gradients"], expected) > 1e-3


def test_the_optimiser_moves_shards_to_the_weights_of_one_process(tmp_path):
    module, chosen = gpt2(), plan()
    with SqliteLedger.open(new_ledger(tmp_path / "alone")) as ledger:
        source = PrivateGradients(
            module,
            Units(texts()),
            chosen,
            ledger=ledger,
            randomness=Randomness.seeded(5),
            computation=COMPUTATION,
        )
        expected = weights_of(module, source)
    for found in together(new_ledger(tmp_path / "together"), size=2, kind="sharded", steps=0):
        assert isinstance(found, dict), found
        assert distance([found], [expected]) < 1e-5


def test_what_cannot_be_sharded_is_refused(tmp_path):
    module = gpt2()
    with pytest.raises(ConfigError, match="several processes"):
        shard(module, Ranks(), TokenBatch.of([[1, 2]], START))
    with SqliteLedger.open(new_ledger(tmp_path)) as ledger:
        ranked = RankedLedger(Ranks(), ledger)
        arguments = {"ledger": ranked, "randomness": Randomness.seeded(5)}
        with pytest.raises(ModelError, match="not sharded"):
            ShardedGradients(module, Units(texts()), plan(), computation=COMPUTATION, **arguments)
        both = Computation(token_budget=64, recomputes=True)
        with pytest.raises(ConfigError, match="recomputed"):
            ShardedGradients(module, Units(texts()), plan(), computation=both, **arguments)
        with pytest.raises(ConfigError, match="follows a quantile"):
            ShardedGradients(module, Units(texts()), plan_of("quantile"), computation=COMPUTATION, **arguments)


def test_a_row_without_a_target_has_no_gradient():
    from reticent.training.gradients.engine import PerRecordGradients

    nothing = ShardedGradients._nothing
    holder = type("Holder", (), {"_units": Units(texts()), "_module": gpt2()})()
    with PerRecordGradients(holder._module, 1.0, is_checked=False) as engine:
        found = engine.clipped_sum(nothing(holder))
    assert found.norms.tolist() == [0.0]
    assert not any(bool(torch.any(value)) for value in found.gradients.values())


# ---------------------------------------------------------------- whole runs


def run_shards(folder, name: str, *, size: int, stop_at: int = 0) -> str:
    """Train into folder/name on `size` processes; what went wrong, or nothing."""
    arguments = (size, free_port(), str(folder), name, stop_at)
    children = [PROCESSES.Process(target=train_shards, args=(rank, *arguments)) for rank in range(size)]
    for child in children:
        child.start()
    codes = end(children)
    errors = [path.read_text() for path in sorted(folder.glob(f"{name}-*.error"))]
    assert (set(codes) == {0}) == (not errors), (codes, errors)
    return "".join(errors)


@pytest.fixture
def folder(tmp_path):
    tiny_gpt2().save_pretrained(tmp_path / "start")
    tiny_tokenizer().save_pretrained(tmp_path / "start")
    (tmp_path / "corpus.txt").write_text("".join(f"the number of person {i} is {i * 7919}.\n" for i in range(16)))
    return tmp_path


def test_a_sharded_run_that_was_stopped_releases_the_model_of_one_process(folder):
    assert run_shards(folder, "alone", size=1) == ""
    assert run_shards(folder, "shards", size=2, stop_at=3) == ""
    assert not (folder / "shards" / "model").exists()
    assert run_shards(folder, "shards", size=2) == ""  # from the checkpoint that both put together
    weights, guarantees = [], []
    for name in ("alone", "shards"):
        weights.append(load_file(folder / name / "model" / "model.safetensors"))
        guarantees.append(json.loads((folder / name / "model" / "guarantee.json").read_text()))
        with SqliteLedger.open(folder / name / "ledger.db") as ledger:
            assert ledger.spent() == {TRAINING_ACCOUNT: 6.0}
    start = load_file(folder / "start" / "model.safetensors")
    for key, value in weights[0].items():
        assert torch.allclose(value, weights[1][key], atol=1e-5), key
    assert (
        max(float((value - start[key]).abs().max()) for key, value in weights[0].items()) > 1e-3
    )  # it was trained
    assert guarantees[0]["epsilon"] == guarantees[1]["epsilon"]


def test_the_flag_is_refused_in_one_process_and_together_with_recomputed_activations(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    options = ["--method", "dp-sgd", "--model", "start", "--data", "corpus.txt", "--noise-multiplier", "1"]
    options += ["--delta", "1e-3", "--batch", "4", "--out", "run", "--shard-weights"]
    assert cli.run(["train", *options]) == 2
    assert "torchrun" in capsys.readouterr().err
    config = configuration(folder, steps=2)
    both = config.model.model_copy(update={"shard_weights": True, "checkpoint_activations": True})
    with pytest.raises(ConfigError, match="cannot be combined"):
        _check_shards(config.model_copy(update={"model": both}), Ranks(0, 2))
    moving = configuration(folder, steps=2, method="quantile")
    sharded = moving.model.model_copy(update={"shard_weights": True})
    with pytest.raises(ConfigError, match="follows a quantile"):
        _check_shards(moving.model_copy(update={"model": sharded}), Ranks(0, 2))
    assert not (folder / "run").exists()


def test_one_process_cannot_shard(folder):
    assert "several processes" in run_shards(folder, "shards", size=1)
    assert not (folder / "shards").exists()
