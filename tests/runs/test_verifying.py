"""`verify` on steps of other hands: a sound one is consistent, broken ones are refuted."""

import dataclasses
import math

import pytest
import torch

from reticent.core.errors import UsageError
from reticent.core.guarantee import Neighbours
from reticent.core.randomness import Randomness
from reticent.runs.verifying import CanaryModule, noisy_sum_of_update, verify
from reticent.training.plans.plan import DpSgd
from reticent.training.plans.sampler import AllocationSampler, BandedSampler, PoissonSampler

PLAN = DpSgd(sampler=PoissonSampler(1000, 50), clip_norm=2.0, noise_multiplier=0.65, steps=60, delta=1e-5)


def home_made(*, noise=1.0, clips=True, seed=1):
    """Clip each row, sum, add noise: what a careful person writes by hand, and twins that forget something."""
    generator = torch.Generator().manual_seed(seed)

    def step(records):
        norms = records.norm(dim=1, keepdim=True)
        clipped = records * (PLAN.clip_norm / norms.clamp_min(PLAN.clip_norm)) if clips else records
        deviation = noise * PLAN.noise_multiplier * PLAN.clip_norm
        return clipped.sum(0) + deviation * torch.randn(records.shape[1], generator=generator)

    return step


def verdict(step, **more):
    return verify(step, PLAN, randomness=Randomness.seeded(2), **more)


def test_a_sound_step_is_consistent_and_measured_near_its_claim():
    found = verdict(home_made(), canaries=2000)
    assert found.verdict == "consistent"
    assert 0.5 * found.claimed < found.epsilon <= found.claimed


def correlated(plan, *, noise=1.0, seed=1):
    """The same with noise that later steps take back."""
    generator, past = torch.Generator().manual_seed(seed), []

    def step(records):
        clipped = records * (plan.clip_norm / records.norm(dim=1, keepdim=True).clamp_min(plan.clip_norm))
        fresh = noise * plan.noise_multiplier * plan.clip_norm * torch.randn(records.shape[1], generator=generator)
        for coefficient, before in zip(plan.strategy[1:], reversed(past), strict=False):
            fresh = fresh - coefficient * before
        past.append(fresh / plan.strategy[0])
        return clipped.sum(0) + past[-1]

    return step


@pytest.mark.parametrize("sampler", [AllocationSampler(1000, 100), BandedSampler(1000, 50, 4)])
def test_steps_of_other_samplers_are_verified_and_broken_ones_refuted(sampler):
    plan = dataclasses.replace(PLAN, sampler=sampler)
    found = verify(correlated(plan), plan, randomness=Randomness.seeded(2))
    assert found.verdict == "consistent"
    assert 0.5 * found.claimed < found.epsilon <= found.claimed
    assert verify(correlated(plan, noise=0.5), plan, randomness=Randomness.seeded(2)).is_refuted
    if isinstance(sampler, BandedSampler):
        with pytest.raises(UsageError, match="hides the positions"):
            verify(correlated(plan), plan, samples_itself=True)


@pytest.mark.parametrize("twin", [{"noise": 0.5}, {"clips": False}], ids=["half the noise", "no clipping"])
def test_a_broken_step_is_refuted(twin):
    found = verdict(home_made(**twin))
    assert found.verdict == "refuted"
    assert "refuted" in str(found)


def test_a_step_that_samples_itself_is_given_all_members_and_its_sampler_is_verified():
    sound, generator = home_made(), torch.Generator().manual_seed(3)

    def drawn(rate):
        return lambda records: sound(records[torch.rand(len(records), generator=generator) < rate])

    assert verdict(drawn(0.05), samples_itself=True).verdict == "consistent"
    assert verdict(drawn(0.1), samples_itself=True).verdict == "refuted"


def test_the_gradient_of_a_record_in_the_tiny_module_is_the_record():
    module, record = CanaryModule(5), torch.arange(5.0)[None]
    module(record).sum().backward()
    assert torch.equal(module.layer.weight.grad, record)


def test_the_noisy_sum_is_read_from_updated_weights():
    total, before = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 4.0])
    after = before - 0.1 * total / 8
    found = noisy_sum_of_update(before, after, learning_rate=0.1, normaliser=8)
    assert found.tolist() == pytest.approx(total.tolist(), rel=1e-5)


def test_what_is_no_sum_and_plans_for_replaced_units_are_refused():
    with pytest.raises(UsageError, match="finite noisy sum"):
        verdict(lambda records: torch.full((records.shape[1],), math.nan))
    replaced = DpSgd(
        sampler=PLAN.sampler,
        clip_norm=1.0,
        noise_multiplier=1.0,
        steps=5,
        delta=1e-5,
        neighbours=Neighbours.REPLACE,
    )
    with pytest.raises(UsageError, match="added or removed"):
        verify(home_made(), replaced)
    with pytest.raises(UsageError, match="one clip norm"):
        verify(home_made(), dataclasses.replace(PLAN, clip_quantile=0.5))


@pytest.mark.parametrize(
    ("step", "plan", "message"),
    [
        (home_made(), PLAN.guarantee, "a step is verified against a plan; found method; expected DpSgd"),
        (None, PLAN, "the step must be a function or a PrivateStep; found NoneType"),
        (lambda records: records.sum(0).numpy(), PLAN, "the step must return a torch tensor; found ndarray"),
    ],
)
def test_what_is_no_plan_no_step_or_no_tensor_is_refused_in_words(step, plan, message):
    with pytest.raises(UsageError, match=message):
        verify(step, plan, canaries=20)


def test_a_refuted_step_of_which_nothing_else_is_known_is_not_said_to_have_an_epsilon_of_zero():
    plan = DpSgd.for_target(epsilon=8, delta=1e-3, units=100, batch=50, epochs=5)

    def without_noise(records):
        return (records * (plan.clip_norm / records.norm(dim=1, keepdim=True))).sum(0)

    found = verify(without_noise, plan, canaries=500, randomness=Randomness.seeded(2))
    assert found.by_count.epsilon == 0.0
    assert "if it is of another kind, no lower bound on its ε was found" in str(found)
    assert "at least 0" not in str(found)
