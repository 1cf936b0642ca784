"""An ensemble of LoRA adapters on one base model, looked up in one forward: `core.ensemble.Ensemble`.

Row 0 is the base as it is, rows 1.. the members' adapters; a part has one member, or two (its halves). All rows are
always computed, whatever a mechanism makes of them, so that neither numerics nor time say anything of the parts.
Texts and what is remembered of them are the business of `ensemble.streams`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from reticent.core.arrays import Floats
from reticent.core.ensemble import Streams
from reticent.core.errors import ModelError
from reticent.core.model import Tokens
from reticent.models.ensemble.decoder import BatchedDecoder
from reticent.models.ensemble.stack import read_adapter, stack_adapters
from reticent.models.ensemble.streams import PREFILL, AdapterStreams, check_text
from reticent.models.ensemble.weights import read_decoder
from reticent.models.huggingface.batching import LOGIT_BYTES
from reticent.models.huggingface.model import HuggingFaceModel, unwrap
from reticent.models.huggingface.scoring import public_is_finite

_REMEMBERED: Final = 4
_TOLERANCE: Final = 1e-3  # nats by which the public row may differ from the model's own implementation


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One trained model of an ensemble: the part it belongs to and where its adapter or weights are."""

    part: int
    path: Path


class AdapterEnsemble:
    """An ensemble of LoRA adapters on one base model.

    Raises ModelError where the base or an adapter cannot be read in one batch.
    """

    def __init__(
        self,
        public: HuggingFaceModel,
        members: Sequence[EnsembleMember],
        *,
        parts: Sequence[str],
        remembered: int = _REMEMBERED,
    ) -> None:
        check_members(members, parts)
        self.public = public
        self.parts = tuple(parts)
        self.rows = tuple(member.part for member in members)
        self._remembered = remembered
        adapters = [read_adapter(member.path) for member in members]
        before = public.fingerprint
        weights = read_decoder(unwrap(public.module))
        self.decoder = BatchedDecoder(weights, stack_adapters(adapters, weights))
        self.fingerprint = ensemble_fingerprint(
            before, [adapter.fingerprint for adapter in adapters], rows=self.rows, parts=self.parts
        )
        self._self_check()

    def __repr__(self) -> str:
        return f"AdapterEnsemble({len(self.parts)} parts, {len(self.rows)} adapters on {self.public.name})"

    def streams(self) -> Streams:
        """A fresh set of texts, none open."""
        return AdapterStreams(self.decoder, self.public, remembered=self._remembered)

    def position_log_probs(self, tokens: Tokens) -> Floats:
        """log-pmfs [T, 1 + rows, V] before each of T tokens."""
        decoder, public = self.decoder, self.public
        check_text(tokens, public)
        if len(tokens) == 0:
            return np.empty((0, decoder.rows, public.vocabulary_size))
        inputs = torch.tensor([[public.start_token, *tokens[:-1]]], device=public.device)
        with torch.inference_mode():
            cache = decoder.new_cache()
            pieces = []
            width = max(1, LOGIT_BYTES // (8 * decoder.rows * public.vocabulary_size))
            for start in range(0, inputs.shape[1], min(PREFILL, width)):
                piece = inputs[:, start : start + min(PREFILL, width)]
                hidden = decoder.read(piece, cache=cache, slots=[0], starts=[start])  # [R, 1, t, d]
                pieces.append(decoder.log_probs(hidden[:, 0]))
            return public_is_finite(np.concatenate(pieces))

    def _self_check(self) -> None:
        """Refuse a base whose batched arithmetic is not its own: an architecture may hide what no setting names."""
        room = 8 if self.public.context_length is None else min(8, self.public.context_length - 1)
        span = self.public.vocabulary_size - 1
        probe = [1 + (37 * place) % span for place in range(room)]
        expected = self.public.position_log_probs(probe)
        found = self.position_log_probs(probe)[:, 0]
        if not np.abs(expected - found).max() < _TOLERANCE:
            raise ModelError(
                f"{self.public.name}: the batched forward does not repeat the model's own",
                found=f"{np.abs(expected - found).max():.2g} nats apart",
            )


def check_members(members: Sequence[EnsembleMember], parts: Sequence[str]) -> None:
    """Every part has as many members as any other, in order: 0, 1, … or 0, 0, 1, 1, …"""
    each, left = divmod(len(members), max(1, len(parts)))
    expected = [part for part in range(len(parts)) for _ in range(each)]
    if not parts or left or each not in (1, 2) or [member.part for member in members] != expected:
        raise ModelError(
            "an ensemble has one member a part, or two",
            found=f"{len(members)} members of {len(parts)} parts",
        )


def ensemble_fingerprint(public: str, members: Sequence[str], *, rows: Sequence[int], parts: Sequence[str]) -> str:
    """Hash of the public model's and all members' fingerprints, in order, and of which part each belongs to."""
    lines = [public, *(f"{part} {member}" for part, member in zip(rows, members, strict=True)), *parts]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
