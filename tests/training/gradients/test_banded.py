"""Correlated noise in training: its covariance, one step of a cycle for a unit, nothing reused after a crash."""

import stat
from dataclasses import replace

import numpy as np
import pytest
import torch

from reticent.core.errors import ConfigError
from reticent.core.event import BandedCycle, Repeated
from reticent.core.randomness import Randomness
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.clipping import add_noise
from reticent.training.gradients.correlated import NoiseMemory
from reticent.training.gradients.source import TRAINING_ACCOUNT
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.plans.bands import coefficients, noise_of_a_step, prefix_error
from reticent.training.plans.plan import HIDDEN_NOISE, DpSgd, plan_from_json
from reticent.training.plans.sampler import BandedSampler, PoissonSampler
from tests.training.gradients.test_allocation import Watched
from tests.training.small_models import gpt2
from tests.training.small_runs import learner, new_ledger, private_source, token_texts

UNITS, BATCH, BANDS = 24, 4, 3
PLAN = DpSgd(sampler=BandedSampler(UNITS, BATCH, BANDS), clip_norm=0.5, noise_multiplier=1.0, steps=9, delta=1e-6)


def matrix(column, steps):
    """C [steps, steps]."""
    return sum(np.diag(np.full(steps - back, value), -back) for back, value in enumerate(column))


@pytest.mark.parametrize(("bands", "steps"), [(1, 6), (2, 12), (5, 40), (12, 60)])
def test_errors_are_those_of_the_matrices_and_columns_have_norm_one(bands, steps):
    column = coefficients(bands, steps)
    c = matrix(column, steps)
    assert np.linalg.norm(c, axis=0).max() <= 1.0
    assert np.linalg.norm(column) == pytest.approx(1.0, abs=1e-8)
    sums = np.tril(np.ones((steps, steps))) @ np.linalg.inv(c)
    assert prefix_error(bands, steps) == pytest.approx(np.linalg.norm(sums) / steps**0.5, rel=1e-8)
    assert noise_of_a_step(bands, steps) == pytest.approx(np.linalg.norm(np.linalg.inv(c)) / steps**0.5, rel=1e-8)


def test_more_bands_leave_less_noise_in_sums_and_beat_the_square_root():
    errors = [prefix_error(bands, 60) for bands in (1, 2, 4, 8)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx((61 / 2) ** 0.5)  # independent noise
    assert prefix_error(1, 10**9) == pytest.approx((10**9 / 2) ** 0.5)  # takes no memory
    root = np.array([1.0, 1 / 2, 3 / 8, 5 / 16])  # of (1 − x)^{−1/2}
    inverse = np.linalg.inv(matrix(root / np.linalg.norm(root), 60))
    assert errors[2] < np.linalg.norm(np.tril(np.ones((60, 60))) @ inverse) / 60**0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("units", "batch", "epochs", "epsilon", "bands", "gain"),
    [(1500, 64, 3, 8.0, 12, 0.70), (10_000, 100, 5, 2.0, 8, 0.73), (10_000, 100, 5, 8.0, 24, 0.49)],
)
def test_at_equal_epsilon_sums_have_less_noise(units, batch, epochs, epsilon, bands, gain):
    asked = {"epsilon": epsilon, "delta": 1e-5, "units": units, "batch": batch, "epochs": epochs}
    banded = DpSgd.for_target(**asked, sampler="banded", bands=bands)
    assert banded.guarantee().epsilon <= epsilon
    assert banded.summed_noise < gain * DpSgd.for_target(**asked).summed_noise


def test_a_plan_is_priced_by_its_cycles_and_survives_its_file():
    assert PLAN.event == Repeated(BandedCycle(1.0, 0.5, 3), 3)
    assert plan_from_json(PLAN.to_json()) == PLAN
    assert PLAN.normaliser == BATCH
    assert HIDDEN_NOISE in PLAN.guarantee().assumes
    with pytest.raises(ConfigError, match="whole cycles"):
        replace(PLAN, steps=8)
    with pytest.raises(ConfigError, match="more units than there are"):
        BandedSampler(24, 10, 3)
    assert replace(PLAN, canaries=3).records == UNITS - 3
    with pytest.raises(ConfigError, match="bands belong"):
        DpSgd.for_target(epsilon=1.0, delta=1e-4, units=100, batch=10, epochs=1, bands=4)


