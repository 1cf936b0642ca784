"""One training step in each way that `bench/dp_sgd.py` compares, all on the same per-record loss and optimiser.

A step is: forward, per-record losses, backward, clipping and summing where the way is private, one AdamW update.
Noise is left out of every way: it is drawn once per step whatever the gradients cost, and is priced by itself.
After a step the gradients of the module are those that the update used.

Rivals are compared at their best. Opacus has no rule for GPT-2's Conv1D nor for transformers' RMS norm and would
fall back to vmap there, which is slow: it is given both rules here. fastDP (Fast Differential Privacy) is told
where gradients originate, which spares it those of the weights, and keeps today's forward of GPT-2 instead of that
of an older transformers. Opake differentiates torch's own cross entropy, since its functional transforms cannot
pass through ours.
"""

import contextlib
import io
import warnings
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor, nn

from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch, record_losses

CLIP_NORM = 1.0
Step = Callable[[TokenBatch], object]


def plain_step(module: nn.Module) -> Step:
    """Not private: the yardstick."""
    optimizer = _optimizer(module)

    def step(batch: TokenBatch) -> None:
        optimizer.zero_grad(set_to_none=True)
        record_losses(module, batch).sum().backward()
        optimizer.step()

    return step


def our_step(module: nn.Module) -> Step:
    """Book-keeping, self check on the first step included."""
    optimizer = _optimizer(module)
    parameters = _trained(module)
    engine = PerRecordGradients(module, CLIP_NORM).__enter__()

    def step(batch: TokenBatch) -> None:
        optimizer.zero_grad(set_to_none=True)
        for name, gradient in engine.clipped_sum(batch).gradients.items():
            parameters[name].grad = gradient
        optimizer.step()

    return step


def opacus_hooks_step(module: nn.Module) -> Step:
    """Opacus, per-sample gradients by hooks."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    _teach_opacus()
    wrapped = GradSampleModule(module, batch_first=True, loss_reduction="sum", strict=False)
    optimizer = DPOptimizer(
        _optimizer(module),
        noise_multiplier=0.0,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=1,
        loss_reduction="sum",
    )

    def step(batch: TokenBatch) -> None:
        optimizer.zero_grad(set_to_none=True)
        record_losses(wrapped._module, batch).sum().backward()
        optimizer.step()

    return step


def opacus_ghost_step(module: nn.Module) -> Step:
    """Opacus, ghost clipping with two backward passes; it refuses tied weights."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    _teach_opacus()
    optimizer = _optimizer(module)
    wrapped = GradSampleModuleFastGradientClipping(
        module,
        batch_first=True,
        loss_reduction="sum",
        strict=False,
        max_grad_norm=CLIP_NORM,
        use_ghost_clipping=True,
    )

    def step(batch: TokenBatch) -> None:
        optimizer.zero_grad(set_to_none=True)
        losses = record_losses(wrapped._module, batch)
        losses.sum().backward(retain_graph=True)
        factors = wrapped.get_clipping_coef().detach()
        optimizer.zero_grad(set_to_none=True)
        wrapped.disable_hooks()
        (factors * losses).sum().backward()
        wrapped.enable_hooks()
        for parameter in wrapped.parameters():
            parameter.grad_sample = None
        optimizer.step()

    return step


def opake_step(module: nn.Module) -> Step:
    """Opake: gradients of single records by torch.func."""
    from opake.dpsgd.clipping import clipped_grad
    from opake.patches import apply_model_patches, apply_runtime_patches

    apply_runtime_patches()
    apply_model_patches(module)
    parameters = _trained(module)
    optimizer = _optimizer(module)

    def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:  # of one record [T]
        arguments = {"input_ids": inputs.unsqueeze(0), "use_cache": False}
        logits = torch.func.functional_call(module, weights, (), arguments).logits  # [1, T, V]
        return nn.functional.cross_entropy(logits[0], targets)  # the mean over its own tokens, none of them padding

    find, state = clipped_grad(loss, clipping_norm=CLIP_NORM, batch_argnums=(1, 2))

    def step(batch: TokenBatch) -> None:
        nonlocal state
        weights = {name: parameter.detach() for name, parameter in parameters.items()}
        clipped, state = find(weights, batch.inputs, batch.targets, state=state)
        for name, gradient in clipped.pytree.items():
            parameters[name].grad = gradient
        optimizer.step()

    return step


def fastdp_step(module: nn.Module) -> Step:
    """Fast Differential Privacy: book-keeping, its mixed mode."""
    import fastDP
    from fastDP import transformers_support

    origins = ["lora_A"] if any("lora_" in name for name in _trained(module)) else ["wte", "wpe", "embed_tokens"]
    swapper = mock.patch.object(transformers_support, "forward_swapper")
    with swapper, contextlib.redirect_stdout(io.StringIO()):
        engine = fastDP.PrivacyEngine(
            module,
            batch_size=1,
            sample_size=100,
            epochs=1,
            noise_multiplier=0.0,
            max_grad_norm=CLIP_NORM,
            clipping_fn="Abadi",
            clipping_mode="MixOpt",
            loss_reduction="sum",
            origin_params=origins,
        )
    optimizer = torch.optim.AdamW(
        [parameter for parameter in module.parameters() if parameter.initially_requires_grad], lr=1e-4
    )
    engine.attach(optimizer)

    def step(batch: TokenBatch) -> None:
        record_losses(module, batch).sum().backward()
        with contextlib.redirect_stdout(io.StringIO()):  # it prints the weights that it does not train
            optimizer.step()

    return step


STEPS: dict[str, Callable[[nn.Module], Step]] = {
    "plain": plain_step,
    "reticent": our_step,
    "opacus-hooks": opacus_hooks_step,
    "opacus-ghost": opacus_ghost_step,
    "opake": opake_step,
    "fastdp": fastdp_step,
}


def _optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(list(_trained(module).values()), lr=1e-4)


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def _teach_opacus() -> None:
    """Rules for the two layers of transformers that Opacus does not know."""
    warnings.filterwarnings("ignore", message=".*(non-full backward|Full backward hook|Secure RNG).*")
    from opacus.grad_sample import register_grad_sampler, register_norm_sampler
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.pytorch_utils import Conv1D

    @register_grad_sampler(Conv1D)
    def conv1d(layer: nn.Module, activations: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
        weight = torch.einsum("n...i,n...j->nij", activations[0], backprops)
        return {layer.weight: weight, layer.bias: torch.einsum("n...k->nk", backprops)}

    @register_norm_sampler(Conv1D)
    def conv1d_norm(layer: nn.Module, activations: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
        grams = torch.einsum("nik,njk->nij", backprops, backprops)
        inputs = torch.einsum("nik,njk->nij", activations[0], activations[0])
        return {
            layer.weight: (grams * inputs).sum((1, 2)).clamp_min(0).sqrt(),
            layer.bias: backprops.sum(1).norm(dim=1),
        }

    @register_grad_sampler(LlamaRMSNorm)
    def rms_norm(layer: nn.Module, activations: list[Tensor], backprops: Tensor) -> dict[nn.Parameter, Tensor]:
        x = activations[0]
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + layer.variance_epsilon)
        return {layer.weight: (normal * backprops).sum(1)}
