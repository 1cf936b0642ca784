"""A clip norm that follows noisy counts: gradient and count are one release, and a run is what its formulas say."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reticent.accounting.prices.hockey_stick import Direction, step_delta
from reticent.core.errors import BudgetExhausted, ConfigError, UsageError
from reticent.core.guarantee import Neighbours, Unit
from reticent.core.ledger import Receipt
from reticent.core.randomness import Randomness
from reticent.core.ranges import NORM
from reticent.core.statistics.proportion import clopper_pearson
from reticent.ledger.durable import SqliteLedger
from reticent.training.batches import Units
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.clipping import add_noise, clip_factors, short_count
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.rounding import Readable, RoundingTest
from reticent.training.gradients.rounding_bound import Rounding
from reticent.training.gradients.source import PrivateGradients
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.plans.adaptive_norm import next_norm, raised_multiplier, usual_count_noise
from reticent.training.plans.plan import ADAPTIVE, ROUNDING_ROOM, DpSgd, plan_from_json
from reticent.training.plans.redacted import RedactedPlan
from reticent.training.plans.sampler import AllocationSampler, BandedSampler
from reticent.training.private_step import PrivateStep
from tests.training.gradients.oracles import clipped_sum, distance, norm, record_gradients
from tests.training.gradients.test_private_step import Refusing, seed_whose_first_sample
from tests.training.small_models import START, gpt2
from tests.training.small_runs import (
    COMPUTATION,
    learner,
    new_ledger,
    private_plan,
    private_source,
    same_weights,
    token_texts,
)

LEARNING_RATE = 0.02
MIDDLING = 6.0  # gradients of the tiny GPT-2 are shorter and longer


def adaptive_plan(units: int, batch: int, *, clip_norm: float = MIDDLING, **more) -> DpSgd:
    plan = private_plan(units, batch, **{"clip_quantile": 0.5, "count_noise": 1.5} | more)
    return replace(plan, clip_norm=clip_norm)


# ---------------------------------------------------------------- one release


def whitened(
    plan: DpSgd, clip_norm: float, gradients: np.ndarray, *, multiplier: float | None = None
) -> np.ndarray:
    """What a step of units with these gradients [n, d] sums up, each number over its noise's deviation [d + 1]."""
    rows = torch.from_numpy(gradients)
    norms = rows.norm(dim=1)
    total = (
        (clip_factors(norms, clip_norm)[:, None] * rows).sum(0) if len(rows) else torch.zeros(gradients.shape[1])
    )
    deviation = plan.deviation_at(clip_norm) if multiplier is None else multiplier * clip_norm * (1 + ROUNDING_ROOM)
    count = float(short_count(norms, clip_norm)) / plan.count_deviation
    return np.append(total.double().numpy() / deviation, count)


def furthest_neighbours(plan: DpSgd, *, multiplier: float | None = None) -> tuple[float, float]:
    """How far brute force over small worlds moves a step, in noise multipliers: by one unit, by one replaced."""
    generator = np.random.default_rng(0)
    added = replaced = 0.0
    for clip_norm in (0.01, 1.0, 40.0):
        lengths = clip_norm * np.array([0.0, 0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 100.0])
        directions = generator.standard_normal((4, 3))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        directions = np.concatenate([directions, -directions])
        units = (lengths[:, None, None] * directions).reshape(-1, 3)  # [72, 3]
        others = clip_norm * 2 * generator.standard_normal((5, 3))
        before = whitened(plan, clip_norm, others, multiplier=multiplier)
        worlds = np.stack(
            [whitened(plan, clip_norm, np.vstack([others, unit]), multiplier=multiplier) for unit in units]
        )
        added = max(added, np.linalg.norm(worlds - before, axis=1).max())
        replaced = max(replaced, np.linalg.norm(worlds[:, None] - worlds, axis=2).max())
    return added * plan.noise_multiplier, replaced * plan.noise_multiplier


