"""One private step against the slow truth, and the order in which it happens."""

import numpy as np
import pytest
import torch

from reticent.core.errors import BudgetExhausted, LedgerError, UsageError
from reticent.core.guarantee import Unit
from reticent.core.ledger import Receipt
from reticent.core.randomness import Randomness
from reticent.training.batches import Units
from reticent.training.gradients.clipping import add_noise
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import TRAINING_ACCOUNT, Gradient, PrivateGradients
from reticent.training.plans.sampler import PoissonSampler
from tests.training.gradients.oracles import clipped_sum, distance, norm, record_gradients
from tests.training.small_models import START, gpt2
from tests.training.small_runs import (
    COMPUTATION,
    budget,
    new_ledger,
    private_plan,
    private_source,
    token_texts,
)


def noise_of(charge: int, gradients, plan, *, seed: int):
    """The noise that a seeded run lays over its charge number `charge`."""
    zeros = {name: torch.zeros_like(gradient) for name, gradient in gradients.items()}
    return add_noise(zeros, plan.noise_deviation, Randomness.seeded(seed).child(f"noise {charge}"))


def seed_whose_first_sample(sampler: PoissonSampler, is_wanted) -> int:
    return next(
        seed
        for seed in range(1000)
        if is_wanted(len(sampler.draw_round(Randomness.seeded(seed).child("sample 0"))[0]))
    )


def sum_without_noise(gradient: Gradient, plan, *, seed: int):
    """What was summed: the step times the public constant, less its noise."""
    noise = noise_of(1, gradient.values, plan, seed=seed)
    return {name: value * plan.normaliser - noise[name] for name, value in gradient.values.items()}


def test_a_step_is_the_clipped_sum_of_the_sample_plus_noise_over_a_public_constant(tmp_path):
    module, texts, plan = gpt2(), token_texts(20), private_plan(20, 6)
    sample = plan.sampler.draw_round(Randomness.seeded(5).child("sample 0"))[0]
    assert len(sample) not in (0, 6)  # or a normaliser taken from the batch would pass
    with new_ledger(tmp_path, plan) as ledger, private_source(module, texts, plan, ledger) as source:
        gradient = source.next()
    groups = [[texts.texts[index].tolist()] for index in sample]
    expected = clipped_sum(record_gradients(module, groups, START), plan.clip_norm)
    found = sum_without_noise(gradient, plan, seed=5)
    assert distance(found, expected) < 1e-4
    by_batch_size = {name: value * len(sample) for name, value in gradient.values.items()}
    twin = {name: value - noise_of(1, found, plan, seed=5)[name] for name, value in by_batch_size.items()}
    assert distance(twin, expected) > 0.05


def test_an_empty_sample_is_a_step_of_noise_alone_and_is_charged(tmp_path):
    plan = private_plan(20, 1)
    seed = seed_whose_first_sample(plan.sampler, lambda size: size == 0)
    with new_ledger(tmp_path, plan) as ledger:
        with private_source(gpt2(), token_texts(20), plan, ledger, seed=seed) as source:
            gradient = source.next()
        assert ledger.spent() == {TRAINING_ACCOUNT: 1.0}
    noise = noise_of(1, gradient.values, plan, seed=seed)
    assert all(torch.equal(value, noise[name] / plan.normaliser) for name, value in gradient.values.items())
    assert gradient.loss is None
    assert gradient.tokens == 0


def test_all_texts_of_an_owner_in_a_step_are_clipped_as_one(tmp_path):
    module, texts = gpt2(), token_texts(12, owners=2)
    plan = private_plan(2, 1, unit=Unit.OWNER, texts_per_unit=6)
    seed = seed_whose_first_sample(plan.sampler, lambda size: size == 1)
    with new_ledger(tmp_path, plan) as ledger, private_source(module, texts, plan, ledger, seed=seed) as source:
        found = sum_without_noise(source.next(), plan, seed=seed)
    (owner,) = plan.sampler.draw_round(Randomness.seeded(seed).child("sample 0"))[0]
    group = [text.tolist() for index, text in enumerate(texts.texts) if index % 2 == owner]
    expected = clipped_sum(record_gradients(module, [group], START), plan.clip_norm)
    assert distance(found, expected) < 3e-4  # the grid of noisy sums is 2^-18 of the noise, on every entry
    assert norm(found) <= plan.clip_norm * (1 + 1e-4)
    record_by_record = clipped_sum(record_gradients(module, [[text] for text in group], START), plan.clip_norm)
    assert norm(record_by_record) > plan.clip_norm * 1.5  # the twin's sensitivity


def test_a_unit_whose_gradient_is_not_finite_contributes_nothing_and_stops_nothing(tmp_path):
    module, texts = gpt2(tied=False), token_texts(20)
    broken = 39  # no text holds this token
    with torch.no_grad():
        module.transformer.wte.weight[broken] = float("inf")
    texts.texts[3][0] = broken
    if len(texts.texts[3]) == 1:
        pytest.fail("the broken token must be read, so its text needs another one behind it")
    plan = private_plan(20, 20)  # everyone takes part
    with new_ledger(tmp_path, plan) as ledger, private_source(module, texts, plan, ledger) as source:
        found = sum_without_noise(source.next(), plan, seed=5)
    module.transformer.wte.weight.data[broken] = 0.0
    others = [[text.tolist()] for index, text in enumerate(texts.texts) if index != 3]
    assert distance(found, clipped_sum(record_gradients(module, others, START), plan.clip_norm)) < 1e-4


