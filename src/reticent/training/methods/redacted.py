"""Confidentially redacted training: public epochs without noise, then private steps with it (Zhao et al. 2022).

    first   shuffled epochs of the public part, ordinary gradients, no charge
    then    steps of a Poisson sample of the private part: clipped, charged, noised; beside it a sample of the
            public part, clipped alike and without noise, as large as its share of the records

The two sums of a step are computed apart and added once the private one is noisy. A step therefore releases what
DP-SGD on the private part releases, and what is added to it is a function of public text, a public seed and weights
that were released before: post-processing. In one batch of both either everything would need noise or a secret got
none. The paper alternates epochs of either kind under one optimiser. Its moments are then those of gradients of two
sizes, and noisy steps undo what plain ones learnt: `bench/redaction.py` compares.

With noise the optimiser starts anew: state, average and schedule are those of the private steps. The ledger knows
how many steps were charged, the checkpoint how many public ones were taken. A public step that a crash lost is
repeated, since it is computed from public text and weights that were paid for; a charged one never is.

What it proves is in `plans.redacted`; what it reads is made by `redaction`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import numpy as np
from torch import nn

from reticent.core.corpus import Record
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.training.batches import Encoder, TokenTexts, Units, encode_texts
from reticent.training.gradients.source import Gradient, PlainGradients, PrivateGradients
from reticent.training.methods.mask_filling import fill_masks
from reticent.training.methods.redaction import RedactedCorpus, is_empty
from reticent.training.plans.choice import SMALL_MODEL
from reticent.training.plans.redacted import RedactedPlan
from reticent.training.update_rules import Phase

# Learning rates of public steps, unless another one is given: of small models, and of those with more weights.
PUBLIC_RATE: Final = 1e-3
CAREFUL_PUBLIC_RATE: Final = 3e-4


def public_rate_of(module: nn.Module) -> float:
    """The learning rate of public steps that fits the size of a model, frozen weights counted.

    Large models know more that a few hundred public texts undo: `bench/redaction.py` on stories15m.
    """
    return PUBLIC_RATE if sum(one.numel() for one in module.parameters()) <= SMALL_MODEL else CAREFUL_PUBLIC_RATE


def encode_private(
    model: Encoder, corpus: RedactedCorpus, *, max_length: int | None = None, fill_seed: int | None = None
) -> TokenTexts:
    """Private records as tokens; what is nothing but a mask becomes an empty text, whose gradient is zero.

    With a seed, made-up values stand in the place of masks (`mask_filling`).
    """
    kept: Sequence[Record] = list(corpus.private)
    texts: Iterable[Record] = kept
    if fill_seed is not None:
        texts = [fill_masks(one, kinds, seed=fill_seed) for one, kinds in zip(kept, corpus.kinds, strict=True)]
    encoded = encode_texts(model, texts, max_length=max_length)
    nothing = np.zeros(0, dtype=np.int32)
    tokens = [nothing if is_empty(record) else text for record, text in zip(kept, encoded.texts, strict=True)]
    return replace(encoded, texts=tuple(tokens))


class RedactedGradients:
    """The steps of both kinds, one kind after the other: a `GradientSource` made of the two that exist.

    Guarantee: private records are read by `PrivateGradients` alone, which charges and noises what it gives; all
    else that a step is made of is computed from public text, a seed and weights that those released.
    """

    def __init__(
        self,
        plan: RedactedPlan,
        public: PlainGradients | None,
        private: PrivateGradients,
        *,
        public_units: Units | None = None,
        public_rate: float = PUBLIC_RATE,
    ) -> None:
        """`public_units` are the public records of which private steps read some, too."""
        if (public is None) != (plan.public is None) or private.steps != plan.private.steps:
            raise ConfigError("the sources of gradients do not belong to this plan")
        if (0 if public_units is None else len(public_units)) != (0 if plan.public is None else plan.public.units):
            raise ConfigError("the public records do not belong to this plan")
        self._plan = plan
        self._public = public
        self._private = private
        self._public_units = public_units
        self._public_rate = public_rate
        self._has_noise = False  # whether the optimiser has seen a private step
        self._is_attached = False

    @property
    def steps(self) -> int:
        """Steps of both kinds."""
        return self._plan.steps

    @property
    def position(self) -> int:
        """Public steps that were taken and private ones that were charged."""
        return self._public_steps + self._private.position

    @property
    def private_position(self) -> int:
        """Private steps that were charged."""
        return self._private.position

    @property
    def _public_steps(self) -> int:
        return 0 if self._public is None else self._public.position

    def next(self) -> Gradient:
        """The next step: public ones first, as long as there are any."""
        if self._public is not None and self._public_steps < self._public.steps:
            self._detach()
            place = self._public_steps
            found = self._public.next()
            rate = self._public_rate
            return replace(found, phase=Phase(step=place, steps=self._public.steps, learning_rate=rate))
        self._attach()
        place = self._private.position
        found = self._with_public(self._private.next(), place)
        phase = Phase(step=place, steps=self._private.steps, is_new=not self._has_noise)
        self._has_noise = True
        return replace(found, phase=phase)

    def _with_public(self, noisy: Gradient, place: int) -> Gradient:
        """The noisy mean of private records, and public ones beside it, as the mean of all of them."""
        count = self._plan.public_per_step
        if self._public_units is None or self._plan.public is None or not count:
            return noisy
        seeded = Randomness.seeded(self._plan.public.seed).child(f"beside {place}")
        groups = self._public_units.gather(seeded.permutation(len(self._public_units))[:count].tolist(), seeded)
        added = self._private.clipped_sum(groups)
        private = self._plan.private.normaliser
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

    def __enter__(self) -> "RedactedGradients":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._detach()