def test_one_band_is_dp_sgd_to_the_bit(tmp_path):
    texts, released = token_texts(UNITS), []
    for name, sampler in (("plain", PoissonSampler(UNITS, BATCH)), ("banded", BandedSampler(UNITS, BATCH, 1))):
        plan = replace(PLAN, sampler=sampler, steps=3)
        (tmp_path / name).mkdir()
        with new_ledger(tmp_path / name, plan) as ledger, private_source(gpt2(), texts, plan, ledger) as source:
            released.append([source.next().values for _ in range(3)])
    for plain, banded in zip(*released, strict=True):
        assert all(torch.equal(plain[name], banded[name]) for name in plain)


def streamed(column, steps, *, lost=()):
    """Noise [steps, n] with a memory and the independent noise [steps, n] that it was made of."""
    memory, zeros = NoiseMemory(column), {"a": torch.zeros(40, 5), "b": torch.zeros(3)}
    rows, fresh = [], []
    for step in range(steps):
        if step in lost:  # a crash: this step was charged, and what followed goes on from the state before it
            before = memory.state()
        memory.begin(step)
        source = Randomness.seeded(7).child(f"{step}")
        rows.append(torch.cat([each.flatten() for each in add_noise(zeros, 2.0, source, past=memory).values()]))
        again = Randomness.seeded(7).child(f"{step}")
        alone = [add_noise({name: zero}, 2.0, again)[name] for name, zero in zeros.items()]  # a draw for each
        fresh.append(torch.cat([each.flatten() for each in alone]))
        if step in lost:
            memory = NoiseMemory(column)
            assert memory.restore(before)
    return torch.stack(rows).double().numpy(), torch.stack(fresh).double().numpy()


def test_the_matrix_times_the_streamed_noise_is_independent_noise():
    column = coefficients(4, 12)
    noise, fresh = streamed(column, 12)
    assert np.abs(matrix(column, 12) @ noise - fresh).max() < 1e-4
    # Twin: a memory of one step less.
    assert np.abs(matrix((*column[:-1], 0.0), 12) @ noise - fresh).max() > 0.1


def test_noise_of_lost_steps_is_not_taken_back_and_no_column_becomes_longer():
    column = coefficients(4, 12)
    noise, fresh = streamed(column, 12, lost=(5,))
    cut = matrix(column, 12)
    cut[6:, 5] = 0.0
    assert np.abs(cut @ noise - fresh).max() < 1e-4
    assert np.linalg.norm(cut, axis=0).max() <= 1.0
    assert len(np.unique(fresh[:, 0])) == 12


def test_a_memory_of_another_matrix_is_refused():
    memory = NoiseMemory(coefficients(4, 12))
    assert not memory.restore(NoiseMemory(coefficients(4, 13)).state())
    assert not memory.restore({})


def test_units_take_part_in_their_own_step_of_a_cycle_alone_with_the_stated_chance():
    # False alarm 6e-5: four standard errors of 2,000 draws.
    sampler, source = BandedSampler(6, 1, 2), Randomness.seeded(3)
    places = sampler.places(source)
    counts = np.zeros(6)
    for _ in range(2000):
        for step, drawn in enumerate(sampler.draw_round(source, places)):
            assert (places[drawn] == step).all()
            counts[drawn] += 1
    assert sampler.rate == pytest.approx(1 / 3)
    assert np.abs(counts / 2000 - 1 / 3).max() < 4 * 0.4714 / 2000**0.5


def closest(drawn):
    """The least number of steps between two steps that a unit took part in."""
    steps = {}
    for step, units in enumerate(drawn):
        for unit in units:
            steps.setdefault(unit, []).append(step)
    return min(np.diff(each).min() for each in steps.values() if len(each) > 1)