class Refusing:
    """A ledger that is spent."""

    accounts = (TRAINING_ACCOUNT,)

    def __init__(self, plan) -> None:
        self.budget = budget(plan)

    def charge(self, costs, event) -> Receipt:
        raise BudgetExhausted("spent")

    def spent(self):
        return {TRAINING_ACCOUNT: 0.0}


class ChargesAfterwards(PrivateGradients):
    """Broken twin: makes the noisy sum, then charges."""

    def next(self) -> Gradient:
        zeros = {name: torch.zeros_like(p) for name, p in self._module.named_parameters()}
        noisy = add_noise(zeros, self.plan.noise_deviation, self._randomness)
        self._ledger.charge({TRAINING_ACCOUNT: 1.0}, self.plan.round_event)
        return Gradient(noisy, None, 0)


@pytest.mark.parametrize(("kind", "releases"), [(PrivateGradients, 0), (ChargesAfterwards, 1)])
def test_nothing_noisy_exists_before_its_charge(kind, releases, monkeypatch):
    made = []
    draw = Randomness._draw
    monkeypatch.setattr(Randomness, "_draw", lambda self, *rows: made.append(rows) or draw(self, *rows))
    plan = private_plan(10, 5)
    with (
        private_source(gpt2(), token_texts(10), plan, Refusing(plan), kind=kind) as source,
        pytest.raises(BudgetExhausted),
    ):
        source.next()
    assert bool(made) is bool(releases)


def test_steps_are_charged_one_by_one_with_their_event_and_never_past_the_plan(tmp_path):
    plan = private_plan(10, 2, steps=3)
    with new_ledger(tmp_path, plan) as ledger:
        with private_source(gpt2(), token_texts(10), plan, ledger) as source:
            for taken in range(3):
                assert source.position == taken
                source.next()
            with pytest.raises(BudgetExhausted):
                source.next()
        rows = list(ledger.rows())
    assert len(rows) == 3
    assert all('"SampledGaussian"' in row.event and '"sampling_rate":0.2' in row.event for row in rows)


def test_noise_of_a_seed_is_refused_unless_the_guarantee_confesses_it(tmp_path):
    plan = private_plan(10, 2)
    with (
        new_ledger(tmp_path, plan, is_seeded=False) as ledger,
        pytest.raises(UsageError, match="seed"),
    ):
        private_source(gpt2(), token_texts(10), plan, ledger)


def test_system_noise_needs_no_confession_and_is_never_twice_the_same(tmp_path):
    plan = private_plan(10, 1)
    with new_ledger(tmp_path, plan, is_seeded=False) as ledger:
        system = Randomness.system()
        units = Units(token_texts(10))
        with PrivateGradients(
            gpt2(), units, plan, ledger=ledger, randomness=system, computation=COMPUTATION
        ) as source:
            first, second = source.next().values, source.next().values
    assert not any(torch.equal(first[name], second[name]) for name in first)
    spread = np.concatenate([value.flatten().numpy() for value in first.values()]).std()
    assert spread >= 0.9 * plan.noise_deviation / plan.normaliser


def test_a_ledger_or_corpus_of_another_plan_is_refused(tmp_path):
    plan = private_plan(10, 2, steps=3)
    with new_ledger(tmp_path, plan) as ledger:
        with pytest.raises(LedgerError, match="does not meter"):
            private_source(gpt2(), token_texts(10), private_plan(10, 2, steps=4), ledger)
        with pytest.raises(UsageError, match="another corpus"):
            private_source(gpt2(), token_texts(11), plan, ledger)


def with_dropout(module, chance: float = 0.3):
    """The same model with dropout everywhere it can have it, in training mode."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = chance
        if hasattr(layer, "attn_dropout"):
            layer.attn_dropout.p = chance
    return module.train()


def clipped_sum_of(module, texts, sample, *, is_dropped: bool):
    """The engine's sum over a sample, with the masks that a fixed seed gives, or without dropout."""
    torch.manual_seed(0)
    module.train(is_dropped)
    batch = TokenBatch.of([texts.texts[index].tolist() for index in sample], START)
    with PerRecordGradients(module, 1.0, is_checked=False) as engine:
        return engine.clipped_sum(batch).gradients


def test_one_record_more_moves_the_sum_by_at_most_the_clip_norm_which_dropout_would_break():
    module, texts = with_dropout(gpt2()), token_texts(12)
    few, more = range(1, 12), range(12)  # the added record comes first: all others move one row down

    def moved(is_dropped: bool) -> float:
        before = clipped_sum_of(module, texts, few, is_dropped=is_dropped)
        after = clipped_sum_of(module, texts, more, is_dropped=is_dropped)
        return norm({name: after[name] - before[name] for name in after})

    assert moved(False) <= 1.0 + 1e-4
    assert moved(True) > 1.5


def test_private_steps_are_taken_without_dropout(tmp_path):
    texts, plan = token_texts(20), private_plan(20, 6)
    found = []
    for folder, module in (("plain", gpt2()), ("dropping", with_dropout(gpt2()))):
        (tmp_path / folder).mkdir()
        with new_ledger(tmp_path / folder, plan) as ledger, private_source(module, texts, plan, ledger) as source:
            found.append(source.next().values)
    assert distance(found[0], found[1]) == 0.0
