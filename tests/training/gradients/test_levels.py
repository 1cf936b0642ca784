"""Levels that records are clipped to: written down before use, held to, and still known after a crash."""

import math

import numpy as np
import pytest

from reticent.core.errors import ConfigError, UsageError
from reticent.core.guarantee import Neighbours, Unit
from reticent.training.batches import Units
from reticent.training.gradients.levels import FILE, LEVELS, LevelFile, LevelMemory, OwnLevels, levels_of
from reticent.training.gradients.source import PrivateGradients
from reticent.training.plans.plan import plan_from_json
from reticent.training.plans.sampler import AllocationSampler
from tests.training.gradients.oracles import norm, record_gradients
from tests.training.small_models import START, gpt2
from tests.training.small_runs import (
    COMPUTATION,
    Randomness,
    learner,
    new_ledger,
    private_plan,
    token_texts,
)

CLIP = 0.5  # of `private_plan`


def test_a_level_is_the_least_that_is_not_below_the_norm():
    norms = CLIP * np.array([2.0, 1.0, 0.99, 2**-0.25, 0.5, 0.49, 1 / 64, 1e-9, 0.0])
    assert levels_of(norms, CLIP).tolist() == [0, 0, 0, 1, 4, 4, 24, 24, 24]


@pytest.mark.parametrize("norm", [math.inf, math.nan])
def test_a_record_whose_norm_is_not_known_is_held_to_the_clip_norm(norm):
    assert levels_of(np.array([norm]), CLIP).tolist() == [0]


def test_steps_are_counted_by_level_and_before_the_first_measurement_at_the_clip_norm():
    kept = LevelMemory(3)
    kept.append(2, np.array([1, 2, 3], dtype=np.uint8))
    kept.append(5, np.array([4, 2, 0], dtype=np.uint8))
    counts = kept.counts(9)
    assert counts.shape == (3, len(LEVELS))
    assert {level: int(n) for level, n in enumerate(counts[0]) if n} == {0: 2, 1: 3, 4: 4}
    assert {level: int(n) for level, n in enumerate(counts[1]) if n} == {0: 2, 2: 7}
    assert {level: int(n) for level, n in enumerate(counts[2]) if n} == {0: 6, 3: 3}


def test_records_of_one_text_are_counted_at_the_greatest_of_their_levels():
    kept = LevelMemory(3)
    kept.append(0, np.array([1, 2, 3], dtype=np.uint8))
    kept.append(5, np.array([4, 2, 0], dtype=np.uint8))
    counts = kept.counts(9, [0, 1, 0])
    assert {level: int(n) for level, n in enumerate(counts[0]) if n} == {1: 5, 0: 4}
    assert {level: int(n) for level, n in enumerate(counts[1]) if n} == {2: 9}


def test_the_file_is_its_owners_alone_and_a_row_that_a_crash_cut_is_left_out(tmp_path):
    log = LevelFile(tmp_path, 3)
    log.append(0, np.array([1, 2, 3], dtype=np.uint8))
    path = tmp_path / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:7])
    assert log.read().counts(4).tolist() == LevelFile(tmp_path, 3).read().counts(4).tolist()
    LevelFile(tmp_path, 3).append(2, np.array([0, 0, 0], dtype=np.uint8))
    assert log.read().counts(4)[:, 0].tolist() == [2, 2, 2]


@pytest.mark.parametrize("second", [1, 9, 2**63, 2**64 - 1])
def test_steps_out_of_order_or_beyond_the_run_are_refused(tmp_path, second):
    log = LevelFile(tmp_path, 1)
    for step in (2, second):
        log.append(step, np.array([3], dtype=np.uint8))
    with pytest.raises(ConfigError, match="order of the run's steps"):
        log.read().counts(8)


def test_a_level_that_does_not_exist_is_refused(tmp_path):
    LevelFile(tmp_path, 1).append(0, np.array([len(LEVELS)], dtype=np.uint8))
    with pytest.raises(ConfigError, match="not the levels of this run"):
        LevelFile(tmp_path, 1).read()


def test_all_records_are_measured_at_the_start_and_after_each_epoch():
    log, asked = LevelMemory(4), []
    levels = OwnLevels(4, CLIP, epoch=3, log=log)
    for step in range(7):
        levels.measure(step, lambda record, step=step: asked.append((step, record)) or 0.1)
    assert asked == [(step, record) for step in (0, 3, 6) for record in range(4)]


class Unwritable:
    """A disk that is full."""

    def append(self, step, levels) -> None:
        raise OSError("no space left")


