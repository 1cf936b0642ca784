"""A temperature of the model's answers that is trained beside the weights, and folded into them at the end.

    y = head(e^(g s) · x), x what the last norm gives;  at the end  norm ← e^(g s) · norm, the layers are as before

A model is far too sure of itself on text of a new kind, and not sure enough on text that repeats itself. Each
weight can mend a small share of that, through noise of its own. s is one number that all tokens of all records move
the same way, so that its signal is far above the noise on one entry: it is right after a few steps, and stays right
while the weights move. It has a rate of its own (`OptimiserSettings.temperature_rate`). The gain g, a constant,
says how much of a clipped gradient s may take: of all weights' it is a small part, but of a small adapter's it
would be most in the first steps, hence the smaller gain there.

DP-SGD trains it unless told otherwise. Redacted training does not: with one it was no better in most settings
measured, and surer of names and numbers that it had never seen (`docs/measurements.md`).

Guarantee: s is a parameter like any other. It is clipped in one vector with the others and gets the same noise, so
it costs no ε; folding it into the norm is arithmetic on what was released.

Where the head does not read a norm with weights there is nothing to fold s into, and none is trained.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.func import functional_call

ADAPTER_GAIN: Final = 0.3  # with 1, some adapters learnt less than with a fixed temperature
_CHILD: Final = "temperature"
_TRIAL: Final = 0.5  # factor of the trial
_TOLERANCE: Final = 1e-4


class Temperature(nn.Module):
    """e^(gain · s) · x with one trained number s, 0 at first. It belongs to the head whose input it scales.

    `norm` is the name of the layer that s is folded into; it multiplies by `shift` + its weight.
    """

    def __init__(self, norm: str, shift: float, gain: float) -> None:
        super().__init__()
        self.norm, self.shift, self.gain = norm, shift, gain
        self.log_scale = nn.Parameter(torch.zeros(1))  # s, in units of the gain

    def forward(self, x: Tensor) -> Tensor:
        """x [..., d], scaled."""
        return x * self.scale().to(x.dtype)

    def scale(self) -> Tensor:
        """e^(gain · s)."""
        return (self.gain * self.log_scale).exp()


def add_temperature(module: nn.Module, *, gain: float = 1.0) -> bool:
    """Train a temperature with the module's weights; False where it could not be folded into them afterwards."""
    head, found = head_of(module), foldable_norm(module)
    if head is None or found is None:
        return False
    norm, shift = found
    weight = next(head.parameters())
    temperature = Temperature(norm, shift, gain).to(weight.device, weight.dtype).train(head.training)
    head.add_module(_CHILD, temperature)
    head.register_forward_pre_hook(_scale_input)
    return True


@contextmanager
def folded(module: nn.Module) -> Iterator[None]:
    """With the scale in the last norm and s taken away, a model of its kind, to be saved; afterwards as before."""
    head = head_of(module)
    trained = None if head is None else head._modules.get(_CHILD)
    if head is None or not isinstance(trained, Temperature):
        yield
        return
    layer = module.get_submodule(trained.norm)
    before = {name: value.detach().clone() for name, value in layer.named_parameters(recurse=False)}
    _write(layer, _scaled(layer, trained.scale().item(), trained.shift))
    for key in [key for key, hook in head._forward_pre_hooks.items() if hook is _scale_input]:
        del head._forward_pre_hooks[key]
    del head._modules[_CHILD]
    try:
        yield
    finally:
        _write(layer, before)
        head.add_module(_CHILD, trained)
        head.register_forward_pre_hook(_scale_input)


def temperature_gains(module: nn.Module) -> dict[str, float]:
    """The gain of each trained temperature, one at most, by the name of its parameter."""
    found = module.named_modules()
    return {f"{name}.log_scale": each.gain for name, each in found if isinstance(each, Temperature)}


def head_of(module: nn.Module) -> nn.Module | None:
    """The layer that makes the logits; None where the model names none."""
    named = getattr(module, "get_output_embeddings", None)
    head = named() if callable(named) else None
    return head if isinstance(head, nn.Module) else None