class Redraws(Watched):
    """Broken twin: gives the units new places in every cycle while noise of the last one is still taken back."""

    def _next_round(self, source):
        self._places = None
        return super()._next_round(source)


@pytest.mark.parametrize(("kind", "is_apart"), [(Watched, True), (Redraws, False)])
def test_a_unit_is_never_in_two_steps_of_a_window(tmp_path, kind, is_apart):
    with (
        new_ledger(tmp_path, PLAN) as ledger,
        private_source(gpt2(), token_texts(UNITS), PLAN, ledger, kind=kind, seed=2) as source,
    ):
        for step in range(9):
            source.next()
            assert ledger.spent()[TRAINING_ACCOUNT] == 3.0 * (
                step // 3 + 1
            )  # a cycle is charged before its first step
    assert (closest(source.drawn) >= BANDS) == is_apart


def test_a_resumed_run_keeps_places_and_noise_and_skips_the_rest_of_the_cycle(tmp_path):
    texts, module = token_texts(UNITS), gpt2()
    with new_ledger(tmp_path, PLAN) as ledger:
        with private_source(module, texts, PLAN, ledger, kind=Watched) as killed:
            for _ in range(4):
                killed.next()
            state = killed.state()
            killed.next()  # lost
        with private_source(module, texts, PLAN, ledger, kind=Watched, seed=6) as resumed:
            resumed.restore(state)
            assert resumed.position == 6
            assert np.array_equal(resumed._places, killed._places)
            remembered = {step: noise["transformer.wpe.weight"] for step, noise in resumed._memory._steps.items()}
            assert sorted(remembered) == [1, 2, 3]
            resumed.next()
            assert sorted(resumed._memory._steps) == [6]  # too long ago
            while resumed.position < resumed.steps:
                resumed.next()
            assert not any(isinstance(value, torch.Tensor) for value in resumed.state().values())
        assert closest([*killed.drawn[:4], [], [], *resumed.drawn]) >= 3


def test_the_noise_is_in_the_newest_checkpoint_alone_for_its_owner_and_gone_at_the_end(tmp_path):
    checkpoints, found = Checkpoints(tmp_path / "checkpoints"), []

    def observe(progress):
        files = sorted((tmp_path / "checkpoints").glob("*/noise.safetensors"))
        found.append([(path.parent.name, stat.S_IMODE(path.stat().st_mode)) for path in files])
        return True

    with new_ledger(tmp_path, PLAN) as ledger:
        module = gpt2()
        source = private_source(module, token_texts(UNITS), PLAN, ledger)
        train_learner(
            learner(module),
            source,
            checkpoints=checkpoints,
            schedule=CheckpointSchedule(steps=2),
            seed=0,
            observe=observe,
        )
    second, fourth = "step-00000002", "step-00000004"
    assert [[name for name, _ in each] for each in found[:4]] == [[], [second], [second], [fourth]]
    assert {mode for each in found for _, mode in each} == {0o600}
    assert not list((tmp_path / "checkpoints").glob("*/noise.safetensors"))


def test_a_run_that_is_stopped_and_resumed_reads_its_noise_back(tmp_path):
    checkpoints, module, texts = Checkpoints(tmp_path / "checkpoints"), gpt2(), token_texts(UNITS)
    with new_ledger(tmp_path, PLAN) as ledger:
        source = private_source(module, texts, PLAN, ledger)
        stop = lambda progress: progress.step < 3  # noqa: E731
        train_learner(
            learner(module), source, checkpoints=checkpoints, schedule=CheckpointSchedule(), seed=0, observe=stop
        )
        again = private_source(module, texts, PLAN, ledger)
        with again:
            again.restore(checkpoints.latest().source)
            kept, held = again._memory._steps, source._memory._steps
            assert sorted(kept) == sorted(held) == [0, 1, 2]
            assert all(torch.equal(kept[step][name], held[step][name]) for step in held for name in held[step])
