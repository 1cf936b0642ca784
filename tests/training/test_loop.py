"""The loop: resumed is uninterrupted, what was charged stays spent, no noise is used twice, NaN loses nothing."""

from contextlib import suppress

import pytest
import torch

from reticent.core.errors import ModelError
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.source import TRAINING_ACCOUNT, PrivateGradients
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.optimiser import Decay, OptimiserSettings, Rule
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

EVERY_STEP = CheckpointSchedule(steps=1)
NEVER = CheckpointSchedule(seconds=1e9)


class Killed(Exception):
    """Stands for kill -9: the loop gets no chance to save."""


def with_dropout():
    module = gpt2()
    for layer in module.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.2
    return module


def plain_run(folder, *, stop_at=None, settings):
    who = learner(with_dropout(), **settings)
    source = plain_source(who.module, token_texts(14), batch=4, epochs=2.0)
    outcome = train_learner(
        who,
        source,
        checkpoints=Checkpoints(folder),
        schedule=NEVER,
        seed=8,
        observe=lambda progress: progress.step != stop_at,
    )
    return who, outcome


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": Rule.ADAMW, "weight_decay": 0.1, "decay": Decay.LINEAR, "warmup": 2},
        {"rule": Rule.SGD, "momentum": 0.9, "learning_rate": 0.1},
    ],
    ids=["adamw", "sgd"],
)
def test_a_resumed_plain_run_equals_an_uninterrupted_one_bit_for_bit(settings, tmp_path):
    whole, outcome = plain_run(tmp_path / "whole", settings=settings)
    assert outcome.is_finished
    assert outcome.step == 8
    for stop in (3, 6):
        _, outcome = plain_run(tmp_path / "parts", stop_at=stop, settings=settings)
        assert not outcome.is_finished
        assert outcome.step == stop
    parts, outcome = plain_run(tmp_path / "parts", settings=settings)
    assert outcome.is_finished
    assert same_weights(whole, parts)
    forgetful, _ = plain_run(tmp_path / "other", settings=settings | {"learning_rate": 2e-3})
    assert not same_weights(whole, forgetful)


def private_run(folder, *, steps=6, kill_at=None, stop_at=None, schedule=NEVER, kind=PrivateGradients):
    """A private run on the ledger in the folder; returns the learner and the number of updates it made."""
    plan = private_plan(10, 3, steps=steps)
    updates = 0

    def observe(progress):
        nonlocal updates
        updates += 1
        if progress.step == kill_at:
            raise Killed
        return progress.step != stop_at

    path = folder / "ledger.db"
    with SqliteLedger.open(path) if path.exists() else new_ledger(folder, plan) as ledger:
        who = learner()
        source = private_source(who.module, token_texts(10), plan, ledger, kind=kind)
        with suppress(Killed):
            train_learner(
                who, source, checkpoints=Checkpoints(folder / "c"), schedule=schedule, seed=1, observe=observe
            )
        return who, updates, round(ledger.spent()[TRAINING_ACCOUNT])


def test_steps_that_were_charged_and_lost_stay_spent(tmp_path):
    _, updates, spent = private_run(tmp_path, stop_at=2)  # saves a checkpoint at 2
    assert (updates, spent) == (2, 2)
    _, updates, spent = private_run(tmp_path, kill_at=4)  # two more, lost
    assert (updates, spent) == (2, 4)
    who, updates, spent = private_run(tmp_path)
    assert (updates, spent) == (2, 6)  # not four: the budget is gone
    assert Checkpoints(tmp_path / "c").latest().step == 6
    again, updates, spent = private_run(tmp_path)
    assert (updates, spent) == (0, 6)
    assert same_weights(who, again)


def test_a_run_whose_last_steps_were_lost_ends_with_its_last_checkpoint(tmp_path):
    before, _, _ = private_run(tmp_path, stop_at=4)
    private_run(tmp_path, kill_at=6)
    after, updates, spent = private_run(tmp_path)
    assert (updates, spent) == (0, 6)
    assert same_weights(before, after)


class CountsItsOwnSteps(PrivateGradients):
    """Broken twin: its noise depends on the step of the run that is in memory, not on the charge."""

    taken = 0

    def next(self):
        keeper = self._randomness
        self._randomness = Fixed(keeper.seed, type(self).taken)
        type(self).taken += 1
        try:
            return super().next()
        finally:
            self._randomness = keeper


class Fixed(Randomness):
    """Ignores the charge's number."""

    def __init__(self, seed: int, step: int) -> None:
        super().__init__("seeded", seed)
        self.step = step

    def child(self, name: str) -> Randomness:
        return Randomness.seeded(self.seed).child(f"{name.split()[0]} {self.step}")


