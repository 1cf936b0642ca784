"""Tiny corpora, plans, ledgers and learners from which the tests of plans, loop and checkpoints are made."""

import random
from pathlib import Path

import numpy as np
import torch

from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.training.batches import TokenTexts, Units
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation, PlainGradients, PrivateGradients
from reticent.training.optimiser import Learner, OptimiserSettings
from reticent.training.plans.plan import MEASURE, SEEDED, DpSgd, PlainPlan
from reticent.training.plans.sampler import PoissonSampler
from tests.training.small_models import START, VOCABULARY, gpt2

COMPUTATION = Computation(token_budget=64)


def token_texts(count: int, *, owners: int | None = None, seed: int = 0) -> TokenTexts:
    """Random texts of 1 to 12 tokens; text i belongs to owner i mod `owners`."""
    generator = random.Random(seed)
    texts = tuple(
        np.array([generator.randrange(1, VOCABULARY - 1) for _ in range(generator.randint(1, 12))], dtype=np.int32)
        for _ in range(count)
    )
    return TokenTexts(texts, tuple(f"o{i % (owners or count)}" for i in range(count)), START, 0)


def private_plan(units: int, batch: int, *, steps: int = 4, noise: float = 1.0, **more) -> DpSgd:
    """A plan with a clip norm of 0.5."""
    sampler = PoissonSampler(units, batch)
    return DpSgd(sampler=sampler, clip_norm=0.5, noise_multiplier=noise, steps=steps, delta=1e-6, **more)


def budget(plan: DpSgd, *, is_seeded: bool = True) -> Budget:
    """The plan's budget with a made-up ε: the real one takes seconds and has tests of its own."""
    guarantee = Guarantee(
        mechanism="DP-SGD",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=plan.unit,
        neighbours=Neighbours.ADD_REMOVE,
        epsilon=1.0,
        delta=plan.delta,
        covers="a test",
        assumes=(SEEDED,) if is_seeded else (),
    )
    return Budget(MEASURE, float(plan.steps), guarantee)


def new_ledger(folder: Path, plan: DpSgd, *, is_seeded: bool = True) -> SqliteLedger:
    """A ledger for the plan."""
    return SqliteLedger.create(folder / "ledger.db", budget(plan, is_seeded=is_seeded), accounts=[TRAINING_ACCOUNT])


def private_source(module, texts: TokenTexts, plan: DpSgd, ledger, *, seed: int = 5, kind=PrivateGradients):
    """The plan's gradients with seeded sampling and noise."""
    units = Units(texts, plan.unit, texts_per_unit=plan.texts_per_unit)
    randomness = Randomness.seeded(seed)
    return kind(module, units, plan, ledger=ledger, randomness=randomness, computation=COMPUTATION)


def plain_source(module, texts: TokenTexts, *, batch: int, epochs: float) -> PlainGradients:
    """Shuffled epochs, seed 3."""
    plan = PlainPlan(units=len(texts), batch=batch, epochs=epochs, seed=3)
    return PlainGradients(module, Units(texts, Unit.RECORD), plan, computation=COMPUTATION)


def learner(module=None, **settings) -> Learner:
    """A learner of a tiny GPT-2."""
    return Learner(gpt2() if module is None else module, OptimiserSettings(**settings))


def same_weights(first: Learner, second: Learner) -> bool:
    """Whether all weights are equal, bit for bit."""
    mine, other = first.weights(), second.weights()
    return mine.keys() == other.keys() and all(torch.equal(mine[name], other[name]) for name in mine)
