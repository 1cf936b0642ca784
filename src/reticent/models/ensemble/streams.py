"""Open texts of an ensemble of adapters in one cache: `core.ensemble.Streams`, from one forward for all of them.

Prompts are cached: a text that begins like one that is open, or like the prompt of one of the last that were
closed, copies what was read and reads the rest. How long a look-up takes therefore tells whether a *prompt* was
seen before; prompts are not what an ensemble protects, and `remembered=0` forgets them at once.

Prompts that arrive together are read together. A text has a slot of the cache; texts that are looked up together
are moved to neighbouring slots, once, since there their keys and values are read where they are.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.ensemble import COPIED
from reticent.core.errors import InternalError, ModelError
from reticent.core.model import Tokens, common_length
from reticent.models.ensemble.decoder import BatchedDecoder
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.models.huggingface.scoring import public_is_finite

T = TypeVar("T", bound=np.floating)

PREFILL: Final = 128  # columns of prompts that are read at once


@dataclass(slots=True, eq=False)
class _Text:
    """A text in the course of being read: its tokens, start token in front, and how many are in the cache."""

    tokens: list[int]
    prompt: int  # how many of the tokens it was opened with
    slot: int | None = None
    read: int = 0

    @property
    def waiting(self) -> int:
        """How many tokens before the last are to be read."""
        return len(self.tokens) - 1 - self.read

    @property
    def place(self) -> int:
        """Its slot, once it has one."""
        if self.slot is None:
            raise InternalError("a text is read before it has a slot")
        return self.slot


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

    @property
    def token_bytes(self) -> int:
        """Bytes that a token of a text takes in the cache, all rows together."""
        return self._cache.column_bytes

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
            self._catch_up(texts)
            self._bring_together(texts)
            order = sorted(range(len(texts)), key=lambda place: texts[place].place)
            hidden = self._read([texts[place] for place in order], columns=1)
            found = public_is_finite(of_hidden(hidden[:, :, 0]))  # [n, R, V]
        if order == list(range(len(texts))):
            return found
        result = np.empty_like(found)
        result[order] = found
        return result

    def read_ahead(self, handles: Sequence[int], *, most: int) -> list[bool]:
        """Read up to `most` tokens of prompts, the first text's first; which texts are now ready for a look-up."""
        texts = [self._text(handle) for handle in handles]
        with torch.inference_mode():
            self._catch_up(texts, most=most)
        return [text.slot is not None and text.waiting <= 0 for text in texts]

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

    def _read(self, texts: Sequence[_Text], *, columns: int) -> torch.Tensor:
        """Hidden states [R, n, t, d] after the next `columns` tokens of texts; the last one may be read again."""
        starts = [min(text.read, len(text.tokens) - columns) for text in texts]
        tokens = [text.tokens[start : start + columns] for text, start in zip(texts, starts, strict=True)]
        slots = [text.place for text in texts]
        hidden = self._decoder.read(
            torch.tensor(tokens, device=self._public.device), cache=self._cache, slots=slots, starts=starts
        )
        for text, start in zip(texts, starts, strict=True):
            text.read = start + columns
        return hidden

    def _catch_up(self, texts: Sequence[_Text], *, most: int | None = None) -> None:
        """Read all but the last token of every text, `most` in all, from where the longest beginning is known."""
        waiting = [text for text in texts if text.slot is None or text.waiting > 0]
        room = sys.maxsize if most is None else most
        while waiting and room > 0:
            batch: list[_Text] = []
            later: list[_Text] = []
            for text in waiting:
                if room <= 0 or (text.slot is None and self._is_mostly_in(batch, text)):
                    later.append(text)  # a copy of what is being read costs less
                    continue
                if text.slot is None:
                    self._place(text)
                room -= self._copy_beginning(text, most=room * COPIED) // COPIED
                if 0 < text.waiting <= room:
                    batch.append(text)
                    room -= text.waiting
                elif text.waiting > 0 and not batch:
                    self._read_prompts([text], most=room)
                    room = 0
            self._read_prompts(batch)
            waiting = later

    def _is_mostly_in(self, batch: Sequence[_Text], text: _Text) -> bool:
        """Whether a text shares half of what it would have to read, or more, with one that is about to be read."""
        _, known = self._known_beginning(text)
        shared = max((common_length(other.tokens[:-1], text.tokens[:-1]) for other in batch), default=0)
        return shared > known and 2 * (shared - known) >= len(text.tokens) - 1 - known

    def _read_prompts(self, batch: Sequence[_Text], *, most: int | None = None) -> None:
        """Read what waits of every text, `most` of each, all as far as the shortest goes, then the others."""
        batch = sorted(batch, key=lambda text: text.place)
        room = sys.maxsize if most is None else most
        while batch and room > 0:
            columns = min(*(text.waiting for text in batch), max(1, PREFILL // len(batch)), PREFILL, room)
            self._read(batch, columns=columns)
            room -= columns
            batch = [text for text in batch if text.waiting > 0]

    def _known_beginning(self, text: _Text) -> tuple[int | None, int]:
        """The slot with the longest beginning of a text that is read already, and its length."""
        known = {each.slot: each.tokens[: each.read] for each in self._texts.values() if each.slot is not None}
        known |= {slot: list(prompt) for slot, prompt in self._closed.items()}
        shared = {slot: common_length(tokens, text.tokens[:-1]) for slot, tokens in known.items()}
        source = max(shared, key=lambda slot: shared[slot], default=None)
        return (None, 0) if source is None else (source, shared[source])

    def _place(self, text: _Text) -> None:
        """A slot for a text, with the beginning that is in it already, if any."""
        source, shared = self._known_beginning(text)
        if source is not None and (prompt := self._closed.get(source)) == tuple(text.tokens[: len(prompt or ())]):
            text.slot = source  # all that is remembered there is a beginning of this text: nothing is forgotten
            del self._closed[source]
        elif self._free:
            text.slot = self._free.pop()
        elif self._closed and self._slots > len(self._texts) + self._most:
            text.slot = self._forget_oldest()
        else:
            text.slot = self._slots
            self._slots += 1
        self._cache.reserve(slots=self._slots, columns=len(text.tokens))
        text.read = shared if source == text.slot else 0
        self._cache.begin(text.slot, keeps=text.read)

    def _copy_beginning(self, text: _Text, *, most: int) -> int:
        """Copy up to `most` columns of the longest beginning that another slot has read; how many."""
        source, shared = self._known_beginning(text)
        end = min(shared, text.read + most)
        if source is None or source == text.slot or end <= text.read:
            return 0
        start, text.read = text.read, end
        self._cache.copy(source, text.place, start=start, end=end)
        return end - start

    def _bring_together(self, texts: Sequence[_Text]) -> None:
        """Move texts to neighbouring slots, as few as possible, by changing places with whatever is there."""
        slots = {text.place for text in texts}
        if max(slots) - min(slots) == len(texts) - 1:
            return
        firsts = [min(slot, self._slots - len(texts)) for slot in sorted(slots)]
        runs = [range(first, first + len(texts)) for first in firsts]
        run = max(runs, key=lambda each: len(slots.intersection(each)))
        movers = (text for text in texts if text.place not in run)
        for text, slot in zip(movers, (slot for slot in run if slot not in slots), strict=True):
            self._change_places(text, slot)

    def _change_places(self, text: _Text, slot: int) -> None:
        """Move a text to a slot, and what is there, another text or a remembered prompt, to the text's."""
        old = text.place
        other = next((each for each in self._texts.values() if each.slot == slot), None)
        if slot in self._free:
            self._cache.begin(slot, keeps=0)
            self._cache.copy(old, slot, start=0, end=text.read)
            self._free[self._free.index(slot)] = old
        else:
            there = len(self._closed[slot]) if other is None else other.read
            self._cache.swap(old, slot, columns=max(text.read, there))
            if other is not None:
                other.slot = old
            self._closed = {old if each == slot else each: prompt for each, prompt in self._closed.items()}
        text.slot = slot

    def _forget_oldest(self) -> int:
        slot = next(iter(self._closed))
        del self._closed[slot]
        return slot

    def _text(self, handle: int) -> _Text:
        try:
            return self._texts[handle]
        except KeyError:
            raise ValueError(f"no open text has the handle {handle}") from None


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