@pytest.mark.parametrize(("noise", "count_noise"), [(1.0, 0.51), (0.6, 1.25), (3.0, 2.0), (1.0, 10.0)])
def test_one_unit_moves_gradient_and_count_together_by_what_the_event_says_and_replaced_by_twice_that(
    noise, count_noise
):
    plan = adaptive_plan(100, 20, noise=noise, count_noise=count_noise)
    added, replaced = furthest_neighbours(plan)
    room = 1 + ROUNDING_ROOM
    assert added == pytest.approx(1 / room, rel=1e-5)  # reached by every long gradient, and never passed
    assert replaced <= 2 / room * (1 + 1e-9)
    twin, twice = furthest_neighbours(plan, multiplier=plan.noise_multiplier)  # noise that was not raised
    assert twin > 1 / room * (1 + 1e-4)
    assert twin == pytest.approx(math.sqrt(1 + (noise / (2 * count_noise)) ** 2) / room, rel=1e-5)
    assert twice > replaced


def stick(upper: np.ndarray, lower: np.ndarray, epsilon: float, cell: float) -> float:
    """δ at ε between two densities on a grid."""
    return float(np.maximum(upper - math.exp(epsilon) * lower, 0.0).sum() * cell)


@pytest.mark.parametrize("is_raised", [True, False])
def test_the_best_attack_on_a_gradient_and_its_count_gains_what_the_event_is_priced_at_and_the_twin_passes_it(
    is_raised,
):
    noise, count_noise, rate = 0.8, 0.6, 0.3
    deviation = raised_multiplier(noise, count_noise) if is_raised else noise
    g = np.linspace(-8, 9, 341)[:, None]  # one entry, clip norm 1
    c = np.linspace(-5, 5, 201)[None, :]
    cell = float((g[1] - g[0])[0] * (c[0, 1] - c[0, 0]))

    def density(x: float, v: float) -> np.ndarray:
        square = ((g - x) / deviation) ** 2 + ((c - v) / count_noise) ** 2
        return np.exp(-square / 2) / (2 * math.pi * deviation * count_noise)

    without = density(0.0, 0.0)
    # A long gradient, one in the other direction, and the longest that counts as short.
    long, opposite, short = (
        (1 - rate) * without + rate * density(x, v) for x, v in ((1.0, -0.5), (-1.0, -0.5), (0.5, 0.5))
    )
    for epsilon in (0.2, 1.0, 2.0):
        at = np.array([epsilon])
        prices = {
            each: float(step_delta(at, each, noise_multiplier=noise, sampling_rate=rate)[0]) for each in Direction
        }
        removed, added = stick(long, without, epsilon, cell), stick(without, long, epsilon, cell)
        if is_raised:
            assert removed == pytest.approx(prices[Direction.REMOVE], abs=1e-5)
            assert added == pytest.approx(prices[Direction.ADD], abs=1e-5)
            assert stick(short, without, epsilon, cell) <= prices[Direction.REMOVE]
            assert stick(without, short, epsilon, cell) <= prices[Direction.ADD]
            for one, other in ((long, opposite), (long, short), (short, long)):
                assert stick(one, other, epsilon, cell) <= prices[Direction.REPLACE]
        else:
            assert removed > 1.05 * prices[Direction.REMOVE]
            assert added > 1.05 * prices[Direction.ADD] or epsilon > -math.log(1 - rate)  # none is left above


def test_the_count_needs_more_noise_than_half_a_noise_multiplier():
    for count_noise in (0.5, 0.2, math.nan, math.inf):
        with pytest.raises(ConfigError, match="half the noise multiplier"):
            raised_multiplier(1.0, count_noise)
    assert raised_multiplier(1.0, 1e6) == pytest.approx(1.0)
    assert raised_multiplier(2.0, usual_count_noise(2.0, 25.0)) == pytest.approx(2.0 / math.sqrt(1 - 1 / 16))
    assert usual_count_noise(0.5, 400.0) == 20.0  # the paper's


