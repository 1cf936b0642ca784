"""`PrivateStep` in a loop of one's own: the same steps as `reticent train`, and misuse is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model as load_tensors
from torch import nn

from reticent.core.errors import BudgetExhausted, GuaranteeError, UsageError
from reticent.core.evidence.certificate import Certificate
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.loading import load_model
from reticent.runs.proofs.certificates import proved_of
from reticent.training.batches import Units
from reticent.training.private_step import UPDATES_ALONE, PrivateBatch, PrivateStep
from reticent.training.release import release_model
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


def test_an_optimiser_of_another_model_is_refused_before_anything_is_charged(tmp_path):
    plan, module = private_plan(20, 5, steps=2), gpt2()
    ledger = new_ledger(tmp_path, plan)
    step = PrivateStep(module, plan, ledger=ledger, randomness=Randomness.seeded(1), computation=COMPUTATION)
    others = torch.optim.SGD(gpt2().parameters(), lr=0.1)
    some = torch.optim.SGD(list(module.parameters())[1:], lr=0.1)
    with step:
        batch = next(step.batches(Units(token_texts(20))))
        step.accumulate(batch)
        for wrong in (others, some):
            with pytest.raises(UsageError, match="does not hold all parameters"):
                step.update(wrong)
        assert ledger.spent()["training"] == 0
        step.update(torch.optim.SGD(module.parameters(), lr=0.1))
    assert ledger.spent()["training"] == 1


@pytest.mark.parametrize("accumulates", [True, False])
def test_a_batch_that_was_not_released_ends_the_loop_with_an_error(tmp_path, accumulates):
    plan, module = private_plan(20, 5, steps=2), gpt2()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with private_step(tmp_path, plan, module) as step:
        batches = step.batches(Units(token_texts(20)))
        batch = next(batches)
        if accumulates:
            step.accumulate(batch)
        optimizer.step()
        with pytest.raises(UsageError, match="last sample was not released"):
            next(batches)


def test_a_spent_ledger_says_that_nothing_is_left_and_a_half_spent_one_goes_on(tmp_path):
    plan, ledger = private_plan(20, 5, steps=3), new_ledger(tmp_path, private_plan(20, 5, steps=3))

    def train(most: int) -> int:
        module, taken = gpt2(), 0
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        seed = Randomness.seeded(1)
        with PrivateStep(module, plan, ledger=ledger, randomness=seed, computation=COMPUTATION) as step:
            for batch in step.batches(Units(token_texts(20))):
                step.accumulate(batch)
                step.update(optimizer)
                taken += 1
                if taken == most:
                    break
        return taken

    assert (train(2), train(9)) == (2, 1)
    with pytest.raises(BudgetExhausted, match="paid for all 3 steps"):
        train(9)


def test_a_step_that_is_given_no_corpus_says_what_it_takes(tmp_path):
    with private_step(tmp_path, private_plan(20, 5), load_model("embedded")) as step:
        for given in (["a", "b"], "mails.jsonl", Path("mails.jsonl"), 7, []):
            with pytest.raises(UsageError, match="a step draws from a corpus") as caught:
                next(step.batches(given))
            assert "open_corpus" in caught.value.hint


def test_a_model_that_another_step_holds_is_refused_until_that_one_is_closed(tmp_path):
    plan, module, units = private_plan(20, 5, steps=2), gpt2(), Units(token_texts(20))
    for name in "abcd":
        (tmp_path / name).mkdir()
    first, second = (private_step(tmp_path / name, plan, module) for name in "ab")
    assert next(first.batches(units))
    with pytest.raises(UsageError, match="another private step is attached"):
        private_step(tmp_path / "c", plan, module)
    with pytest.raises(UsageError, match="another private step is attached"):
        next(second.batches(units))
    first.close()
    with private_step(tmp_path / "d", plan, module) as third:
        assert next(third.batches(units))


def test_a_model_without_a_trainable_parameter_is_still_told_so(tmp_path):
    module = gpt2().requires_grad_(False)
    batches = private_step(tmp_path, private_plan(20, 5), module).batches(Units(token_texts(20)))
    with pytest.raises(UsageError, match="no trainable parameter"):
        next(batches)


def test_released_weights_stand_with_the_guarantee_of_the_plan_and_its_last_charge(tmp_path):
    plan, module = private_plan(20, 5, steps=2), gpt2()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with PrivateStep(module, plan, ledger=tmp_path / "run.db", computation=COMPUTATION) as step:
        with pytest.raises(UsageError, match="moved no weights"):
            step.release(tmp_path / "early")
        for number, batch in enumerate(step.batches(Units(token_texts(20)))):
            step.accumulate(batch)
            step.update(optimizer)
            step.release(tmp_path / f"step-{number}")
        with pytest.raises(UsageError, match="a new folder"):
            step.release(tmp_path)
    with pytest.raises(UsageError, match="is closed"):
        step.release(tmp_path / "late")
    found = [Certificate.read(tmp_path / f"step-{number}") for number in range(2)]
    proved = replace(plan.guarantee(), assumes=(*plan.guarantee().assumes, UPDATES_ALONE))
    assert all(each.guarantee == proved for each in found)
    assert found[0].released != found[1].released
    with SqliteLedger.open(tmp_path / "run.db") as ledger:
        assert all(ledger.holds(each.ledger) for each in found)
        assert ledger.head() == found[1].ledger
    assert proved_of(tmp_path / "step-1") == proved
    (tmp_path / "step-1" / "guarantee.json").write_bytes((tmp_path / "step-0" / "guarantee.json").read_bytes())
    with pytest.raises(GuaranteeError, match="not written for the weights"):
        proved_of(tmp_path / "step-1")


def test_a_ledger_that_promises_something_else_releases_nothing(tmp_path):
    plan, module = private_plan(20, 5, steps=1), gpt2()
    with private_step(tmp_path, plan, module) as step:  # its ledger has a made-up guarantee
        for batch in step.batches(Units(token_texts(20))):
            step.accumulate(batch)
            step.update(torch.optim.SGD(module.parameters(), lr=0.1))
        with pytest.raises(UsageError, match="promises something else"):
            step.release(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_module_of_ones_own_is_released_as_its_tensors(tmp_path):
    module = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8, bias=False))
    module[1].weight = module[0].weight  # tied: written once
    folder = release_model(module, tmp_path / "model", certificate=Certificate(private_plan(20, 5).guarantee()))
    Certificate.read(folder).require_weights(folder)
    copy = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8, bias=False))
    copy[1].weight = copy[0].weight
    load_tensors(copy, folder / "model.safetensors")
    assert torch.equal(copy[0].weight, module[0].weight)