@pytest.mark.parametrize(("kind", "repeats"), [(PrivateGradients, False), (CountsItsOwnSteps, True)])
def test_noise_is_never_laid_over_two_sums(kind, repeats, tmp_path, monkeypatch):
    seeds = []
    from reticent.training.gradients import source as gradient_source

    add = gradient_source.add_noise
    monkeypatch.setattr(
        gradient_source, "add_noise", lambda g, s, r, **k: seeds.append(r.seed) or add(g, s, r, **k)
    )
    private_run(tmp_path, kill_at=3, kind=kind)
    CountsItsOwnSteps.taken = 0  # a new process
    private_run(tmp_path, kind=kind)
    assert len(seeds) == 6
    assert (len(set(seeds)) < 6) is repeats


def test_progress_tells_loss_speed_and_place(tmp_path):
    seen = []
    who = learner()
    source = plain_source(who.module, token_texts(8), batch=4, epochs=1.0)
    train_learner(
        who,
        source,
        checkpoints=Checkpoints(tmp_path),
        schedule=NEVER,
        seed=0,
        observe=lambda progress: not seen.append(progress),
    )
    assert [(progress.step, progress.steps) for progress in seen] == [(1, 2), (2, 2)]
    assert all(progress.loss > 0 and progress.tokens_per_second > 0 for progress in seen)


def test_training_learns(tmp_path):
    texts = token_texts(4)
    who = learner(learning_rate=0.02)
    losses = []
    train_learner(
        who,
        plain_source(who.module, texts, batch=4, epochs=25),
        checkpoints=Checkpoints(tmp_path),
        schedule=NEVER,
        seed=0,
        observe=lambda progress: not losses.append(progress.loss),
    )
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("is_private", [False, True])
def test_divergence_is_a_clear_error_and_the_last_checkpoint_is_intact(is_private, tmp_path):
    texts = token_texts(8)

    def attempt(rate):
        who = learner(rule=Rule.SGD, learning_rate=rate)
        if is_private:
            plan, path = private_plan(8, 4, steps=6), tmp_path / "ledger.db"
            with SqliteLedger.open(path) if path.exists() else new_ledger(tmp_path, plan) as ledger:
                source = private_source(who.module, texts, plan, ledger)
                return who, run(who, source, stop_at=2 if rate < 1 else None)
        return who, run(who, plain_source(who.module, texts, batch=4, epochs=3.0), stop_at=2 if rate < 1 else None)

    def run(who, source, *, stop_at):
        return train_learner(
            who,
            source,
            checkpoints=Checkpoints(tmp_path / "c"),
            schedule=EVERY_STEP,
            seed=0,
            observe=lambda progress: progress.step != stop_at,
        )

    good, _ = attempt(1e-3)
    with pytest.raises(ModelError, match="diverged"):
        attempt(1e38)
    kept = Checkpoints(tmp_path / "c").latest()
    fresh = learner()
    kept.restore(fresh)
    assert kept.step >= 2
    fresh.require_finite()
    if kept.step == 2:
        assert same_weights(good, fresh)


def test_weights_that_give_no_numbers_are_never_saved(tmp_path):
    plan, who = private_plan(8, 4, steps=4), learner(rule=Rule.SGD, learning_rate=1e-3)

    def overflow(progress):
        if progress.step == 2:
            with torch.no_grad():
                who.module.transformer.ln_f.weight.fill_(3e38)  # finite, and every logit overflows
        return True

    with new_ledger(tmp_path, plan) as ledger:
        source = private_source(who.module, token_texts(8), plan, ledger)
        checkpoints = Checkpoints(tmp_path / "c")
        with pytest.raises(ModelError, match="diverged"):
            train_learner(who, source, checkpoints=checkpoints, schedule=EVERY_STEP, seed=0, observe=overflow)
    assert Checkpoints(tmp_path / "c").latest().step == 2
    with pytest.raises(ModelError, match="diverged"):
        who.require_finite()


def test_learning_rates_warm_up_and_decay():
    settings = OptimiserSettings(learning_rate=1.0, warmup=4, decay=Decay.LINEAR)
    rates = [settings.rate(step, 12) for step in range(12)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4:] == [(12 - step) / 8 for step in range(4, 12)]
    assert OptimiserSettings(learning_rate=0.5).rate(7, 9) == 0.5


def test_micro_batches_do_not_change_a_plain_gradient():
    from reticent.training.batches import Units
    from reticent.training.gradients.source import Computation, PlainGradients
    from reticent.training.plans.plan import PlainPlan

    module, texts = gpt2(), token_texts(10)
    plan = PlainPlan(units=10, batch=10, epochs=1.0, seed=0)
    found = [
        PlainGradients(module, Units(texts), plan, computation=Computation(token_budget=budget)).next()
        for budget in (12, 10_000)
    ]
    assert found[0].loss == pytest.approx(found[1].loss, rel=1e-5)
    for name, value in found[0].values.items():
        assert torch.allclose(value, found[1].values[name], atol=1e-6)
