"""AdamW or SGD on gradients that are given by name, with a learning rate that depends on the place in the run.

    rate(n) = learning_rate · min(1, (n+1)/warmup) · (1, or what is left of the run for linear decay)
    tail    the released weights are the mean of those after each of the last `tail` of the steps
    ema     or their moving average with this decay, which starts quickly: least of ema and (1 + n)/(10 + n)

On private gradients an optimiser is post-processing, and so is an average of weights: no average costs any ε, and
the state may be stored beside the weights. State is kept as named tensors (safetensors), never pickled. Where
weights are sharded over ranks (`sharded`), what goes out and in is whole, and every rank asks for it at once.

A temperature (`training.temperature`) moves by `temperature_rate` where the weights move by `learning_rate` or by
the rate of their phase, and does not decay; with SGD, whose steps are as long as the gradient, it has the rate of
the others.

**Corrected Adam** is Adam for gradients with noise of a known size: the noise is taken out of the second moment
(Tang et al. 2023).

    m ← β1 m + (1 − β1) g,   v ← β2 v + (1 − β2) g²,   both divided by 1 − β^t
    w ← w − rate · m̂ / √max(v̂ − Φ, floor),   Φ the variance of the noise on an entry of g

Where noise is most of a gradient, plain Adam divides every entry by about √Φ and is SGD with momentum. Without Φ
the entries that carry signal set their own scale again. The floor is a share of Φ, so that an entry of noise alone
is not blown up: with a share of 1, such an entry moves as with plain Adam. Φ follows from the plan alone, so all of
this is post-processing of the private gradient, too.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from reticent.core.choice import settle_choices
from reticent.core.errors import ConfigError, ModelError
from reticent.training.temperature import temperature_gains
from reticent.training.update_rules import Decay, Phase, Rule

_AVERAGE = "average"
_SEPARATOR = "//"  # between a parameter's name and the name of a state of it; no parameter's name has a slash
_FIRST, _SECOND = 0.9, 0.999  # β1 and β2 of corrected Adam
_TINY = 1e-16  # of its second moment, as ε = 1e-8 of Adam


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimiserSettings:
    """Everything that decides how far a gradient moves the weights."""

    rule: Rule = Rule.ADAMW
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    warmup: int = 0
    decay: Decay = Decay.CONSTANT
    tail: float = 0.0
    ema: float = 0.0
    noise_variance: float = 0.0  # of an entry of the gradient; for CORRECTED_ADAM
    noise_floor: float = 0.1  # least corrected second moment, as a share of the noise's
    temperature_rate: float = 0.03  # of a trained temperature's logarithm

    def __post_init__(self) -> None:
        settle_choices(self, rule=Rule, decay=Decay)
        if not 0.0 < self.learning_rate < float("inf"):
            raise ConfigError("the learning rate must be positive", found=self.learning_rate)
        if self.weight_decay < 0.0 or self.warmup < 0 or not 0.0 <= self.momentum < 1.0:
            raise ConfigError("weight decay, warm-up and momentum must not be negative, and momentum below 1")
        if not 0.0 <= self.tail <= 1.0 or not 0.0 <= self.ema < 1.0 or (self.tail and self.ema):
            raise ConfigError(
                "weights are averaged over a tail of the steps or by a moving average",
                found=f"tail {self.tail:g}, ema {self.ema:g}",
                expected="one of them, in [0, 1]",
            )

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of step `step` (from 0) of `steps`."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        left = 1.0
        if self.decay is Decay.LINEAR and step >= self.warmup:
            left = (steps - step) / max(1, steps - self.warmup)
        return self.learning_rate * warm * left

    def share_of_average(self, step: int, steps: int) -> float:
        """How much of the average the weights after step `step` (from 0) become; 0 leaves them out."""
        if self.ema:
            return 1.0 - min(self.ema, (1.0 + step) / (10.0 + step)) if step else 1.0
        first = steps - max(1, round(self.tail * steps))
        return 1.0 / (step - first + 1) if self.tail and step >= first else 0.0


class Learner:
    """The trainable parameters of a module and the optimiser that moves them."""

    def __init__(self, module: nn.Module, settings: OptimiserSettings) -> None:
        self.module = module
        self.settings = settings
        # Kept by name from the start: while a per-record engine is attached nothing requires gradients.
        self.parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise ModelError("the model has no trainable parameter", hint="unfreeze some or add LoRA layers")
        self._temperatures = temperature_gains(module)
        self._optimiser = self._new()
        self._average: dict[str, Tensor] = {}

    def _new(self) -> torch.optim.Optimizer:
        settings, parameters = self.settings, self._groups()
        if settings.rule is Rule.ADAMW:
            return torch.optim.AdamW(parameters, settings.learning_rate, weight_decay=settings.weight_decay)
        if settings.rule is Rule.CORRECTED_ADAM:
            return CorrectedAdam(
                parameters,
                settings.learning_rate,
                noise_variance=settings.noise_variance,
                floor=settings.noise_floor,
                weight_decay=settings.weight_decay,
            )
        return torch.optim.SGD(
            parameters, settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay
        )

    def _groups(self) -> list[dict[str, Any]]:
        """The weights, which have the rate of the phase, and the temperature with its `own`, whatever that is."""
        weights = [p for name, p in self.parameters.items() if name not in self._temperatures]
        groups: list[dict[str, Any]] = [{"params": weights, "own": None}] if weights else []
        for name in self.parameters.keys() & self._temperatures.keys():
            gain = self._temperatures[name]
            own = None if self.settings.rule is Rule.SGD else self.settings.temperature_rate / gain
            groups.append({"params": [self.parameters[name]], "own": own, "weight_decay": 0.0})
        return groups

    def apply(self, gradients: Mapping[str, Tensor], phase: Phase) -> None:
        """Move every parameter by the gradient of this step of a phase.

        A new phase starts without state and average. Weights that are no longer finite raise a ModelError;
        `require_finite` asks what the model makes of them.
        """
        if phase.is_new:
            self._optimiser, self._average = self._new(), {}
        settings = self.settings
        share = settings.rate(phase.step, phase.steps) / settings.learning_rate  # by warm-up and decay
        rate = share * (settings.learning_rate if phase.learning_rate is None else phase.learning_rate)
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name].to(device=parameter.device, dtype=parameter.dtype)
        for group in self._optimiser.param_groups:
            group["lr"] = rate if group["own"] is None else share * group["own"]
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._require_finite_weights()
        self._take_into_average(self.settings.share_of_average(phase.step, phase.steps))

    @torch.no_grad()
    def _take_into_average(self, share: float) -> None:
        if share == 0.0:
            return
        for name, parameter in self.parameters.items():
            if share == 1.0 or name not in self._average:  # the first, or the first since steps were lost
                self._average[name] = parameter.detach().clone()
            else:
                self._average[name].lerp_(parameter.detach(), share)

    @torch.no_grad()
    def settle(self) -> None:
        """Put the average in the place of the weights; where nothing was averaged they stay as they are."""
        for name, mean in self._average.items():
            self.parameters[name].copy_(mean)

    @torch.no_grad()
    def require_finite(self) -> None:
        """Raise a ModelError unless every weight is a number and the model gives numbers for one fixed token.

        Looks at weights alone, never at a batch, so that stopping because of it is post-processing. Before a
        checkpoint, since it costs as much as a small step.
        """
        self._require_finite_weights()
        device = next(iter(self.parameters.values())).device
        output = self.module(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device))
        if not torch.isfinite(output if isinstance(output, Tensor) else output.logits).all():
            raise _diverged()

    @torch.no_grad()
    def _require_finite_weights(self) -> None:
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters.values()):
            raise _diverged()

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name, as they are now."""
        return {name: _whole(parameter.detach()).cpu().contiguous() for name, parameter in self.parameters.items()}

    def optimiser_state(self) -> dict[str, Tensor]:
        """The optimiser's state and the average as named tensors; empty before the first step."""
        state = self._optimiser.state
        kept = {
            f"{name}{_SEPARATOR}{key}": _whole(torch.as_tensor(value).detach()).cpu().contiguous()
            for name, parameter in self.parameters.items()
            for key, value in state.get(parameter, {}).items()
            if value is not None
        }
        means = {f"{name}{_SEPARATOR}{_AVERAGE}": _whole(mean) for name, mean in self._average.items()}
        return kept | {name: mean.cpu().contiguous() for name, mean in means.items()}

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor], optimiser: Mapping[str, Tensor]) -> None:
        """Put back what `weights` and `optimiser_state` gave."""
        if weights.keys() != self.parameters.keys():
            raise ModelError(
                "the checkpoint holds other parameters than the model trains",
                found=f"{len(weights)} tensors",
                expected=f"the {len(self.parameters)} trainable ones",
                hint="resume with the model and settings of the run",
            )
        for name, parameter in self.parameters.items():
            parameter.copy_(like_parameter(weights[name], parameter))
        self._optimiser, self._average = self._new(), {}
        for name, value in optimiser.items():
            owner, _, key = name.partition(_SEPARATOR)
            parameter = self.parameters[owner]
            if key == _AVERAGE:
                self._average[owner] = like_parameter(value, parameter).to(parameter.device).clone()
                continue
            place = torch.device("cpu") if key == "step" else parameter.device
            kept = value if key == "step" else like_parameter(value, parameter)
            self._optimiser.state[parameter][key] = kept.to(place).clone()


