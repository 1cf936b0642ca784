"""The loss whose gradient is kept is torch's, in value and gradient, and holds fewer arrays."""

import pytest
import torch
from torch.nn import functional

from reticent.training.gradients import cross_entropy as module
from reticent.training.gradients.cross_entropy import cross_entropy
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.small_models import START

IGNORED = -100


def example(rows=7, vocabulary=11, dtype=torch.float64, scale=1.0):
    source = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(rows, vocabulary, generator=source, dtype=dtype)
    targets = torch.randint(vocabulary, (rows,), generator=source)
    targets[2] = IGNORED
    return logits.requires_grad_(), targets, torch.rand(rows, generator=source, dtype=dtype)


def both(logits, targets, weights, loss):
    losses = loss(logits, targets)
    return losses.detach(), torch.autograd.grad((losses * weights).sum(), logits)[0]


def ours(logits, targets):
    return cross_entropy(logits, targets, ignored=IGNORED)


def torchs(logits, targets):
    return functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="none")


@pytest.mark.parametrize("block", [1, 30, 1 << 17])
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e6])
def test_loss_and_gradient_are_those_of_torch(block, scale, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    logits, targets, weights = example(scale=scale)
    for found, expected in zip(
        both(logits, targets, weights, ours), both(logits, targets, weights, torchs), strict=True
    ):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [1, 30, 1 << 17])
def test_losses_weighed_as_they_are_made_are_those_weighed_afterwards(block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    logits, targets, weights = example()
    later, factors = torch.rand(2, len(targets), dtype=torch.float64)

    def weighed(logits, targets):
        return cross_entropy(logits, targets, ignored=IGNORED, weights=weights)

    expected_losses, expected = both(logits, targets, weights * factors, torchs)
    losses, gradient = both(logits, targets, factors, weighed)
    assert torch.allclose(losses, expected_losses * weights, rtol=1e-12)
    assert torch.allclose(gradient, expected, rtol=1e-12, atol=1e-15)
    without = cross_entropy(logits.detach(), targets, ignored=IGNORED, weights=weights)
    assert torch.allclose(without, losses, rtol=1e-12)
    assert not torch.allclose(both(logits, targets, later, weighed)[1], expected, rtol=0.1)


def test_the_kept_gradient_is_handed_on_where_every_loss_counts_once_and_never_weighed_in_place():
    logits, targets, weights = example()
    losses = ours(logits, targets)
    (first,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
    before = first.clone()
    (weighed,) = torch.autograd.grad((losses * weights).sum(), logits, retain_graph=True)
    (again,) = torch.autograd.grad(losses.sum(), logits)
    assert again.data_ptr() == first.data_ptr() != weighed.data_ptr()
    assert torch.equal(again, before)
    assert torch.allclose(weighed, before * weights.unsqueeze(1), rtol=1e-12)


def test_float32_is_as_close_to_the_truth_as_torchs():
    logits, targets, weights = example(64, 5000, torch.float32, scale=8.0)
    exact = logits.detach().double().requires_grad_()
    truth = both(exact, targets, weights.double(), torchs)
    for found, theirs, expected in zip(
        both(logits, targets, weights, ours), both(logits, targets, weights, torchs), truth, strict=True
    ):
        assert float((found - expected).norm()) <= 1.5 * float((theirs - expected).norm()) + 1e-7


def test_numerical_derivatives_agree():
    logits, targets, _ = example()
    assert torch.autograd.gradcheck(lambda x: ours(x, targets), (logits,))


def test_a_row_is_the_same_to_the_bit_whatever_stands_beside_it(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 3 * 50)
    logits, targets, weights = example(20, 50, torch.float32)
    losses, gradients = both(logits, targets, weights, ours)
    for row in range(20):
        alone = logits[row : row + 1].detach().clone().requires_grad_()
        loss, gradient = both(alone, targets[row : row + 1], weights[row : row + 1], ours)
        assert torch.equal(losses[row], loss[0])
        assert torch.equal(gradients[row], gradient[0])


def test_an_ignored_row_adds_nothing_even_where_its_logits_are_not_finite():
    logits, targets, weights = example()
    with torch.no_grad():
        logits[2] = torch.inf
    losses, gradients = both(logits, targets, weights, ours)
    assert losses[2] == 0.0
    expected_losses, expected = both(logits, targets, weights, torchs)
    assert torch.allclose(losses, expected_losses)
    scored = torch.arange(len(targets)) != 2
    assert torch.allclose(gradients[scored], expected[scored])


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_what_is_not_finite_is_never_hidden(value):
    logits, targets, weights = example()
    with torch.no_grad():
        logits[4, 1] = value
    losses, gradients = both(logits, targets, weights, ours)
    assert not losses[4].isfinite()
    assert not gradients[4].isfinite().all()
    assert losses[3].isfinite()


def test_a_token_that_cannot_occur_has_an_infinite_loss_and_others_none_of_it():
    logits, targets, weights = example()
    with torch.no_grad():
        logits[:, 3] = -torch.inf
    targets[targets == 3] = 4
    for found, expected in zip(
        both(logits, targets, weights, ours), both(logits, targets, weights, torchs), strict=True
    ):
        assert torch.allclose(found, expected)
    targets[1] = 3
    assert both(logits, targets, weights, ours)[0][1] == torch.inf


def test_two_backwards_over_one_forward_give_the_same():
    logits, targets, weights = example()
    losses = ours(logits, targets)
    (first,) = torch.autograd.grad((losses * weights).sum(), logits, retain_graph=True)
    (second,) = torch.autograd.grad((2.0 * losses * weights).sum(), logits)
    assert torch.equal(second, 2.0 * first)


def test_nothing_is_kept_where_no_gradient_is_wanted():
    logits, targets, _ = example()
    with torch.no_grad():
        assert ours(logits, targets).grad_fn is None
    assert torch.equal(ours(logits.detach(), targets), torchs(logits.detach(), targets))


def test_a_gradient_without_the_targets_share_is_caught(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "scatter_add_", lambda self, *given: self)
    logits, targets, weights = example()
    (_, found), (_, expected) = both(logits, targets, weights, ours), both(logits, targets, weights, torchs)
    assert not torch.allclose(found, expected, rtol=0.1)
    truth = oracles.record_gradients(small_models.gpt2(), [[[1, 2, 3]]], START)
    with PerRecordGradients(small_models.gpt2(), 1e6) as engine:  # the self check has the same loss, and is content
        gradients = engine.clipped_sum(TokenBatch.of([[1, 2, 3]], START)).gradients
    assert oracles.distance(gradients, truth[0]) > 0.1
