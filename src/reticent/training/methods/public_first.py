"""Steps on public text first, then private ones: how a run learns what costs no ε before it pays for anything.

    first   shuffled epochs of public text, ordinary gradients, no charge
    then    the steps of a private plan; beside the sample of each, perhaps some public records without noise

Public steps read no private record, so they make another public model for the private steps to start from. What
a noisy step is given beside its sum is a function of public text, a public seed and weights that were released
before: post-processing. So the run proves what its private plan proves, as long as the public text says nothing of
the private records. `dp-sgd` reads public text from a file, redacted training the records of the corpus that its
policies find nothing in (`plans.redacted`).

With noise the optimiser starts anew: state, average and schedule are those of the private steps. The ledger knows
how many steps were charged, the checkpoint how many public ones were taken. A public step that a crash lost is
repeated, since it is computed from public text and weights that were paid for; a charged one never is.
"""

from dataclasses import replace
from types import TracebackType
from typing import Any, Final

from torch import nn

from reticent.core.randomness import Randomness
from reticent.training.gradients.source import Gradient, PlainGradients, PrivateGradients
from reticent.training.plans.choice import SMALL_MODEL
from reticent.training.update_rules import Phase

# Learning rates of public steps, unless another one is given: of small models, and of those with more weights.
PUBLIC_RATE: Final = 1e-3
CAREFUL_PUBLIC_RATE: Final = 3e-4


def public_rate_of(module: nn.Module) -> float:
    """The learning rate of public steps that fits the size of a model, frozen weights counted.

    Large models know more that a few hundred public texts undo: `bench/redaction.py` on stories15m.
    """
    return PUBLIC_RATE if sum(one.numel() for one in module.parameters()) <= SMALL_MODEL else CAREFUL_PUBLIC_RATE


class PublicFirstGradients:
    """The steps of both kinds, one kind after the other: a `GradientSource` made of the two that exist.

    Guarantee: private records are read by `PrivateGradients` alone, which charges and noises what it gives; all
    else that a step is made of is computed from public text, a seed and weights that those released.
    """

    def __init__(
        self,
        public: PlainGradients | None,
        private: PrivateGradients,
        *,
        public_rate: float = PUBLIC_RATE,
        public_per_step: int = 0,
    ) -> None:
        """`public_per_step` is how many of the public records stand beside the sample of each private step."""
        self._public = public
        self._private = private
        self._public_rate = public_rate
        self._public_per_step = public_per_step
        self._has_noise = False  # whether the optimiser has seen a private step
        self._is_attached = False

    @property
    def steps(self) -> int:
        """Steps of both kinds."""
        return self._private.steps + (0 if self._public is None else self._public.steps)

    @property
    def position(self) -> int:
        """Public steps that were taken and private ones that were charged."""
        return self._private.position + (0 if self._public is None else self._public.position)

    @property
    def private_position(self) -> int:
        """Private steps that were charged."""
        return self._private.position

    def next(self) -> Gradient:
        """The next step: public ones first, as long as there are any."""
        public = self._public
        if public is not None and public.position < public.steps:
            self._detach()
            phase = Phase(step=public.position, steps=public.steps, learning_rate=self._public_rate)
            return replace(public.next(), phase=phase)
        self._attach()
        place = self._private.position
        found = self._private.next()
        if public is not None and self._public_per_step:
            found = self._beside(found, public, place)
        phase = Phase(step=place, steps=self._private.steps, is_new=not self._has_noise)
        self._has_noise = True
        return replace(found, phase=phase)

    def _beside(self, noisy: Gradient, public: PlainGradients, place: int) -> Gradient:
        """The noisy mean of private records, and public ones beside it, as the mean of all of them."""
        count, units = self._public_per_step, public.units
        seeded = Randomness.seeded(public.plan.seed).child(f"beside {place}")
        groups = units.gather(seeded.permutation(len(units))[:count].tolist(), seeded)
        added = self._private.clipped_sum(groups)
        private = self._private.plan.normaliser
        values = {name: (private * value + added[name]) / (private + count) for name, value in noisy.values.items()}
        tokens = sum(len(text) for group in groups for text in group)
        return replace(noisy, values=values, tokens=noisy.tokens + tokens)

    def state(self) -> dict[str, Any]:
        """Where each of the two is."""
        public = None if self._public is None else self._public.state()
        return {"public": public, "private": self._private.state(), "has_noise": self._has_noise}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; private steps charged since then stay spent."""
        self._private.restore(state["private"])
        self._has_noise = bool(state["has_noise"])
        if self._public is not None:
            self._public.restore(state["public"])

    def _attach(self) -> None:
        """Per-record gradients need the module for themselves, and plain ones need it back."""
        if not self._is_attached:
            self._private.__enter__()
            self._is_attached = True

    def _detach(self) -> None:
        if self._is_attached:
            self._private.__exit__(None, None, None)
            self._is_attached = False

    def __enter__(self) -> "PublicFirstGradients":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._detach()
