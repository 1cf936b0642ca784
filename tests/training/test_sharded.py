"""Weights in shards on several processes: the gradients, noise and charges are those of one process."""

import pytest
import torch

from reticent.accounting.ledger import SqliteLedger
from reticent.core.errors import ConfigError, ModelError
from reticent.core.guarantee import Unit
from reticent.core.randomness import Randomness
from reticent.training.batches import Units
from reticent.training.distributed import RankedLedger
from reticent.training.gradient_source import ACCOUNT, Computation, PrivateGradients
from reticent.training.ranks import Ranks
from reticent.training.record_loss import TokenBatch
from reticent.training.sharded import ShardedGradients, shard
from tests.training.ranked_run import STEPS, alone, plan, texts, weights_of
from tests.training.small_models import START, gpt2
from tests.training.small_runs import COMPUTATION
from tests.training.test_distributed import distance, new_ledger, together


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
        assert ledger.spent() == {ACCOUNT: float(STEPS)}
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


def test_a_row_without_a_target_has_no_gradient():
    from reticent.training.gradients.engine import PerRecordGradients

    nothing = ShardedGradients._nothing
    holder = type("Holder", (), {"_units": Units(texts()), "_module": gpt2()})()
    with PerRecordGradients(holder._module, 1.0, is_checked=False) as engine:
        found = engine.clipped_sum(nothing(holder))
    assert found.norms.tolist() == [0.0]
    assert not any(bool(torch.any(value)) for value in found.gradients.values())
