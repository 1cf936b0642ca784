"""An ensemble of whole models, or of adapters that cannot be read in one batch: one forward a model, same protocol.

Costs as much memory and time as there are models; each text keeps every model's own cache. What it computes is what
`adapters.AdapterEnsemble` must equal, so it is that one's oracle as well.
"""

from collections.abc import Sequence

import numpy as np
import torch

from reticent.core.arrays import Floats
from reticent.core.ensemble import Streams
from reticent.core.errors import ModelError
from reticent.core.model import Tokens
from reticent.models.ensemble.adapters import EnsembleMember, check_members, ensemble_fingerprint
from reticent.models.ensemble.streams import check_text
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel, unwrap
from reticent.models.huggingface.scoring import exact_log_softmax, public_is_finite
from reticent.models.huggingface.stream import Stream


class SeparateEnsemble:
    """The public model and one whole model a member, which must read with the public model's vocabulary."""

    def __init__(
        self,
        public: HuggingFaceModel,
        models: Sequence[HuggingFaceModel],
        *,
        rows: Sequence[int],
        parts: Sequence[str],
    ) -> None:
        if len(rows) != len(models) or any(model.vocabulary_size != public.vocabulary_size for model in models):
            raise ModelError("every member of an ensemble needs a part and the public model's vocabulary")
        self.public = public
        self.parts = tuple(parts)
        self.rows = tuple(rows)
        self._models = (public, *models)
        for model in self._models:
            model.module.eval()
        self.fingerprint = ensemble_fingerprint(
            public.fingerprint, [model.fingerprint for model in models], rows=self.rows, parts=self.parts
        )

    @classmethod
    def load(
        cls, public: HuggingFaceModel, members: Sequence[EnsembleMember], *, parts: Sequence[str]
    ) -> "SeparateEnsemble":
        """Load every member's own weights, or its adapter with a base of its own."""
        check_members(members, parts)
        models = [load_model(member.path, device=str(public.device), dtype="float32") for member in members]
        return cls(public, models, rows=[member.part for member in members], parts=parts)

    def __repr__(self) -> str:
        return f"SeparateEnsemble({len(self.parts)} parts, {len(self.rows)} models beside {self.public.name})"

    def streams(self) -> Streams:
        """A fresh set of texts, none open."""
        return SeparateStreams(self._models)

    def position_log_probs(self, tokens: Tokens) -> Floats:
        """log-pmfs [T, 1 + rows, V] before each of T tokens."""
        return np.stack([model.position_log_probs(tokens) for model in self._models], axis=1)


class SeparateStreams:
    """Open texts of a `SeparateEnsemble`: for each text a stream and the latest answer of every model."""

    def __init__(self, models: Sequence[HuggingFaceModel]) -> None:
        self._models = tuple(models)
        self._waiting: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._streams: dict[int, list[Stream]] = {}
        self._answers: dict[int, Floats] = {}
        self._next = 0

    def open(self, context: Tokens) -> int:
        """A new text that begins with `context`; its handle. Computes nothing yet."""
        public = self._models[0]
        check_text(context, public)
        self._next += 1
        self._waiting[self._next] = [public.start_token, *map(int, context)]
        self._lengths[self._next] = 1 + len(context)
        self._streams[self._next] = [Stream(unwrap(model.module)) for model in self._models]
        return self._next

    def look_up(self, handles: Sequence[int]) -> Floats:
        """Next-token log-pmfs [n, 1 + rows, V] of the named texts."""
        if len(set(handles)) != len(handles):
            raise ValueError("a text is looked up once at a time")
        return np.stack([self._answer(handle) for handle in handles])

    def append(self, handle: int, token: int) -> None:
        """The released token becomes part of the text."""
        self._require(handle)
        check_text([token], self._models[0], room=self._lengths[handle] - 1)
        self._waiting[handle].append(int(token))
        self._lengths[handle] += 1

    def close(self, handle: int) -> None:
        """Forget a text and free what it held."""
        for held in (self._waiting, self._lengths, self._streams, self._answers):
            held.pop(handle, None)

    def _answer(self, handle: int) -> Floats:
        self._require(handle)
        waiting = self._waiting[handle]
        if waiting:
            with torch.inference_mode():
                tokens = torch.tensor([waiting], device=self._models[0].device)
                last = torch.tensor([len(waiting) - 1], device=tokens.device)
                rows = [stream.advance(tokens, keep=last)[0, -1] for stream in self._streams[handle]]
                found = torch.stack([exact_log_softmax(row) for row in rows]).cpu().numpy()
                self._answers[handle] = public_is_finite(found)
            self._waiting[handle] = []
        return self._answers[handle]

    def _require(self, handle: int) -> None:
        if handle not in self._streams:
            raise ValueError(f"no open text has the handle {handle}")