def like_parameter(value: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor laid out as the parameter is: this rank's part of it where the parameter is sharded."""
    mesh: Any = getattr(parameter, "device_mesh", None)
    if mesh is None:
        return value
    from torch.distributed.tensor import distribute_tensor

    # Every rank holds the same tensor, so that nothing has to be sent.
    placements: Any = getattr(parameter, "placements", None)
    return distribute_tensor(value.to(parameter.device), mesh, placements, src_data_rank=None)


def _diverged() -> ModelError:
    return ModelError(
        "training diverged: the weights, or what the model makes of them, are no longer finite",
        hint="lower the learning rate, or compute in float32; the last checkpoint is intact",
    )


def _whole(value: Tensor) -> Tensor:
    """The tensor of which this rank may hold a part; all ranks ask at once."""
    gather = getattr(value, "full_tensor", None)
    return value if gather is None else gather()


class CorrectedAdam(torch.optim.Optimizer):
    """Adam whose second moment is that of the gradient without its noise."""

    def __init__(
        self,
        parameters: Iterable[dict[str, Any]],
        rate: float,
        *,
        noise_variance: float,
        floor: float,
        weight_decay: float,
    ) -> None:
        """`floor` is the least corrected second moment, as a share of `noise_variance`."""
        if noise_variance < 0.0 or not floor > 0.0:
            raise ValueError(
                f"need a variance of at least 0 and a positive floor, found {noise_variance} and {floor}"
            )
        super().__init__(parameters, {"lr": rate, "weight_decay": weight_decay})
        self._noise_variance = noise_variance
        self._least = max(floor * noise_variance, _TINY)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        if closure is not None:
            raise ValueError("a private gradient is given, not computed again")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group["lr"], group["weight_decay"])

    def _move(self, parameter: Tensor, rate: float, weight_decay: float) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        taken, first, second = float(state["step"]), state["exp_avg"], state["exp_avg_sq"]
        first.lerp_(gradient, 1.0 - _FIRST)
        second.mul_(_SECOND).addcmul_(gradient, gradient, value=1.0 - _SECOND)
        size = second / (1.0 - _SECOND**taken) - self._noise_variance
        size.clamp_(min=self._least).sqrt_()
        if weight_decay:
            parameter.mul_(1.0 - rate * weight_decay)
        parameter.addcdiv_(first, size, value=-rate / (1.0 - _FIRST**taken))
