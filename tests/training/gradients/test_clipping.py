"""Clip factors never let a record pass the bound; noise has the asked-for size and is never repeated."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import ModelError
from reticent.core.randomness import Randomness
from reticent.training.gradients.clipping import ClippedSum, add_noise, clip_factors
from reticent.training.gradients.contribution import is_written_out


@given(st.floats(1e-30, 1e30), st.floats(1e-6, 1e6), st.sampled_from([torch.float32, torch.float64]))
def test_factor_times_norm_never_passes_the_clip_norm(norm, clip_norm, dtype):
    norms = torch.tensor([norm], dtype=dtype)
    factor = clip_factors(norms, clip_norm)
    assert 0.0 <= float(factor) <= 1.0
    assert float(factor.double() * norms.double()) <= clip_norm


def test_factor_without_a_margin_would_pass_the_clip_norm():
    norms = torch.rand(1000, generator=torch.Generator().manual_seed(0)) * 10 + 1
    careless = (1.0 / norms).clamp(max=1.0)
    assert (careless.double() * norms.double() > 1.0).any()
    assert (clip_factors(norms, 1.0).double() * norms.double() <= 1.0).all()


def test_small_gradients_are_left_as_they_are():
    assert clip_factors(torch.tensor([0.0, 0.1, 0.9]), 1.0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_norm_that_is_not_finite_is_an_error(broken):
    with pytest.raises(ModelError, match="1 of 3 records"):
        clip_factors(torch.tensor([1.0, broken, 2.0]), 1.0)


def test_clip_norm_must_be_positive():
    with pytest.raises(ValueError, match="clip_norm"):
        clip_factors(torch.ones(1), 0.0)


def test_noise_has_the_asked_for_deviation_on_every_parameter():
    gradients = {
        "a": torch.full((100, 100), 5.0),
        "b": torch.zeros(10_000, dtype=torch.float64),
        "c": torch.zeros(()),
    }
    noisy = add_noise(gradients, 2.5, Randomness.seeded(1))
    for name, mean in (("a", 5.0), ("b", 0.0)):
        # 10,000 draws: the deviation's standard error is 0.7 %, the mean's 0.025; five of them, chance 6e-7
        assert float(noisy[name].std()) == pytest.approx(2.5, rel=0.035)
        assert float(noisy[name].mean()) == pytest.approx(mean, abs=0.125)
    assert [noisy[name].dtype for name in gradients] == [torch.float32, torch.float64, torch.float32]
    assert float(gradients["a"][0, 0]) == 5.0


def test_noise_is_fresh_on_every_call_and_different_on_every_parameter():
    source = Randomness.system()
    zeros = {"a": torch.zeros(50), "b": torch.zeros(50)}
    first, second = add_noise(zeros, 1.0, source), add_noise(zeros, 1.0, source)
    assert not torch.equal(first["a"], second["a"])
    assert not torch.equal(first["a"], first["b"])


def test_small_gradients_share_a_draw_and_large_ones_or_those_of_another_type_have_their_own():
    drawn = []

    class Counted(Randomness):
        def noisy(self, exact, deviation, *, grid):
            drawn.append(len(exact))
            return super().noisy(exact, deviation, grid=grid)

    gradients = {
        "a": torch.arange(12.0).reshape(3, 4),
        "b": torch.full((5,), 100.0),
        "large": torch.full((300, 300), 200.0),
        "wide": torch.full((7,), 300.0, dtype=torch.float64),
        "c": torch.full((2, 1), 400.0),
    }
    noisy = add_noise(gradients, 1e-3, Counted("seeded", 5))
    assert drawn == [17, 90_000, 7, 2]
    for name, gradient in gradients.items():
        assert noisy[name].shape == gradient.shape
        assert noisy[name].dtype == gradient.dtype
        # 90,000 draws beyond seven deviations: chance 3e-7
        assert 0.0 < float((noisy[name] - gradient).abs().max()) < 7e-3
    entries = torch.cat([(noisy[name] - gradients[name]).flatten().double() for name in gradients])
    assert len(torch.unique(entries[:17])) == 17  # of neighbours in a draw, too, no two entries have the same noise


def test_noise_of_negative_deviation_is_refused():
    with pytest.raises(ValueError, match="standard deviation"):
        add_noise({}, -1.0, Randomness.system())


def test_gradients_are_not_in_the_repr():
    assert repr(ClippedSum({"w": torch.ones(3)}, torch.ones(2))) == "ClippedSum(1 parameters, 2 records)"


def test_cheaper_norm_depends_on_length_and_width():
    # measured: at 128 tokens the ghost norm is cheaper for an output head, at 512 the written-out gradient
    assert not is_written_out(128, p=5000, q=256)
    assert is_written_out(512, p=5000, q=256)
    assert is_written_out(128, p=8, q=288)  # LoRA
    assert is_written_out(128, p=1024, q=256)
    assert not is_written_out(16, p=50_000, q=768)


def test_written_out_gradients_never_hold_more_than_three_times_the_factors():
    for length in (16, 128, 1024, 8192):
        for p, q in ((64, 64), (768, 3072), (50_000, 768)):
            if is_written_out(length, p=p, q=q):
                assert p * q <= 3 * length * (p + q)


def impossible_share(released, gradient: float, deviation: float) -> float:
    """How many released float32 values no noise of one's own float32 grid could have made from `gradient`."""
    noise = (released.double() - gradient).float()
    again = (noise.double() + gradient).float()
    return float((again != released).double().mean())


def test_a_noisy_value_tells_nothing_about_which_gradients_are_possible():
    count = 20_000
    for gradient in (0.0, 0.25, 1.0):
        released = add_noise({"w": torch.full((count,), gradient)}, 1.0, Randomness.seeded(3))["w"]
        assert [impossible_share(released, other, 1.0) for other in (0.0, 0.25, 1.0)] == [0.0, 0.0, 0.0]
    # The broken twin adds in float32: a gradient of 1 is ruled out by one value in six.
    twin = torch.from_numpy(Randomness.seeded(3).normal(count)).float()
    assert impossible_share(twin, 1.0, 1.0) > 0.1
    assert impossible_share(twin, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("deviation", [1e-6, 0.37, 1.0, 250.0])
def test_noisy_values_lie_on_a_public_grid_fine_beside_the_noise(deviation):
    released = add_noise({"w": torch.linspace(-3, 3, 1000)}, deviation, Randomness.seeded(4))["w"].double()
    grid = 2.0 ** (math.floor(math.log2(deviation)) - 18)
    within = released[released.abs() < 60 * deviation]
    assert torch.equal((within / grid).round() * grid, within)
    assert grid <= deviation / 2**18
