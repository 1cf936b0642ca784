"""An ensemble of LoRA adapters on one base model, looked up in one forward: `core.ensemble.Ensemble`.

Row 0 is the base as it is, rows 1.. the members' adapters; a part has one member, or two (its halves). All rows are
always computed, whatever a mechanism makes of them, so that neither numerics nor time say anything of the parts.

Prompts are cached: a text that begins like one that is open, or like the prompt of one of the last that were
closed, copies what was read and reads the rest. How long a look-up takes therefore tells whether a *prompt* was
seen before; prompts are not what an ensemble protects, and `remembered=0` forgets them at once.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.core.ensemble import Streams
from reticent.core.errors import InternalError, ModelError
from reticent.core.model import Floats, Tokens, common_length
from reticent.models.adapter_stack import read_adapter, stack_adapters
from reticent.models.batched_decoder import BatchedDecoder
from reticent.models.batching import LOGIT_BYTES
from reticent.models.decoder_weights import read_decoder
from reticent.models.huggingface import HuggingFaceModel, unwrap
from reticent.models.scoring import public_is_finite

T = TypeVar("T", bound=np.floating)

_PREFILL: Final = 128  # columns of a prompt that are read at once
_REMEMBERED: Final = 4
_TOLERANCE: Final = 1e-3  # nats by which the public row may differ from the model's own implementation


@dataclass(frozen=True, slots=True)
class Member:
    """One trained model of an ensemble: the part it belongs to and where its adapter or weights are."""

    part: int
    path: Path


class AdapterEnsemble:
    """LoRA adapters on one base. Raises ModelError where the base or an adapter cannot be read in one batch."""

    def __init__(
        self,
        public: HuggingFaceModel,
        members: Sequence[Member],
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
            for start in range(0, inputs.shape[1], min(_PREFILL, width)):
                piece = inputs[:, start : start + min(_PREFILL, width)]
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


@dataclass(slots=True)
class _Text:
    """A text in the course of being read: its tokens, start token in front, and how many are in the cache."""

    tokens: list[int]
    prompt: int  # how many of the tokens it was opened with
    slot: int | None = None
    read: int = 0


class AdapterStreams:
    """Open texts of an `AdapterEnsemble` in one cache."""

    def __init__(self, decoder: BatchedDecoder, public: HuggingFaceModel, *, remembered: int) -> None:
        self._decoder, self._public, self._most = decoder, public, remembered
        with torch.inference_mode():
            self._cache = decoder.new_cache()
        self._texts: dict[int, _Text] = {}
        self._closed: dict[int, tuple[int, ...]] = {}  # slot → the prompt that is still in it, oldest first
        self._free: list[int] = []
        self._next = 0
        self._slots = 0

    def open(self, context: Tokens) -> int:
        """A new text that begins with `context`; its handle. Computes nothing yet."""
        check_text(context, self._public)
        tokens = [self._public.start_token, *map(int, context)]
        self._next += 1
        self._texts[self._next] = _Text(tokens, len(tokens))
        return self._next

    def look_up(self, handles: Sequence[int]) -> Floats:
        """Next-token log-pmfs [n, 1 + rows, V] of the named texts; all that grew by one token in one forward."""
        return self._look_up(handles, self._decoder.log_probs)

    def look_up_masses(self, handles: Sequence[int]) -> NDArray[np.floating]:
        """The same as chances, in the model's precision."""
        return self._look_up(handles, self._decoder.masses)

    def _look_up(self, handles: Sequence[int], of_hidden: Callable[[torch.Tensor], NDArray[T]]) -> NDArray[T]:
        texts = [self._text(handle) for handle in handles]
        if len(set(handles)) != len(handles):
            raise ValueError("a text is looked up once at a time")
        with torch.inference_mode():
            for text in texts:
                self._catch_up(text)
            # In the order of their slots, so that texts side by side are read without copying them.
            order = sorted(range(len(texts)), key=lambda place: texts[place].slot or 0)
            ordered = [texts[place] for place in order]
            column = torch.tensor([[text.tokens[-1]] for text in ordered], device=self._public.device)
            starts = [len(text.tokens) - 1 for text in ordered]
            hidden = self._decoder.read(
                column, cache=self._cache, slots=[_slot(text) for text in ordered], starts=starts
            )
            found = public_is_finite(of_hidden(hidden[:, :, 0]))  # [n, R, V]
        for text in texts:
            text.read = len(text.tokens)
        if order == list(range(len(texts))):
            return found
        result = np.empty_like(found)
        result[order] = found
        return result

    def append(self, handle: int, token: int) -> None:
        """The released token becomes part of the text."""
        text = self._text(handle)
        check_text([token], self._public, room=len(text.tokens) - 1)
        text.tokens.append(int(token))

    def close(self, handle: int) -> None:
        """Forget a text and free its slot; its prompt may be remembered until the slot is needed."""
        text = self._texts.pop(handle, None)
        if text is None or text.slot is None:
            return
        self._closed[text.slot] = tuple(text.tokens[: min(text.prompt, text.read)])
        while len(self._closed) > self._most:
            self._free.append(self._forget_oldest())

    def _catch_up(self, text: _Text) -> None:
        """Read all but the last token of a text, from wherever the longest beginning is known."""
        if text.slot is None:
            self._place(text)
        slot = _slot(text)
        waiting = text.tokens[text.read : -1]
        for start in range(0, len(waiting), _PREFILL):
            piece = waiting[start : start + _PREFILL]
            tokens = torch.tensor([piece], device=self._public.device)
            self._decoder.read(tokens, cache=self._cache, slots=[slot], starts=[text.read])
            text.read += len(piece)

    def _place(self, text: _Text) -> None:
        """A slot for a text, with the longest beginning that another slot has read already."""
        known = {each.slot: each.tokens[: each.read] for each in self._texts.values() if each.slot is not None}
        known |= {slot: list(prompt) for slot, prompt in self._closed.items()}
        shared = {slot: common_length(tokens, text.tokens[:-1]) for slot, tokens in known.items()}
        source = max(shared, key=lambda slot: shared[slot], default=None)
        if self._free:
            text.slot = self._free.pop()
        elif self._closed and self._slots > len(self._texts) + self._most:
            text.slot = self._forget_oldest()
        else:
            text.slot = self._slots
            self._slots += 1
        self._cache.reserve(slots=self._slots, columns=len(text.tokens))
        if source is not None and shared[source]:
            if source != text.slot:
                self._cache.copy(source, text.slot, columns=shared[source])
            text.read = shared[source]

    def _forget_oldest(self) -> int:
        slot = next(iter(self._closed))
        del self._closed[slot]
        return slot

    def _text(self, handle: int) -> _Text:
        try:
            return self._texts[handle]
        except KeyError:
            raise ValueError(f"no open text has the handle {handle}") from None


def _slot(text: _Text) -> int:
    if text.slot is None:
        raise InternalError("a text is read before it has a slot")
    return text.slot


def check_text(tokens: Tokens, public: HuggingFaceModel, *, room: int = 0) -> None:
    """Refuse what does not fit the context after `room` tokens, and ids that are none."""
    limit, length = public.context_length, len(tokens) + 1 + room
    if limit is not None and length > limit:
        raise ModelError(
            f"a text is too long for the model '{public.name}'",
            found=f"{length} tokens",
            expected=f"at most {limit}",
        )
    if len(tokens) > 0 and not 0 <= min(tokens) <= max(tokens) < public.vocabulary_size:
        raise ModelError("a text has a token id that the model does not have")


def check_members(members: Sequence[Member], parts: Sequence[str]) -> None:
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