@given(
    norms=st.lists(st.floats(0, 4), max_size=6),
    moves=st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=6),
    clip_norm=st.floats(0.1, 10),
)
def test_a_count_moves_by_no_more_than_the_norms_do(norms, moves, clip_norm):
    before = torch.tensor(norms, dtype=torch.float64)
    after = (before + torch.tensor(moves[: len(norms)], dtype=torch.float64)).clamp(min=0)
    changed = abs(float(short_count(after, clip_norm) - short_count(before, clip_norm)))
    assert changed <= float((after - before).abs().sum()) / clip_norm + 1e-12
    assert abs(float(short_count(before, clip_norm))) <= 0.5 * len(norms)


def test_a_count_of_whole_votes_would_move_by_as_many_as_there_are_copies():
    norms = torch.full((20,), 1.0, dtype=torch.float64)
    rounded = norms * (1 + 1e-6)
    assert float((rounded <= 1.0).sum() - (norms <= 1.0).sum()) == -20  # the twin, by rounding alone
    assert abs(float(short_count(rounded, 1.0) - short_count(norms, 1.0))) < 1e-4


def test_a_norm_follows_the_quantile_and_stays_within_its_range():
    generator, clip_norm = np.random.default_rng(1), 1.0
    norms = torch.from_numpy(np.exp(0.1 * generator.standard_normal(1000)) * 30.0)
    found = []
    for _ in range(200):
        count = float(short_count(norms, clip_norm)) / 10 + generator.normal(0, 5)
        clip_norm = next_norm(clip_norm, count, expected_batch=100.0, quantile=0.5)
        found.append(clip_norm)
    assert np.median(found[100:]) == pytest.approx(30.0, rel=0.05)
    assert next_norm(1.0, 1e9, expected_batch=1.0, quantile=0.5) == pytest.approx(NORM.low)
    assert next_norm(1.0, -1e9, expected_batch=1.0, quantile=0.5) == pytest.approx(NORM.high)


# ---------------------------------------------------------------- a whole run against its definition


