"""Slow truths for training: one record at a time, one backward each, by plain autograd on an untouched copy."""

import copy

import torch
from torch import Tensor, nn


def nll_of_tokens(module: nn.Module, tokens: list[int], start: int) -> Tensor:
    """Sum of -log p(x_t | start, x_<t) of one text, alone in its batch, without any padding."""
    inputs = torch.tensor([[start, *tokens[:-1]]])
    output = module(inputs)
    logits = (output if isinstance(output, Tensor) else output.logits)[0].to(torch.float64)
    return -logits.log_softmax(-1)[torch.arange(len(tokens)), torch.tensor(tokens)].sum()


def record_gradients(
    module: nn.Module, groups: list[list[list[int]]], start: int, *, reduction: str = "mean"
) -> list[dict[str, Tensor]]:
    """The gradient of every record (a group of texts) by itself, in float64 arrays."""
    alone = copy.deepcopy(module)
    result = []
    for texts in groups:
        alone.zero_grad(set_to_none=True)
        loss = sum(nll_of_tokens(alone, text, start) for text in texts)
        if texts:
            (loss / sum(len(text) for text in texts) if reduction == "mean" else loss).backward()
        result.append(
            {
                name: (torch.zeros_like(p) if p.grad is None else p.grad).double().clone()
                for name, p in alone.named_parameters()
                if p.requires_grad
            }
        )
    return result


def norm(gradient: dict[str, Tensor]) -> float:
    """Euclidean norm over all parameters."""
    return float(torch.sqrt(sum(g.double().square().sum() for g in gradient.values())))


def clipped_sum(gradients: list[dict[str, Tensor]], clip_norm: float) -> dict[str, Tensor]:
    """Each gradient scaled to at most `clip_norm`, then added up."""
    total = {name: torch.zeros_like(g) for name, g in gradients[0].items()}
    for gradient in gradients:
        factor = min(1.0, clip_norm / norm(gradient)) if norm(gradient) > 0 else 1.0
        for name, value in gradient.items():
            total[name] += factor * value
    return total


def distance(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """‖found − expected‖ / ‖expected‖ over all parameters, which must be the same ones."""
    assert found.keys() == expected.keys()
    difference = {name: found[name].double() - expected[name].double() for name in expected}
    return norm(difference) / norm(expected)
