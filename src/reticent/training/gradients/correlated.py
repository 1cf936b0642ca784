"""Noise that is correlated with that of the steps before: what was added is remembered and taken back.

    y_t = (z_t − Σ_{j=1}^{b−1} c_j y_{t−j}) / c_0          z_t fresh from the system's generator in every step

`training.plans.bands` says where the coefficients come from and why a run with such noise costs what it costs. The
memory is float64, b copies of the trained weights: in less, the low bits of what is taken back would not be those
of what was added.

**After a crash** the steps since the last checkpoint are gone with their noise, which is not in the weights and so
need not be taken back: they are left out of the sum. That is the same mechanism with zeros in the columns of C that
belong to them, from the next step on, and no column becomes longer. Nothing is ever drawn twice, since no seed or
key exists. Where the memory is lost altogether (another matrix, no checkpoint) the run goes on with an empty one,
by the same argument, and then units are given new places in the cycle.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

_NOISE = "noise"
_SEPARATOR = "//"
_COEFFICIENTS = "coefficients"


class NoiseMemory:
    """The noise of the last steps of a run, by step and parameter. Whoever reads it can take the noise off."""

    def __init__(self, coefficients: tuple[float, ...]) -> None:
        self._coefficients = coefficients
        self._steps: dict[int, dict[str, Tensor]] = {}
        self._step = 0

    def __repr__(self) -> str:
        return f"NoiseMemory({len(self._coefficients)} bands)"

    @property
    def reach(self) -> int:
        """How many steps back noise is correlated; 0 if every step's is independent."""
        return len(self._coefficients) - 1

    def begin(self, step: int) -> None:
        """The next noise is that of step `step`; steps that it is not correlated with are forgotten."""
        first = step - len(self._coefficients) + 1
        self._steps = {each: noise for each, noise in self._steps.items() if first <= each < step}
        self._step = step
        self._steps[step] = {}

    def correlated(self, fresh: Tensor, name: str, block: slice, *, size: int) -> Tensor:
        """The noise of a block of a parameter with `size` entries, from independent noise; `fresh` is overwritten.

        Guarantee: C times the noise of all steps is the independent one, for the matrix C of the coefficients.
        """
        for back, coefficient in enumerate(self._coefficients[1:], start=1):
            before = self._steps.get(self._step - back)
            if before is not None:
                fresh.sub_(before[name][block], alpha=coefficient)
        fresh.div_(self._coefficients[0])
        if len(self._coefficients) > 1:
            kept = self._steps[self._step]
            if name not in kept:
                kept[name] = torch.empty(size, dtype=torch.float64)
            kept[name][block] = fresh
        return fresh

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold to go on, and nobody else may read."""
        kept = {
            f"{_NOISE}{_SEPARATOR}{step}{_SEPARATOR}{name}": value
            for step, noise in self._steps.items()
            for name, value in noise.items()
        }
        return kept | {_COEFFICIENTS: torch.tensor(self._coefficients, dtype=torch.float64)}

    def restore(self, state: Mapping[str, Tensor]) -> bool:
        """Go on from a state; False where there is none, or one of another matrix, and the memory stays empty."""
        found = state.get(_COEFFICIENTS)
        if found is None or tuple(found.tolist()) != self._coefficients:
            return False
        for key, value in state.items():
            kind, _, rest = key.partition(_SEPARATOR)
            if kind == _NOISE:
                step, _, name = rest.partition(_SEPARATOR)
                self._steps.setdefault(int(step), {})[name] = value
        return True
