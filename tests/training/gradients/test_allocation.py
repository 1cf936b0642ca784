"""Random allocation in training: one step an epoch for every unit, whole epochs charged first, none drawn twice."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from reticent.core.errors import ConfigError
from reticent.core.event import RandomAllocation, Repeated
from reticent.core.randomness import Randomness
from reticent.training.gradients.source import TRAINING_ACCOUNT, PrivateGradients
from reticent.training.plans.plan import DpSgd, plan_from_json
from reticent.training.plans.sampler import AllocationSampler
from tests.training.small_models import gpt2
from tests.training.small_runs import new_ledger, private_source, token_texts

UNITS, BATCH = 10, 4  # three batches an epoch
PLAN = DpSgd(sampler=AllocationSampler(UNITS, BATCH), clip_norm=0.5, noise_multiplier=1.0, steps=6, delta=1e-6)


class Watched(PrivateGradients):
    """Remembers the units of every step."""

    def __init__(self, *arguments, **more) -> None:
        super().__init__(*arguments, **more)
        self.drawn = []

    def _draw_places(self):
        places = super()._draw_places()
        self.drawn.append([place for unit in places for place in unit])
        return places


def test_the_event_is_an_epoch_of_batches_and_the_plan_survives_its_file():
    assert PLAN.event == Repeated(RandomAllocation(1.0, 3), 2)
    assert PLAN.normaliser == pytest.approx(10 / 3)
    assert plan_from_json(PLAN.to_json()) == PLAN
    with pytest.raises(ConfigError, match="whole epochs"):
        replace(PLAN, steps=5)


def test_places_are_uniform_and_independent_of_the_other_units():
    # False alarm 6e-5 each: four standard errors of 2,000 draws.
    sampler, firsts = AllocationSampler(6, 3), []
    for seed in range(2000):
        batches = sampler.draw_round(Randomness.seeded(seed))
        firsts.append([0 in batches[0], 1 in batches[0]])
        assert sorted(np.concatenate(batches).tolist()) == list(range(6))
    first, second = np.array(firsts).T
    assert abs(first.mean() - 0.5) < 4 * 0.5 / 2000**0.5
    assert abs(np.mean(first & second) - 0.25) < 4 * 0.433 / 2000**0.5  # batches of fixed size would give 0.2


def test_every_unit_takes_part_once_an_epoch_and_the_epoch_is_charged_whole(tmp_path):
    texts = token_texts(UNITS)
    with (
        new_ledger(tmp_path, PLAN) as ledger,
        private_source(gpt2(), texts, PLAN, ledger, kind=Watched) as source,
    ):
        noises = []
        for step in range(6):
            assert source.position == step
            noises.append(next(iter(source.next().values.values())))
            assert ledger.spent()[TRAINING_ACCOUNT] == (3.0 if step < 3 else 6.0)
    for epoch in (source.drawn[:3], source.drawn[3:]):
        assert sorted(itertools.chain(*epoch)) == list(range(UNITS))
    assert source.drawn[:3] != source.drawn[3:]
    assert not any((noises[0] == other).all() for other in noises[1:])


def test_a_run_that_was_killed_never_draws_the_rest_of_an_epoch_again(tmp_path):
    texts, module = token_texts(UNITS), gpt2()
    with new_ledger(tmp_path, PLAN) as ledger:
        with private_source(module, texts, PLAN, ledger, kind=Watched) as killed:
            killed.next()
            state = killed.state()
        with private_source(module, texts, PLAN, ledger, kind=Watched) as resumed:
            resumed.restore(state)
            assert resumed.position == 3
            while resumed.position < resumed.steps:
                resumed.next()
        assert len(resumed.drawn) == 3
        assert sorted(itertools.chain(*resumed.drawn)) == list(range(UNITS))
        assert ledger.spent()[TRAINING_ACCOUNT] == 6.0


class DrawsAgain(Watched):
    """Broken twin: goes on in the epoch with a new allocation, so that a unit may take part twice in it."""

    @property
    def position(self) -> int:
        return len(self.drawn)

    def _charged(self):
        self._left = 0
        return self._ledger.head()


def test_the_twin_that_draws_again_lets_a_unit_take_part_twice(tmp_path):
    texts = token_texts(UNITS)
    with (
        new_ledger(tmp_path, PLAN) as ledger,
        private_source(gpt2(), texts, PLAN, ledger, kind=DrawsAgain) as source,
    ):
        for _ in range(3):
            source.next()
    assert sorted(itertools.chain(*source.drawn)) != list(range(UNITS))


def test_calibration_meets_the_target_with_less_noise_than_poisson_samples():
    def planned(sampler):
        return DpSgd.for_target(epsilon=2.0, delta=1e-4, units=100, batch=25, epochs=2, sampler=sampler)

    allocated, sampled = planned("allocation"), planned("poisson")
    assert allocated.steps == sampled.steps == 8
    assert allocated.noise_multiplier < sampled.noise_multiplier
    guarantee = allocated.guarantee()
    assert 1.95 < guarantee.epsilon <= 2.0
    assert any("random allocation" in each for each in guarantee.assumes)
    assert not any("Poisson" in each for each in guarantee.assumes)
    spending = allocated.spending(guarantee.epsilon)
    assert spending.epsilon(0) == 0.0 < spending.epsilon(1) == spending.epsilon(4) < spending.epsilon(5)
    assert spending.epsilon(8) == guarantee.epsilon
