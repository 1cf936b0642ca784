"""Proved rounding: records one by one, norms never too small, sums off by less than their bound."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from reticent.core.errors import ConfigError, ModelError
from reticent.training.gradients.contribution import Dense, GramCache, Outer, ParameterGradient, Rows
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.rounding_bound import (
    CANCELLATION,
    Rounding,
    movement_by_rounding,
    summation_error,
)
from reticent.training.plans.plan import PROVED_ROUNDING, ROUNDING, ROUNDING_ROOM, plan_from_json
from tests.training.gradients.test_rounding import FULL, HALF, movement, rounding_by_rows, size, source_of, world
from tests.training.small_models import START, gpt2, llama, lstm
from tests.training.small_runs import private_plan


def proved(module, batch: int, **settings):
    source = source_of(module, batch, **settings)
    plan = replace(source.plan, rounding=Rounding.PROVED)
    made = type(source)(
        module, source._units, plan,
        ledger=source._ledger, randomness=source._randomness, computation=source._computation,
    )  # fmt: skip
    # Other tests compare with plain autograd; here every record would be, as no batch ever has two.
    made._engine._awaits_check = False
    return made


def cancelling(seed: int, *, scale: float, positions: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """Terms l_t ⊗ r_t [1, T, ·] in float32 that cancel in pairs, all but a remainder of relative size `scale`."""
    source = torch.Generator().manual_seed(seed)
    left = torch.randn(1, positions, 5, generator=source) * 1e4
    right = torch.randn(1, positions, 3, generator=source) * 1e3
    nearly = right * (1 + scale * torch.randn(1, positions, 3, generator=source))
    return torch.cat([left, -left], dim=1), torch.cat([right, nearly], dim=1)


def exact_gradient(left: torch.Tensor, right: torch.Tensor) -> list[list[Fraction]]:
    """Σ_t l_t ⊗ r_t of float32 numbers, without any rounding."""
    l_rows, r_rows = left[0].tolist(), right[0].tolist()
    return [
        [sum(Fraction(a[i]) * Fraction(b[j]) for a, b in zip(l_rows, r_rows, strict=True)) for j in range(3)]
        for i in range(5)
    ]


def squared(gradient: list[list[Fraction]]) -> float:
    return float(sum(entry * entry for row in gradient for entry in row))


def clipped(left, right, *, is_bounded: bool) -> tuple[float, torch.Tensor]:
    """The squared norm that clipping reads, and the sum with factor 1."""
    found = ParameterGradient(torch.Size([5, 3]), is_bounded=is_bounded)
    found.add(Outer(left, right))
    found.arrange()
    return float(found.squared_norms(GramCache(is_bounded))), found.clipped_sum(torch.ones(1))


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4, 1e-6, 0.0])
def test_a_norm_is_never_below_the_true_one_however_much_cancels(scale):
    """The oracle computes in fractions. The twin is float32, as in tested rounding: its ghost norm falls below."""
    for seed in range(20):
        left, right = cancelling(seed, scale=scale)
        true = exact_gradient(left, right)
        square, total = clipped(left, right, is_bounded=True)
        reach = float((left.norm(dim=-1).double() * right.norm(dim=-1).double()).sum())
        assert square >= squared(true)
        assert square <= squared(true) + 1.01 * CANCELLATION * reach**2
        off = sum((Fraction(total[i, j].item()) - true[i][j]) ** 2 for i in range(5) for j in range(3))
        assert float(off) ** 0.5 <= summation_error(1, 20) / 2**10 * 1.01 * reach


def test_norms_in_float32_can_be_below_the_true_ones_by_more_than_the_room():
    """The mistake that float64 and κ are there for."""
    shares = []
    for seed in range(40):
        left, right = cancelling(seed, scale=2e-7, positions=40)
        shares.append(clipped(left, right, is_bounded=False)[0] / squared(exact_gradient(left, right)))
    assert min(shares) < (1 + ROUNDING_ROOM) ** -2


@pytest.mark.parametrize("dtype", [FULL, HALF], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("build", [gpt2, llama, lstm])
def test_one_unit_more_moves_the_others_by_less_than_is_proved(build, dtype):
    with proved(build(), 10, dtype=dtype) as source:
        for seed in range(2):
            others, (joined,) = world(10, longest=13, seed=seed, texts=2), world(1, longest=30, seed=90 + seed)
            whole, of_others = movement(source, others, joined)
            assert whole <= 1.0
            assert of_others <= movement_by_rounding(10)


def test_records_are_computed_one_by_one_so_that_no_batch_can_round_them():
    """A model that rounds by the number of rows; the twin is a plan that tests nothing and packs closely."""
    others, (joined,) = world(9, longest=9, seed=5), world(1, longest=9, seed=6)
    with proved(rounding_by_rows(gpt2(), 1e-4), 64) as source:
        assert [len(batch) for batch in source._batches(others)] == [1] * 9
        assert movement(source, others, joined)[1] <= movement_by_rounding(64)
        batch = TokenBatch.of([unit[0].tolist() for unit in others], START)
        together, alone = source._engine.clipped_sum(batch), {}
        for single in batch.split(1):
            for name, value in source._engine.clipped_sum(single).gradients.items():
                alone[name] = alone.get(name, 0) + value
        apart = size({name: together.gradients[name] - alone[name] for name in alone})
        assert apart > 10 * movement_by_rounding(64) * source.plan.clip_norm  # the mistake


@pytest.mark.parametrize("build", [gpt2, llama, lstm])
def test_bounded_sums_are_those_of_the_engine_in_float64(build):
    batch = TokenBatch.of([[1, 2, 3, 4], [5, 6], [7, 8, 9, 1, 2]], START)
    with PerRecordGradients(build(), 0.5, is_bounded=True) as engine:
        bounded = engine.clipped_sum(batch)
    with PerRecordGradients(build().double(), 0.5) as engine:
        wide = engine.clipped_sum(batch)
    for name, value in bounded.gradients.items():
        assert value.dtype is torch.float64
        assert torch.allclose(value, wide.gradients[name], atol=2e-5)
    assert bool((bounded.norms >= wide.norms.float() * (1 - 1e-5)).all())
    assert torch.allclose(bounded.norms, wide.norms.float(), rtol=1e-2)  # κ costs little


def test_a_contribution_of_every_kind_is_in_the_bound():
    """A tied embedding (Outer and Rows) with a written-out part: all terms count, and none is lost."""
    rows = Rows(torch.tensor([[1, 2, 1]]), torch.randn(1, 3, 3))
    outer = Outer(torch.randn(1, 4, 5), torch.randn(1, 4, 3))
    dense = Dense(torch.randn(1, 5, 3))
    found = ParameterGradient(torch.Size([5, 3]), is_bounded=True)
    for part in (rows, outer, dense):
        found.add(part)
    found.arrange()
    reach = (
        (outer.left.norm(dim=-1) * outer.right.norm(dim=-1)).sum()
        + rows.values.norm(dim=-1).sum()
        + dense.gradients.norm()
    )
    square = found.squared_norms(GramCache(True))
    total = found.clipped_sum(torch.ones(1))
    assert float(square) == pytest.approx(
        float(total.square().sum() + CANCELLATION * reach.double() ** 2), rel=1e-9
    )


def test_a_unit_of_too_many_positions_contributes_nothing(monkeypatch):
    monkeypatch.setattr("reticent.training.gradients.contribution.MOST_POSITIONS", 20)
    with proved(gpt2(), 4) as source:
        short, long = [np.arange(1, 9, dtype=np.int32)], [np.ones(25, dtype=np.int32)]
        both, one = source.clipped_sum([short, long]), source.clipped_sum([short])
    assert size(one) > 0
    assert all(torch.equal(both[name], one[name]) for name in one)


def test_a_parameter_beyond_the_proof_is_refused(monkeypatch):
    monkeypatch.setattr("reticent.training.gradients.tape.MOST_ENTRIES", 20)
    with pytest.raises(ModelError, match="too large"), PerRecordGradients(gpt2(), 1.0, is_bounded=True):
        pass
    with PerRecordGradients(gpt2(), 1.0):
        pass  # nothing is claimed of it


def test_what_is_assumed_says_what_is_proved_and_what_is_only_tested():
    for words in ("not proved", "tested on made-up text while training", "norms and sums round is not tested"):
        assert words in ROUNDING
    for words in ("IEEE 754", "same numbers", "it is proved"):
        assert words in PROVED_ROUNDING
    assert "tested" not in PROVED_ROUNDING


def test_the_bound_keeps_to_a_quarter_of_the_room_or_the_plan_is_refused():
    assert movement_by_rounding(1) < movement_by_rounding(4096) < ROUNDING_ROOM / 4
    plan = replace(private_plan(20, 5, noise=2.0, steps=1), rounding=Rounding.PROVED)
    assert plan_from_json(plan.to_json()) == plan
    assert PROVED_ROUNDING in plan.guarantee().assumes
    assert ROUNDING not in plan.guarantee().assumes
    assert f"1/{round(4 / ROUNDING_ROOM)}" in PROVED_ROUNDING
    huge = replace(plan.sampler, units=200_000, batch=100_000)
    with pytest.raises(ConfigError, match="proved"):
        replace(plan, sampler=huge, delta=1e-6)


def test_a_plan_that_tests_rounding_is_written_as_before():
    assert "rounding" not in private_plan(20, 5, noise=2.0, steps=1).to_json()