def foldable_norm(module: nn.Module) -> tuple[str, float] | None:
    """The norm that a temperature is folded into: its name and shift; None where there is none of a known kind."""
    norm = _norm_before_head(module)
    shift = None if norm is None else _shift(module.get_submodule(norm))
    return None if norm is None or shift is None else (norm, shift)


@torch.no_grad()
def _norm_before_head(module: nn.Module) -> str | None:
    """The name of the norm, used once, whose result is what the head reads; None where there is none."""
    head = head_of(module)
    if head is None:
        return None
    with _watched(module, head) as (given, made):
        device = next(module.parameters()).device
        module(input_ids=torch.zeros(1, 2, dtype=torch.long, device=device))
    if len(given) != 1:
        return None
    found = [name for name, outputs in made.items() if len(outputs) == 1 and _is_same(outputs[0], given[0])]
    return found[0] if len(found) == 1 else None


@contextmanager
def _watched(module: nn.Module, head: nn.Module) -> Iterator[tuple[list[Tensor], dict[str, list[Tensor]]]]:
    """What the head is given (before any temperature), and what each norm makes, while the module runs."""
    given: list[Tensor] = []
    made: dict[str, list[Tensor]] = {}

    def read(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        given.append(inputs[0])

    def seen(name: str) -> Any:
        return lambda _layer, _inputs, output: made.setdefault(name, []).append(output)

    hooks = [head.register_forward_pre_hook(read, prepend=True)]
    for name, layer in module.named_modules():
        if _looks_like_norm(layer):
            hooks.append(layer.register_forward_hook(seen(name)))
    modes = {layer: layer.training for layer in module.modules()}
    module.eval()
    try:
        yield given, made
    finally:
        for layer, mode in modes.items():
            layer.training = mode
        for hook in hooks:
            hook.remove()


def _scale_input(head: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of the head: not a closure, so that a copy of the model reads its own temperature."""
    return (head.get_submodule(_CHILD)(inputs[0]), *inputs[1:])


def _looks_like_norm(layer: nn.Module) -> bool:
    """A leaf with a vector `weight` and perhaps a vector `bias`."""
    own = layer._parameters
    weight = own.get("weight")
    if layer._modules or weight is None or set(own) - {"weight", "bias"}:
        return False
    return all(value.dim() == 1 for value in own.values() if value is not None)


def _is_same(made: object, given: Tensor) -> bool:
    """Whether the head reads this very tensor, or all of it by another view."""
    return isinstance(made, Tensor) and made.data_ptr() == given.data_ptr() and made.numel() == given.numel()


def _shift(layer: nn.Module) -> float | None:
    """Most norms multiply by w, some by 1 + w: 0 or 1, as it shows on numbers; None for anything else."""
    weight = layer.get_parameter("weight")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 3, len(weight), generator=generator).to(weight.device, weight.dtype)
    tolerance = _TOLERANCE if weight.dtype in (torch.float32, torch.float64) else 0.02
    with torch.no_grad():
        expected = _TRIAL * layer(x)
        for shift in (0.0, 1.0):
            found = functional_call(layer, _scaled(layer, _TRIAL, shift), (x,))
            if torch.allclose(found, expected, rtol=tolerance, atol=tolerance):
                return shift
    return None


def _scaled(layer: nn.Module, factor: float, shift: float) -> dict[str, Tensor]:
    """Parameters with which a norm that multiplies by shift + w gives `factor` times what it gives now."""
    values = {name: value.detach().double() for name, value in layer.named_parameters(recurse=False)}
    scaled = {name: factor * value for name, value in values.items()}
    scaled["weight"] = factor * (shift + values["weight"]) - shift
    return {name: value.to(layer.get_parameter(name).dtype) for name, value in scaled.items()}


@torch.no_grad()
def _write(layer: nn.Module, values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        layer.get_parameter(name).copy_(value)
