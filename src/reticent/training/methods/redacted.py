"""Confidentially redacted training: public epochs without noise, private ones with, in turn (Zhao et al. 2022).

    for every epoch:  one epoch of shuffled batches of the public part, ordinary gradients, no charge
                      one expected epoch of Poisson samples of the private part: clipped, charged, noised

A step reads public records alone or private records alone, never both: in a mixed batch either everything needs
noise or a secret gets none. After e epochs ⌈e·N/B⌉ of the private steps are due; the ledger knows how many were
charged, the checkpoint how many public ones were taken. A public step that a crash lost is repeated, since it is
computed from public text and weights that were paid for; a charged one never is.

What it proves is in `plans.redacted`; what it reads is made by `redacted`.
"""

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from reticent.core.corpus import Record
from reticent.core.errors import ConfigError
from reticent.training.batches import Encoder, TokenTexts, encode_texts
from reticent.training.gradients.source import Gradient, PlainGradients, PrivateGradients
from reticent.training.methods.mask_filling import fill_masks
from reticent.training.methods.redaction import is_empty
from reticent.training.plans.redacted import RedactedPlan


def encode_private(
    model: Encoder, records: Iterable[Record], *, max_length: int | None = None, fill_seed: int | None = None
) -> TokenTexts:
    """Private records as tokens; what is nothing but a mask becomes an empty text, whose gradient is zero.

    With a seed, made-up values stand in the place of masks (`mask_filling`).
    """
    kept = list(records)
    texts = kept if fill_seed is None else [fill_masks(record, seed=fill_seed) for record in kept]
    encoded = encode_texts(model, texts, max_length=max_length)
    nothing = np.zeros(0, dtype=np.int32)
    tokens = [nothing if is_empty(record) else text for record, text in zip(kept, encoded.texts, strict=True)]
    return replace(encoded, texts=tuple(tokens))


class RedactedGradients:
    """The steps of both kinds in turn: a `GradientSource` made of the two that exist.

    Guarantee: every step is wholly public or wholly private; private ones are charged and noised as
    `PrivateGradients` does, and public ones read nothing private but the weights that those released.
    """

    def __init__(self, plan: RedactedPlan, public: PlainGradients | None, private: PrivateGradients) -> None:
        if (public is None) != (plan.public is None) or private.steps != plan.private.steps:
            raise ConfigError("the sources of gradients do not belong to this plan")
        self._plan = plan
        self._public = public
        self._private = private
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
        """The next step of whichever kind is due."""
        due = self._plan.is_private_due(public_steps=self._public_steps, private_steps=self._private.position)
        if self._public is None or due:
            self._attach()
            return self._private.next()
        self._detach()
        return self._public.next()

    def state(self) -> dict[str, Any]:
        """Where each of the two is."""
        public = None if self._public is None else self._public.state()
        return {"public": public, "private": self._private.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; private steps charged since then stay spent."""
        self._private.restore(state["private"])
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