def test_a_level_that_could_not_be_written_down_is_not_used():
    levels = OwnLevels(2, CLIP, epoch=3, log=Unwritable())
    with pytest.raises(OSError, match="no space"):
        levels.measure(0, lambda _: 0.1)
    assert levels.limits(np.array([0, 1])).tolist() == [CLIP, CLIP]


def source_of(folder, module, texts, plan, *, kind=PrivateGradients, ledger=None, levels=None):
    return kind(
        module,
        Units(texts),
        plan,
        ledger=new_ledger(folder, plan) if ledger is None else ledger,
        randomness=Randomness.seeded(5),
        computation=COMPUTATION,
        levels=LevelMemory(len(texts)) if levels is None else levels,
    )


class ForgetsLimits(PrivateGradients):
    """Broken twin: measures and writes down, and clips to the clip norm as ever."""

    def _draw_places(self) -> list[list[int]]:
        drawn = super()._draw_places()
        self._limits = None
        return drawn


def contribution_of_a_grown_record(folder, kind) -> tuple[float, float]:
    """What one record adds to a step, and its limit, when its gradient has grown after it was measured."""
    module, texts = gpt2(), token_texts(1, seed=4)
    plan = private_plan(1, 1, steps=4, individual=True)
    with source_of(folder, module, texts, plan, kind=kind) as source:
        source._norm_of = lambda _: 0.1 * plan.clip_norm  # as it was
        groups = source.draw()
        limit = float(source._levels.limits(np.array([0]))[0])
        return norm(source.clipped_sum(groups)), limit


def test_a_record_that_grew_after_it_was_measured_contributes_no_more_than_its_level(tmp_path):
    found, limit = contribution_of_a_grown_record(tmp_path, PrivateGradients)
    assert limit < 0.12 * CLIP
    assert 0.99 * limit < found <= limit * (1 + 1e-6)


def test_the_twin_that_forgets_the_limits_is_caught(tmp_path):
    found, limit = contribution_of_a_grown_record(tmp_path, ForgetsLimits)
    assert found > 5 * limit


def test_the_level_of_a_record_is_that_of_its_own_gradient_whoever_else_is_there(tmp_path):
    module, texts = gpt2(), token_texts(12)
    plan = private_plan(12, 4, individual=True)
    with source_of(tmp_path, module, texts, plan) as source:
        found = [source._norm_of(record) for record in range(12)]
    truth = [norm(one) for one in record_gradients(module, [[text.tolist()] for text in texts.texts], START)]
    assert found == pytest.approx(truth, rel=1e-4)
    (tmp_path / "alone").mkdir()
    alone = private_plan(1, 1, individual=True)
    few = type(texts)(texts.texts[5:6], texts.owners[5:6], START, 0)
    with source_of(tmp_path / "alone", module, few, alone) as source:
        assert source._norm_of(0) == found[5]


def test_after_a_crash_the_lost_steps_are_counted_at_what_they_were_clipped_to(tmp_path):
    plan = private_plan(12, 4, steps=8, individual=True)
    texts, log = token_texts(12), LevelFile(tmp_path, 12)
    with new_ledger(tmp_path, plan) as ledger:
        with source_of(tmp_path, learner().module, texts, plan, ledger=ledger, levels=log) as source:
            for _ in range(4):  # and no checkpoint
                source.next()
        before = log.read().counts(4)
        with source_of(tmp_path, learner().module, texts, plan, ledger=ledger, levels=log) as source:
            while source.position < source.steps:
                source.next()
    counts = log.read().counts(8)
    assert (counts.sum(1) == 8).all()
    assert (counts >= before).all()


def test_levels_belong_to_plans_that_ask_for_them(tmp_path):
    texts = token_texts(4)
    with pytest.raises(UsageError, match="levels"):
        source_of(tmp_path, gpt2(), texts, private_plan(4, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"unit": Unit.OWNER},
        {"neighbours": Neighbours.REPLACE},
        {"sampler": AllocationSampler(20, 5), "steps": 4},
    ],
)
def test_a_plan_that_cannot_account_for_single_records_is_refused(changes):
    from dataclasses import replace

    with pytest.raises(ConfigError, match="record"):
        replace(private_plan(20, 5, individual=True), **changes)


def test_the_plan_of_a_run_remembers_that_it_accounts_for_single_records():
    plan = private_plan(20, 5, individual=True)
    assert plan_from_json(plan.to_json()) == plan
    assert "individual" not in private_plan(20, 5).to_json()


def test_a_level_has_room_for_rounding_as_the_noise_has():
    price = private_plan(20, 5, individual=True).individual_price()
    assert price.shares[0] == 1.0
    assert all(LEVELS[place] < price.shares[place] < LEVELS[place] + 1 / 128 for place in range(1, len(LEVELS)))
