"""Adam for gradients with noise of a known size: the noise is taken out of the second moment (Tang et al. 2023).

    m ← β1 m + (1 − β1) g,   v ← β2 v + (1 − β2) g²,   both divided by 1 − β^t
    w ← w − rate · m̂ / √max(v̂ − Φ, floor),   Φ the variance of the noise on an entry of g

Where noise is most of a gradient, plain Adam divides every entry by about √Φ and is SGD with momentum. Without Φ
the entries that carry signal set their own scale again. The floor is a share of Φ, so that an entry of noise alone
is not blown up: with a share of 1, such an entry moves as with plain Adam.

Φ follows from the plan alone, so all of this is post-processing of the private gradient.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

_FIRST, _SECOND = 0.9, 0.999
_TINY = 1e-16  # of the second moment, as ε = 1e-8 of Adam


class CorrectedAdam(torch.optim.Optimizer):
    """Adam whose second moment is that of the gradient without its noise."""

    def __init__(
        self, parameters: Iterable[Tensor], rate: float, *, noise_variance: float, floor: float, weight_decay: float
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
