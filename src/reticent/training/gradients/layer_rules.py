"""One rule per layer type: from a layer's input and output gradient to contributions to its parameters.

A rule holds for a layer whose `forward` *is* the one the rule was written for: a subclass that computes something
else has no rule, and neither has any other layer that owns trainable parameters. Both are refused by name, as is
every layer that mixes records. RMS norms come in dozens of equal copies in transformers: a layer that looks like
one is admitted after the rule agreed with it on numbers.

A parameter that is used outside of its layer's call cannot be seen here; `self_check` finds it.
"""

from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from reticent.core.errors import ModelError
from reticent.training.gradients.contribution import Contribution, Dense, Outer, Rows, wide
from reticent.training.temperature import Temperature

# layer, input [B, ...], output gradient [B, ...] -> (parameter, contribution)
Rule = Callable[[nn.Module, Tensor, Tensor], Iterator[tuple[nn.Parameter, Contribution]]]


def rule_for(name: str, layer: nn.Module) -> Rule:
    """The rule of a layer that owns trainable parameters, or a refusal that names it."""
    forward = type(layer).forward
    if forward is nn.Linear.forward:
        return _linear
    if forward is Conv1D.forward:
        return _conv1d
    if forward is nn.Embedding.forward:
        _refuse_embedding_options(name, layer)
        return _embedding
    if forward is nn.LayerNorm.forward and _is_one_dimensional(layer):
        return _layer_norm
    if forward is Temperature.forward:
        return _temperature
    if _epsilon(layer) is not None and _is_rms_norm(layer):
        return _rms_norm
    raise ModelError(
        f"layer '{name}' has no per-record gradient rule",
        found=type(layer).__name__,
        expected="Linear, Conv1D, Embedding, LayerNorm, an RMS norm, or an LSTM of reticent.models",
        hint=f"freeze it (requires_grad_(False) on the parameters of '{name}') or train adapters (LoRA) instead",
    )


# What transformers calls it: the flag of a layer, and the property of a model since version 5.23.
_RECOMPUTING: Final = ("gradient_checkpointing", "is_activation_checkpointing")


def refuse_mixing(module: nn.Module) -> None:
    """Refuse layers through which one record's output depends on other records, trainable or not."""
    for name, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise ModelError(
                f"layer '{name}' mixes the records of a batch",
                found=type(layer).__name__,
                hint="replace it with LayerNorm: clipping one record cannot bound what others see of it",
            )
    if any(getattr(layer, name, False) is True for layer in module.modules() for name in _RECOMPUTING):
        raise ModelError(
            "the model recomputes its activations, so layers would be seen twice",
            found="gradient checkpointing",
            hint="call gradient_checkpointing_disable(); ask the engine for it (--checkpoint-activations)",
        )


def _flat(x: Tensor) -> Tensor:
    """[B, ..., d] as [B, T, d]."""
    return x.unsqueeze(1) if x.dim() == 2 else x.flatten(1, -2)


def _parameter(layer: nn.Module, name: str) -> nn.Parameter | None:
    found = layer._parameters.get(name)
    return found if isinstance(found, nn.Parameter) else None


