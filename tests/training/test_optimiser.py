"""Optimisers that know the noise, and averages of weights: small oracles, checkpoints, and what they are for."""

import numpy as np
import pytest
import torch
from torch import nn

from reticent.core.errors import ConfigError
from reticent.training.checkpoint import Checkpoints
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.optimiser import CorrectedAdam, OptimiserSettings
from reticent.training.update_rules import Rule
from tests.training.small_runs import learner, plain_source, same_weights, token_texts


def moved(gradients, **settings):
    """A weight vector after these gradients [steps, n]."""
    weight = nn.Parameter(torch.zeros(gradients.shape[1]))
    optimiser = CorrectedAdam([weight], 0.01, weight_decay=0.0, **settings)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
    return weight.detach()


def test_without_noise_it_is_adam():
    gradients = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    plain = nn.Parameter(torch.zeros(5))
    adam = torch.optim.Adam([plain], 0.01)
    for gradient in gradients:
        plain.grad = gradient.clone()
        adam.step()
    assert torch.allclose(moved(gradients, noise_variance=0.0, floor=1.0), plain, atol=1e-6)


def test_a_signal_below_the_noise_moves_as_far_as_without_noise():
    # Entries of size 0.2 under noise of deviation 1: Adam divides by √1.04, the corrected one by about 0.2.
    generator = torch.Generator().manual_seed(2)
    noise = torch.randn(4000, 50, generator=generator)
    noisy = moved(0.2 + noise, noise_variance=1.0, floor=0.01).mean()
    blind = moved(0.2 + noise, noise_variance=0.0, floor=0.01).mean()
    clean = moved(torch.full((4000, 1), 0.2), noise_variance=0.0, floor=0.01).mean()
    assert blind / clean == pytest.approx(0.2, abs=0.05)
    assert noisy / clean > 0.6


def test_an_entry_of_noise_alone_is_not_blown_up():
    noise = torch.randn(300, 200, generator=torch.Generator().manual_seed(3))
    steps = moved(noise, noise_variance=1.0, floor=1.0)
    plain = moved(noise, noise_variance=0.0, floor=1.0)
    assert steps.std() < 1.2 * plain.std()


@pytest.mark.parametrize("tail", [0.25, 1.0])
def test_the_tail_is_the_mean_of_the_last_weights(tail):
    settings = OptimiserSettings(tail=tail)
    weights, mean = np.arange(1.0, 9.0), 0.0
    for step, value in enumerate(weights):
        share = settings.share_of_average(step, len(weights))
        mean += share * (value - mean)
    assert mean == pytest.approx(weights[-round(tail * 8) :].mean())


def test_a_moving_average_starts_at_the_first_weights_and_forgets():
    settings = OptimiserSettings(ema=0.9)
    shares = [settings.share_of_average(step, 1000) for step in range(1000)]
    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(1.0 - 2.0 / 11.0)
    assert shares[-1] == pytest.approx(0.1)


@pytest.mark.parametrize("wrong", [{"tail": 0.5, "ema": 0.9}, {"tail": 1.5}, {"ema": 1.0}])
def test_an_average_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match="average"):
        OptimiserSettings(**wrong)


@pytest.mark.parametrize("settings", [{"tail": 1.0}, {"ema": 0.5}, {"tail": 0.5, "rule": Rule.CORRECTED_ADAM}])
def test_a_stopped_run_goes_on_with_its_average_and_ends_alike(settings, tmp_path):
    def trained(folder, *, stop_at=None):
        who = learner(**settings)
        source = plain_source(who.module, token_texts(8), batch=2, epochs=1.0)
        checkpoints, schedule = Checkpoints(tmp_path / folder), CheckpointSchedule(seconds=1e9)
        train_learner(
            who, source, checkpoints=checkpoints, schedule=schedule, seed=1, observe=lambda at: at.step != stop_at
        )
        return who

    whole = trained("whole")
    trained("halved", stop_at=3)
    assert same_weights(whole, trained("halved"))
    raw = learner(**settings)
    Checkpoints(tmp_path / "whole").latest().restore(raw)
    assert not same_weights(whole, raw)  # the checkpoint keeps the weights themselves, beside their average
    raw.settle()
    assert same_weights(whole, raw)