def slow_run(texts, plan: DpSgd, *, seed: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The clip norms after each step and the last weights: one record at a time, formulas written out."""
    module, clip_norm, norms = gpt2(), plan.clip_norm, []
    z, s, source = plan.noise_multiplier, plan.count_noise, Randomness.seeded(seed)
    raised = (z**-2 - (2 * s) ** -2) ** -0.5
    for step in range(plan.steps):
        sample = plan.sampler.draw_round(source.child(f"sample {step}"))[0]
        gradients = record_gradients(module, [[texts.texts[index].tolist()] for index in sample], START)
        zeros = {name: torch.zeros(p.shape) for name, p in module.named_parameters()}
        total = clipped_sum(gradients, clip_norm) if gradients else zeros
        votes = [min(0.5, max(-0.5, 1 - norm(each) / clip_norm)) for each in gradients]
        noise = add_noise(zeros, raised * clip_norm * (129 / 128), source.child(f"noise {step + 1}"))
        count = sum(votes) + s * (129 / 128) * float(source.child(f"count {step + 1}").normal(1)[0])
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter -= LEARNING_RATE * (total[name].float() + noise[name]) / plan.sampler.batch
        clip_norm *= math.exp(-0.2 * (0.5 + count / plan.sampler.batch - plan.clip_quantile))
        norms.append(clip_norm)
    return norms, {name: parameter.detach() for name, parameter in module.named_parameters()}


def fast_run(folder, texts, plan: DpSgd, *, seed: int, kind=PrivateGradients):
    module, norms = gpt2(), []
    parameters = dict(module.named_parameters())
    with (
        new_ledger(folder, plan) as ledger,
        private_source(module, texts, plan, ledger, seed=seed, kind=kind) as source,
    ):
        for _ in range(plan.steps):
            values = source.next().values
            with torch.no_grad():
                for name, value in values.items():
                    parameters[name] -= LEARNING_RATE * value
            norms.append(source.clip_norm)
    return norms, {name: parameter.detach() for name, parameter in parameters.items()}


@pytest.mark.parametrize("quantile", [0.5, 0.8])
def test_a_run_is_the_slow_one_of_one_record_at_a_time(tmp_path, quantile):
    texts, plan = token_texts(24), adaptive_plan(24, 8, steps=5, noise=0.5, clip_quantile=quantile)
    expected, weights = slow_run(texts, plan, seed=3)
    found, moved = fast_run(tmp_path, texts, plan, seed=3)
    assert found == pytest.approx(expected, rel=1e-4)
    assert len(set(found)) == 5
    assert distance(moved, weights) < 1e-4


class NotRaised(PrivateGradients):
    """Broken twin: noise on the gradients as if no count were released beside them."""

    def _noisy_mean(self, total, receipt):
        plan = self.plan
        self.plan = Forged(plan)
        try:
            return super()._noisy_mean(total, receipt)
        finally:
            self.plan = plan


class Forged:
    """A plan whose gradients get the event's own noise."""

    def __init__(self, plan: DpSgd) -> None:
        self.normaliser = plan.normaliser
        self.deviation_at = replace(plan, clip_quantile=None, count_noise=None).deviation_at


class DividesByTheDrawnBatch(PrivateGradients):
    """Broken twin: the share is of the units that were drawn, whose number is private."""

    drawn = 0

    def draw(self):
        groups = super().draw()
        self.drawn = len(groups)
        return groups

    def _next_norm(self, count, receipt):
        return super()._next_norm(count * self.plan.normaliser / max(1, self.drawn), receipt)


class CountsWithoutNoise(PrivateGradients):
    """Broken twin: the norm follows the true count."""

    def _next_norm(self, count, receipt):
        return self.plan.next_clip_norm(self._clip_norm, float(count))


class CountsBeforeItsCharge(PrivateGradients):
    """Broken twin: the norm has moved before the step is charged."""

    def release(self, total):
        count, self._count = self._count, torch.zeros((), dtype=torch.float64)
        noisy = add_noise({"count": count}, self.plan.count_deviation, self._randomness)["count"]
        self._clip_norm = self.plan.next_clip_norm(self._clip_norm, float(noisy))
        return super().release(total)


@pytest.mark.parametrize("kind", [NotRaised, DividesByTheDrawnBatch, CountsWithoutNoise, CountsBeforeItsCharge])
def test_runs_of_broken_twins_are_not_the_slow_one(tmp_path, kind):
    texts, plan = token_texts(24), adaptive_plan(24, 8, steps=3, noise=0.5, count_noise=0.6)
    expected, weights = slow_run(texts, plan, seed=3)
    found, moved = fast_run(tmp_path, texts, plan, seed=3, kind=kind)
    apart = max(abs(mine / other - 1) for mine, other in zip(found, expected, strict=True))
    assert apart > 1e-3 or distance(moved, weights) > 1e-3


@pytest.mark.parametrize(("kind", "is_early"), [(PrivateGradients, False), (CountsBeforeItsCharge, True)])
def test_neither_noise_nor_another_norm_exists_before_the_charge(kind, is_early, monkeypatch):
    made = []
    draw = Randomness._draw
    monkeypatch.setattr(Randomness, "_draw", lambda self, *rows: made.append(rows) or draw(self, *rows))
    plan = adaptive_plan(10, 5)
    with private_source(gpt2(), token_texts(10), plan, Refusing(plan), kind=kind) as source:
        with pytest.raises(BudgetExhausted):
            source.next()
        assert (source.clip_norm != plan.clip_norm) is is_early
    assert bool(made) is is_early


def test_an_empty_sample_moves_the_norm_by_noise_alone_and_is_charged(tmp_path):
    plan = adaptive_plan(20, 1, steps=1)
    seed = seed_whose_first_sample(plan.sampler, lambda size: size == 0)
    norms, _ = fast_run(tmp_path, token_texts(20), plan, seed=seed)
    noise = plan.count_deviation * float(Randomness.seeded(seed).child("count 1").normal(1)[0])
    assert norms == [pytest.approx(plan.clip_norm * math.exp(-0.2 * noise), rel=1e-5)]
    assert noise != 0.0
    with SqliteLedger.open(tmp_path / "ledger.db") as ledger:
        assert ledger.spent() == {"training": 1.0}


def test_a_unit_whose_gradient_is_not_finite_is_not_counted(tmp_path):
    module, texts = gpt2(tied=False), token_texts(6)
    with torch.no_grad():
        module.transformer.wte.weight[39] = float("inf")
    texts.texts[3][0] = 39
    assert len(texts.texts[3]) > 1  # or the broken token is not read
    plan = adaptive_plan(6, 6, clip_norm=1e6)  # everybody is drawn, and short
    with new_ledger(tmp_path, plan) as ledger, private_source(module, texts, plan, ledger) as source:
        source.clipped_sum(source.draw())
        assert float(source._count) == 0.5 * 5


def test_an_owner_has_one_vote(tmp_path):
    texts = token_texts(12, owners=3)
    plan = adaptive_plan(3, 3, clip_norm=1e6, unit=Unit.OWNER, texts_per_unit=4)
    with new_ledger(tmp_path, plan) as ledger, private_source(gpt2(), texts, plan, ledger) as source:
        source.clipped_sum(source.draw())
        assert float(source._count) == 0.5 * 3


def test_random_allocation_counts_in_every_step_of_an_epoch(tmp_path):
    plan = replace(adaptive_plan(12, 4, steps=6), sampler=AllocationSampler(12, 4))
    norms, _ = fast_run(tmp_path, token_texts(12), plan, seed=2)
    assert len(set(norms)) == 6


def test_a_sum_is_released_once(tmp_path):
    plan = adaptive_plan(6, 3)
    with new_ledger(tmp_path, plan) as ledger, private_source(gpt2(), token_texts(6), plan, ledger) as source:
        total = source.clipped_sum(source.draw())
        source.release(total)
        with pytest.raises(UsageError, match="released once"):
            source.release(total)  # its noise would be that of another norm
        assert ledger.spent() == {"training": 1.0}


def test_the_norm_of_a_sum_cannot_change_while_it_is_made():
    with PerRecordGradients(gpt2(), 1.0) as engine:
        engine.accumulate(Readable.by(gpt2(), START).batch([[[1, 2, 3]]]))
        with pytest.raises(UsageError, match="cannot change"):
            engine.clip_to(2.0)
        engine.take()
        engine.clip_to(2.0)
        with pytest.raises(UsageError, match="bounds"):
            engine.clip_to(0.0)


# ---------------------------------------------------------------- measured on what is released


def gains(folder, kind, *, trials: int) -> tuple[DpSgd, int, int]:
    """How often the best test of one unit says "there", of steps with it and of steps without it."""
    plan = adaptive_plan(2, 2, clip_norm=1.0, steps=2 * trials, noise=0.5, count_noise=0.255)
    module = torch.nn.Linear(2, 1, bias=False)
    units = Units(token_texts(2))
    z_g = plan.noise_multiplier if kind is NotRaised else plan.gradient_multiplier
    yes = [0, 0]
    ledger = Uncounted(plan)
    source = kind(module, units, plan, ledger=ledger, randomness=Randomness.seeded(8), computation=COMPUTATION)
    for trial in range(2 * trials):
        is_there = trial % 2
        clip_norm = source.clip_norm
        source._count = torch.tensor(-0.5 * is_there, dtype=torch.float64)
        value = source.release({"weight": torch.tensor([[clip_norm * is_there, 0.0]])})["weight"]
        gradient = float(value[0, 0]) * plan.normaliser / clip_norm
        # What was released of the count is told by how the norm moved.
        share = plan.clip_quantile - math.log(source.clip_norm / clip_norm) / 0.2
        count = (share - 0.5) * plan.normaliser
        score = (gradient - 0.5) / z_g**2 - 0.5 * (count + 0.25) / plan.count_noise**2
        yes[is_there] += score > 0
        source._clip_to(1.0)
    return plan, yes[1], yes[0]


class Uncounted(Refusing):
    """A ledger in memory that grants everything."""

    charges = 0

    def charge(self, costs, event):
        self.charges += 1
        return Receipt(self.charges, "")


@pytest.mark.parametrize(("kind", "is_refuted"), [(PrivateGradients, False), (NotRaised, True)])
def test_what_is_released_refutes_the_twin_whose_noise_was_not_raised(tmp_path, kind, is_refuted):
    """Of 800 steps; a sound one is refuted with chance below 1e-4 (two one-sided intervals at 1 − 5e-5)."""
    trials = 400
    plan, hits, alarms = gains(tmp_path, kind, trials=trials)
    least = clopper_pearson(hits, trials, confidence=1 - 1e-4)[0]
    least -= clopper_pearson(alarms, trials, confidence=1 - 1e-4)[1]
    # Advantage of the best test between N(0, 1) and N(1/z, 1): δ at ε = 0 of a unit that always takes part.
    most = math.erf(1 / (2 * plan.noise_multiplier) / math.sqrt(2))
    assert (least > most) is is_refuted
    assert (hits - alarms) / trials > 0.9 * most  # the test is no weak one


# ---------------------------------------------------------------- interrupted runs


class ForgetsItsNorm(PrivateGradients):
    """Broken twin: a resumed run begins with the first norm again."""

    def restore(self, state) -> None:
        super().restore(state | {"clip_norm": self.plan.clip_norm})


def stopped_run(folder, *, stop_at: int | None = None, kind=PrivateGradients):
    """A run that goes on from what is in the folder; its learner and its last clip norm."""
    plan = adaptive_plan(10, 3, steps=6)
    folder.mkdir(exist_ok=True)
    path = folder / "ledger.db"
    with SqliteLedger.open(path) if path.exists() else new_ledger(folder, plan) as ledger:
        who = learner()
        source = private_source(who.module, token_texts(10), plan, ledger, kind=kind)
        train_learner(
            who,
            source,
            checkpoints=Checkpoints(folder / "c"),
            schedule=CheckpointSchedule(seconds=1e9),
            seed=1,
            observe=lambda progress: progress.step != stop_at,
        )
        return who, source.clip_norm


def test_a_resumed_run_goes_on_with_its_norm_bit_for_bit(tmp_path):
    whole, last = stopped_run(tmp_path / "whole")
    for kind, is_same in ((PrivateGradients, True), (ForgetsItsNorm, False)):
        folder = tmp_path / kind.__name__
        _, between = stopped_run(folder, stop_at=2, kind=kind)
        assert Checkpoints(folder / "c").latest().source["clip_norm"] == between != MIDDLING
        parts, found = stopped_run(folder, kind=kind)
        assert (found == last) is is_same
        assert same_weights(whole, parts) is is_same


def test_a_norm_that_no_run_has_is_refused_at_resume(tmp_path):
    plan = adaptive_plan(6, 3)
    with new_ledger(tmp_path, plan) as ledger, private_source(gpt2(), token_texts(6), plan, ledger) as source:
        for norm_of_file in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(ConfigError, match="out of range"):
                source.restore({"receipt": None, "clip_norm": norm_of_file})
        assert source.clip_norm == plan.clip_norm


# ---------------------------------------------------------------- rounding


def test_rounding_is_tested_again_when_the_norm_has_fallen_by_half(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        RoundingTest, "allows_close_packing", lambda self: bool(asked.append(self.clip_norm)) or True
    )
    plan = adaptive_plan(6, 3)
    with new_ledger(tmp_path, plan) as ledger, private_source(gpt2(), token_texts(6), plan, ledger) as source:
        for clip_norm in (MIDDLING, 50.0, 3.1, 2.9, 2.0, 1.4):
            source._clip_to(clip_norm)
            source.clipped_sum([])
    assert asked == [MIDDLING / 2, 2.9 / 2, 1.4 / 2]


def test_norms_keep_the_limit_too_where_they_are_counted(monkeypatch):
    module = gpt2()
    tried = PerRecordGradients.try_out

    def with_longer_norms(self, batch, **more):
        squares, sums = tried(self, batch, **more)
        return squares * (1 + 1e-3 * (len(batch) > 1)), sums  # in company alone, and the sums as they were

    with PerRecordGradients(module, 1.0) as engine:
        for reads_norms in (False, True):
            test = RoundingTest(engine, Readable.by(module, START), 1.0, 1e-4, reads_norms=reads_norms)
            assert test.allows_close_packing()
        monkeypatch.setattr(PerRecordGradients, "try_out", with_longer_norms)
        for reads_norms in (False, True):
            test = RoundingTest(engine, Readable.by(module, START), 1.0, 1e-4, reads_norms=reads_norms)
            assert test.allows_close_packing() is not reads_norms


# ---------------------------------------------------------------- plans


def test_a_plan_costs_what_it_costs_with_a_fixed_norm_and_says_what_it_does():
    fixed = private_plan(100, 20, steps=10)
    plan = replace(fixed, clip_quantile=0.5)
    assert plan.event == fixed.event
    assert plan.count_noise == usual_count_noise(plan.noise_multiplier, 20) == 2.0
    assert plan.gradient_multiplier == pytest.approx(1 / math.sqrt(1 - 1 / 16))
    stated, before = plan.guarantee(), fixed.guarantee()
    assert (stated.epsilon, stated.profile) == (before.epsilon, before.profile)
    assert ADAPTIVE in stated.assumes
    assert not any("the stated norm" in line for line in stated.assumes)
    assert (stated.basis.clip_norm, stated.basis.clip_quantile, stated.basis.count_noise) == (0.5, 0.5, 2.0)
    assert type(stated).from_json(stated.to_json()) == stated
    assert "clip_quantile" not in before.to_json()["basis"]
    assert plan_from_json(plan.to_json()) == plan
    assert plan.to_json() == fixed.to_json() | {"clip_quantile": 0.5, "count_noise": 2.0}
    assert replace(plan, neighbours=Neighbours.REPLACE).gradient_multiplier == plan.gradient_multiplier


def test_more_noise_for_tuning_keeps_the_count_in_proportion_unless_it_was_chosen():
    plan = DpSgd.for_target(epsilon=8, delta=1e-3, units=100, batch=20, epochs=2, clip_quantile=0.5)
    tuned = plan.calibrated_for_tuning(3, epsilon=8)
    assert tuned.noise_multiplier > plan.noise_multiplier
    assert tuned.count_noise == usual_count_noise(tuned.noise_multiplier, 20)
    chosen = replace(plan, count_noise=7.0).calibrated_for_tuning(3, epsilon=8)
    assert (chosen.noise_multiplier, chosen.count_noise) == (tuned.noise_multiplier, 7.0)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sampler": BandedSampler(12, 2, bands=3), "steps": 6}, "correlated noise"),
        ({"canaries": 4}, "gradient canaries"),
        ({"individual": True}, "individual accounting"),
        ({"rounding": Rounding.PROVED}, "proved rounding"),
        ({"clip_quantile": 1.0}, "out of range"),
        ({"clip_quantile": math.nan}, "out of range"),
        ({"count_noise": 0.5}, "half the noise multiplier"),
        ({"clip_quantile": None}, "noise on counts"),
    ],
)
def test_what_was_not_proved_together_is_refused(more, reason):
    with pytest.raises(ConfigError, match=reason):
        replace(adaptive_plan(12, 2), **more)


def test_redacted_training_has_a_fixed_norm():
    plan = adaptive_plan(12, 2, neighbours=Neighbours.REPLACE)
    with pytest.raises(ConfigError, match="fixed clip norm"):
        RedactedPlan(public=None, private=plan, misses=None, policies=None)


def test_a_loop_of_ones_own_takes_the_same_steps_and_tells_the_norm(tmp_path):
    texts, plan = token_texts(20), adaptive_plan(20, 5, steps=3)
    expected, _ = fast_run(tmp_path, texts, plan, seed=5)
    (tmp_path / "mine").mkdir()
    module, found = gpt2(), []
    optimizer = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    ledger = new_ledger(tmp_path / "mine", plan)
    with PrivateStep(module, plan, ledger=ledger, randomness=Randomness.seeded(5), computation=COMPUTATION) as step:
        assert step.clip_norm == plan.clip_norm
        for batch in step.batches(Units(texts)):
            step.accumulate(batch)
            step.update(optimizer)
            found.append(step.clip_norm)
    assert found == pytest.approx(expected, rel=1e-9)
