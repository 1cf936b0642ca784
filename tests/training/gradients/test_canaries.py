"""Canaries pass through the code that records pass through: clipped, summed, noised, and orthogonal."""

import numpy as np
import pytest
import torch

from reticent.core.errors import ConfigError, UsageError
from reticent.core.evidence.canary_trace import CanaryKey, TraceMemory
from reticent.core.randomness import Randomness
from reticent.training.batches import Units
from reticent.training.gradients.canaries import GradientCanaries
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.source import PrivateGradients
from tests.training.small_models import gpt2
from tests.training.small_runs import COMPUTATION, new_ledger, private_plan, private_source, token_texts

CLIP = 0.5


def canaries_of(module, count, *, members=True, seen=None) -> GradientCanaries:
    key = CanaryKey(7, np.full(count, members))
    return GradientCanaries(module, key, clip_norm=CLIP, observer=seen or TraceMemory())


def summed(module, canaries, drawn) -> dict[str, torch.Tensor]:
    with PerRecordGradients(module, CLIP) as engine:
        canaries.add(engine, np.asarray(drawn, dtype=np.int64))
        return engine.take().gradients


@pytest.mark.parametrize("tied", [True, False])
def test_each_drawn_member_moves_its_own_projection_by_one_and_no_other(tied):
    module, seen = gpt2(tied=tied), TraceMemory()
    canaries = canaries_of(module, 60, seen=seen)
    canaries.read(summed(module, canaries, [3, 17, 59]))
    expected = np.zeros(60)
    expected[[3, 17, 59]] = 1.0
    assert seen.trace(canaries.key).projections[0] == pytest.approx(expected, abs=1e-5)


def test_a_canary_moves_the_sum_by_exactly_the_clip_norm():
    module = gpt2()
    canaries = canaries_of(module, 40)
    for number in range(40):
        total = summed(module, canaries, [number])
        norm = sum(float(each.double().square().sum()) for each in total.values()) ** 0.5
        assert CLIP * (1 - 1e-5) <= norm <= CLIP


def test_canaries_that_are_no_members_add_nothing():
    module = gpt2()
    total = summed(module, canaries_of(module, 40, members=False), range(40))
    assert all(not each.any() for each in total.values())


def test_half_of_the_canaries_lie_in_tied_weights():
    module = gpt2()
    canaries = canaries_of(module, 50)
    total = summed(module, canaries, range(50))
    inside = float(total["transformer.wte.weight"].double().square().sum()) / CLIP**2
    assert inside == pytest.approx(25.0, rel=1e-4)


def test_more_canaries_than_weights_are_refused():
    with pytest.raises(ConfigError, match="no room"):
        canaries_of(gpt2(), 100_000)


def test_a_plan_with_canaries_samples_records_as_often_and_divides_by_records():
    plan = private_plan(100, 10).audited(1000)
    assert (plan.sampler.units, plan.records, plan.canaries) == (1100, 100, 1000)
    assert plan.sampler.rate == pytest.approx(0.1)
    assert plan.normaliser == pytest.approx(10.0)
    assert type(plan).__name__ == "DpSgd"


def test_a_step_with_canaries_is_the_sum_of_records_and_canaries_with_the_same_noise(tmp_path):
    texts, seen = token_texts(20), TraceMemory()
    plan = private_plan(20, 10, steps=3, noise=0.2).audited(40)
    module = gpt2()
    canaries = canaries_of(module, 40, seen=seen)
    units = Units(texts, plan.unit)
    source = PrivateGradients(
        module,
        units,
        plan,
        ledger=new_ledger(tmp_path, plan),
        randomness=Randomness.seeded(5),
        computation=COMPUTATION,
        canaries=canaries,
    )
    with source:
        for _ in range(3):
            source.next()
    rows = seen.trace(canaries.key).projections  # [3, 40]
    assert rows.shape == (3, 40)
    # Half of the canaries take part in a step, with noise 0.2 and a little from the records.
    assert 0.3 < rows.mean() < 0.7
    assert np.minimum(np.abs(rows), np.abs(rows - 1.0)).mean() < 0.35


def test_a_plan_and_canaries_that_disagree_are_refused(tmp_path):
    plan = private_plan(20, 10).audited(40)
    with pytest.raises(UsageError, match="number of canaries"):
        private_source(gpt2(), token_texts(20), plan, new_ledger(tmp_path, plan))
