"""`PrivateStep` in a loop of one's own: the same steps as `reticent train`, and misuse is refused."""

import pytest
import torch

from reticent.core.errors import UsageError
from reticent.core.randomness import Randomness
from reticent.training.batches import Units
from reticent.training.private_step import PrivateBatch, PrivateStep
from tests.training.small_models import gpt2
from tests.training.small_runs import COMPUTATION, new_ledger, private_plan, private_source, token_texts


def private_step(folder, plan, module, *, audit=0) -> PrivateStep:
    ledger = new_ledger(folder, plan)
    source = Randomness.seeded(5)
    return PrivateStep(module, plan, ledger=ledger, audit=audit, randomness=source, computation=COMPUTATION)


def test_a_loop_of_ones_own_takes_the_steps_of_the_gradient_source(tmp_path):
    texts, plan = token_texts(20), private_plan(20, 5, steps=3)
    mine, ours = gpt2(), gpt2()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    with private_step(tmp_path / "a", plan, mine) as step:
        for batch in step.batches(Units(texts)):
            step.accumulate(batch)
            step.update(optimizer)
    other = torch.optim.SGD(ours.parameters(), lr=0.1)
    parameters = dict(ours.named_parameters())
    with private_source(ours, texts, plan, new_ledger(tmp_path / "b", plan)) as source:
        for _ in range(3):
            for name, value in source.next().values.items():
                parameters[name].grad = value
            other.step()
    assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), ours.parameters(), strict=True))


def test_the_ledger_is_charged_once_an_update_and_ends_the_loop(tmp_path):
    plan, module = private_plan(20, 5, steps=2), gpt2()
    ledger = new_ledger(tmp_path, plan)
    step = PrivateStep(module, plan, ledger=ledger, randomness=Randomness.seeded(1), computation=COMPUTATION)
    optimizer, taken = torch.optim.SGD(module.parameters(), lr=0.1), 0
    with step:
        for batch in step.batches(Units(token_texts(20))):
            assert ledger.spent()["training"] == taken
            step.accumulate(batch)
            assert ledger.spent()["training"] == taken
            step.update(optimizer)
            taken += 1
    assert (taken, ledger.spent()["training"]) == (2, 2)


def test_foreign_batches_second_uses_and_updates_without_a_batch_are_refused(tmp_path):
    plan, module = private_plan(20, 5, steps=2), gpt2()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with private_step(tmp_path, plan, module) as step:
        batches = step.batches(Units(token_texts(20)))
        batch = next(batches)
        with pytest.raises(UsageError, match="nothing to update"):
            step.update(optimizer)
        with pytest.raises(UsageError, match="drew itself"):
            step.accumulate(PrivateBatch([]))
        step.accumulate(batch)
        with pytest.raises(UsageError, match="drew itself"):
            step.accumulate(batch)
        step.update(optimizer)
        with pytest.raises(UsageError, match="nothing to update"):
            step.update(optimizer)
        with pytest.raises(UsageError, match="one corpus"):
            next(step.batches(Units(token_texts(20))))


def test_an_audit_needs_a_plan_that_counts_the_canaries(tmp_path):
    plan = private_plan(20, 5)
    with pytest.raises(UsageError, match="canaries"):
        private_step(tmp_path, plan, gpt2(), audit=50)


def test_a_step_without_canaries_has_no_trace(tmp_path):
    with pytest.raises(UsageError, match="no canaries"):
        _ = private_step(tmp_path, private_plan(20, 5), gpt2()).trace


def test_a_loop_of_ones_own_accounts_for_single_records_at_its_end(tmp_path):
    plan, module = private_plan(20, 5, steps=2, individual=True), gpt2()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with private_step(tmp_path, plan, module) as step:
        for batch in step.batches(Units(token_texts(20))):
            with pytest.raises(UsageError, match="at the end"):
                _ = step.individual_epsilons
            step.accumulate(batch)
            step.update(optimizer)
        found = step.individual_epsilons
    assert found.shape == (20,)
    assert (found <= plan.guarantee().epsilon).all()
