"""Any Hugging Face token classifier as a policy: a BERT that was trained on names, a PII model, your own.

A directory or a hub id; weights are safetensors alone, read by the same checks as language models. Texts longer
than the model accepts are read in windows that overlap; a token is sensitive if any window says so. Tags of any
scheme (IO, IOB, IOBES, BILOU) count by their kind: B-X, I-X, E-X, L-X, S-X, U-X and plain X are kind X by the one
map of kinds, "O" is nothing. A token is found where its chances of all kinds sum to the threshold, whatever the
likeliest tag is: a tagger that wavers between B-X and I-X is sure of X, and a low threshold makes it conservative.
Spans grow to whole words, since sub-word taggers flag "Kl" of "Klein" alone. Kinds that single nobody out are left,
as in `named_entities`. Not local: a classifier reads the sentence around a span.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.core.corpus import Span
from reticent.data.kinds import NOT_PERSONAL, canonical
from reticent.data.policies.taggers.word_edges import whole_words

_TAG = re.compile(r"^[BIESLU][-_]")
_BATCH = 16
_OVERLAP = 32  # tokens that two windows share
_LONGEST = 512
_SHORTEST = 8  # tokens of a window, whatever a configuration says


class TokenClassifierPolicy:
    """Finds what the classifier at `source` gives at least `threshold` of being any of its kinds.

    Loads it with the first text.
    """

    is_local = False

    def __init__(self, source: Path | str, *, threshold: float = 0.5, device: str = "cpu") -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"a threshold is in [0, 1], found {threshold}")
        self._source = str(source)
        self._threshold = threshold
        self._device = device
        self._loaded: tuple[Any, Any] | None = None
        self.name = f"hf {Path(source).name}"

    def __repr__(self) -> str:
        return f"TokenClassifierPolicy({self.name})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the model: another process loads its own."""
        return self.__dict__ | {"_loaded": None}

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings: the weights, the tokeniser and the threshold."""
        import hashlib

        from reticent.models.huggingface.location import locate

        digest = hashlib.blake2b(digest_size=16)
        for path in sorted(path for path in locate(self._source).iterdir() if path.is_file()):
            digest.update(path.name.encode() + b"\0" + path.stat().st_size.to_bytes(8, "big"))
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return f"classifier {digest.hexdigest()} {self._threshold!r}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that may be found."""
        model, _ = self._ready()
        return tuple(sorted({_kind(label) for label in model.config.id2label.values()} - {""}))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        found: list[list[Span]] = [[] for _ in texts]
        for start in range(0, len(texts), _BATCH):
            for index, span in self._batch(list(texts[start : start + _BATCH])):
                found[start + index].append(span)
        return [whole_words(text, spans) for text, spans in zip(texts, found, strict=True)]

    def _batch(self, texts: list[str]) -> list[tuple[int, Span]]:
        import torch

        model, tokenizer = self._ready()
        limit = _window(model.config, tokenizer)
        encoded = tokenizer(
            texts,
            truncation=True,
            max_length=limit,
            stride=min(_OVERLAP, limit // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=True,
            return_tensors="pt",
        )
        places = encoded.pop("offset_mapping").tolist()  # [W, T, 2]: W windows of T tokens
        owners = encoded.pop("overflow_to_sample_mapping").tolist()  # [W]
        spans = []
        for first in range(0, len(owners), _BATCH):
            window = {name: values[first : first + _BATCH].to(self._device) for name, values in encoded.items()}
            with torch.inference_mode():
                chances = model(**window).logits.float().softmax(-1)  # [W, T, labels]
            for row, chance in enumerate(chances.cpu().numpy()):
                spans += [(owners[first + row], span) for span in self._spans(places[first + row], chance)]
        return spans

    def _spans(self, places: list[list[int]], chances: NDArray[np.floating]) -> list[Span]:
        """Neighbouring tokens of one kind, and nothing but them between, are one span; `chances` [T, labels]."""
        model, _ = self._ready()
        labels: dict[str, list[int]] = {}
        for label, name in model.config.id2label.items():
            if kind := _kind(name):
                labels.setdefault(kind, []).append(int(label))
        if not labels:
            return []
        kinds = list(labels)
        of_kind = np.stack([chances[:, columns].sum(-1) for columns in labels.values()], axis=-1)  # [T, kinds]
        is_found = of_kind.sum(-1) >= self._threshold
        spans: list[Span] = []
        previous = -1
        for index, (start, end) in enumerate(places):
            if start == end or not is_found[index]:
                continue
            kind = kinds[int(of_kind[index].argmax())]
            if spans and previous == index - 1 and spans[-1].kind == kind and start >= spans[-1].end:
                spans[-1] = Span(spans[-1].start, end, kind)
            else:
                spans.append(Span(start, end, kind))
            previous = index
        return spans

    def _ready(self) -> tuple[Any, Any]:
        if self._loaded is None:
            from reticent.models.huggingface.loading import load_token_classifier

            self._loaded = load_token_classifier(self._source, device=self._device)
        return self._loaded


def _window(config: Any, tokenizer: Any) -> int:
    """How many tokens a model reads at once: of its positions, some architectures keep a few for padding."""
    positions = int(getattr(config, "max_position_embeddings", _LONGEST))
    if config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet", "longformer"):
        positions -= (config.pad_token_id or 0) + 1
    return max(_SHORTEST, min(_LONGEST, int(tokenizer.model_max_length), positions))


def _kind(label: str) -> str:
    """The kind that a tag names; empty for "O" and for kinds that single nobody out."""
    kind = "" if label == "O" else canonical(_TAG.sub("", label))
    return "" if kind in NOT_PERSONAL else kind