def _bias(layer: nn.Module, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    bias = _parameter(layer, "bias")
    if bias is not None:
        yield bias, Dense(wide(gradient).sum(1))


def _linear(layer: nn.Module, x: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """y = W x + b, W [out, in]: Σ_t g_t ⊗ x_t."""
    weight, x, gradient = _parameter(layer, "weight"), _flat(x), _flat(gradient)
    if weight is not None:
        yield weight, Outer(gradient, x)
    yield from _bias(layer, gradient)


def _conv1d(layer: nn.Module, x: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """GPT-2's linear map, y = x W + b, W [in, out]: Σ_t x_t ⊗ g_t."""
    weight, x, gradient = _parameter(layer, "weight"), _flat(x), _flat(gradient)
    if weight is not None:
        yield weight, Outer(x, gradient)
    yield from _bias(layer, gradient)


def _embedding(layer: nn.Module, ids: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """y_t = W[x_t]: Σ_t onehot(x_t) ⊗ g_t, and nothing at the padding index."""
    weight, padding = _parameter(layer, "weight"), layer.padding_idx
    flat, rows = ids.flatten(1) if ids.dim() > 1 else ids.unsqueeze(1), _flat(gradient)
    if padding is not None:
        rows = rows.masked_fill(flat.eq(int(padding)).unsqueeze(-1), 0.0)  # type: ignore[arg-type]
    if weight is not None:
        yield weight, Rows(flat, rows)


def _layer_norm(layer: nn.Module, x: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """y = w ∘ n(x) + b: Σ_t g_t ∘ n(x_t)."""
    weight, x, gradient = _parameter(layer, "weight"), wide(_flat(x)), _flat(gradient)
    if weight is not None:
        normal = functional.layer_norm(x, (x.shape[-1],), eps=float(layer.eps))  # type: ignore[arg-type]
        yield weight, Dense(normal.mul_(gradient).sum(1))
    yield from _bias(layer, gradient)


def _rms_norm(layer: nn.Module, x: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """y = w ∘ n(x), or (1 + w) ∘ n(x), with n(x) = x / √(mean x² + ε): Σ_t g_t ∘ n(x_t)."""
    weight, x, gradient = _parameter(layer, "weight"), wide(_flat(x)), wide(_flat(gradient))
    epsilon = _epsilon(layer)
    if weight is not None and epsilon is not None:
        mean = torch.linalg.vector_norm(x, dim=-1).square_().div_(x.shape[-1])  # [B, T]
        scale = mean.add_(epsilon).rsqrt_().unsqueeze(-1)
        yield weight, Dense((gradient * x).mul_(scale).sum(1))


def _temperature(layer: nn.Module, x: Tensor, gradient: Tensor) -> Iterator[tuple[nn.Parameter, Contribution]]:
    """y = e^(gain s) x: gain e^(gain s) Σ_t g_t · x_t."""
    log_scale, x, gradient = _parameter(layer, "log_scale"), wide(_flat(x)), wide(_flat(gradient))
    if log_scale is not None:
        assert isinstance(layer, Temperature)
        yield log_scale, Dense((gradient * x).sum((1, 2)).unsqueeze(1).mul_(layer.gain * layer.scale()))


def _is_one_dimensional(layer: nn.Module) -> bool:
    return all(parameter.dim() == 1 for parameter in layer.parameters(recurse=False))


def _epsilon(layer: nn.Module) -> float | None:
    """The ε of an RMS norm, where the layer's parts are those of one: one vector `weight`, one ε, no children."""
    weight = _parameter(layer, "weight")
    if weight is None or weight.dim() != 1 or len(layer._parameters) != 1 or layer._modules:
        return None
    for name in ("variance_epsilon", "eps"):
        if hasattr(layer, name):
            value = getattr(layer, name)
            return float(torch.finfo(weight.dtype).eps if value is None else value)
    return None


def _is_rms_norm(layer: nn.Module) -> bool:
    """Whether the layer's gradient for random numbers is the rule's; its parameter is put back as it was."""
    weight = _parameter(layer, "weight")
    assert weight is not None
    generator = torch.Generator().manual_seed(0)
    place, dtype = weight.device, weight.dtype  # not .to(weight), which may be sharded
    x, gradient = (torch.randn(2, 3, len(weight), generator=generator).to(place, dtype) for _ in range(2))
    trial = nn.Parameter(torch.randn(len(weight), generator=generator).to(place, dtype))
    with torch.enable_grad():
        output = torch.func.functional_call(layer, {"weight": trial}, (x,))
        if not isinstance(output, Tensor) or output.shape != x.shape or not output.requires_grad:
            return False
        (expected,) = torch.autograd.grad(output, trial, gradient)
    (_, ours), *_ = _rms_norm(layer, x, gradient)
    assert isinstance(ours, Dense)
    tolerance = 0.05 if weight.dtype in (torch.float16, torch.bfloat16) else 1e-4
    return torch.allclose(ours.gradients.sum(0), expected.to(ours.gradients.dtype), rtol=tolerance, atol=tolerance)


def _refuse_embedding_options(name: str, layer: nn.Module) -> None:
    for option in ("max_norm", "scale_grad_by_freq"):
        if getattr(layer, option, None):
            raise ModelError(
                f"embedding '{name}' uses {option}, which depends on more than one record",
                hint=f"set {option} off or freeze the embedding",
            )
