"""Any local Hugging Face token classifier as a policy: a BERT that was trained on names, a PII model, your own.

Texts longer than the model accepts are read in windows that overlap; a token is sensitive if any window says so.
Tags B-X, I-X, S-X, E-X and plain X are kind X; "O" is nothing. Spans grow to whole words, since sub-word taggers
flag "Kl" of "Klein" alone. Nothing is downloaded. Not local: a classifier reads the sentence around a span.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reticent.core.corpus import Span
from reticent.core.errors import ModelError
from reticent.data.kinds import canonical
from reticent.data.policies.word_edges import whole_words

_TAG = re.compile(r"^[BIESLU][-_]")
_BATCH = 16
_OVERLAP = 32  # tokens that two windows share
_LONGEST = 512


class TokenClassifierPolicy:
    """Finds what the classifier in `folder` tags with at least `threshold`. Loads it with the first text."""

    is_local = False

    def __init__(self, folder: Path | str, *, threshold: float = 0.5, device: str = "cpu") -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"a threshold is in [0, 1], found {threshold}")
        self._folder = Path(folder)
        self._threshold = threshold
        self._device = device
        self._loaded: tuple[Any, Any] | None = None
        self.name = f"classifier {self._folder.name}"

    def __repr__(self) -> str:
        return f"TokenClassifierPolicy({self._folder.name})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the model: another process loads its own."""
        return self.__dict__ | {"_loaded": None}

    @property
    def fingerprint(self) -> str:
        """Names what decides the findings: the weights, the tokeniser and the threshold."""
        import hashlib

        digest = hashlib.blake2b(digest_size=16)
        for path in sorted(path for path in self._folder.iterdir() if path.is_file()):
            digest.update(path.name.encode() + b"\0" + path.stat().st_size.to_bytes(8, "big"))
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return f"classifier {digest.hexdigest()} {self._threshold!r}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that may be found."""
        _, model = self._ready()
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

        tokenizer, model = self._ready()
        limit = min(
            _LONGEST, tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", _LONGEST)
        )
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
            best, labels = (values.tolist() for values in chances.max(-1))
            for row, owner in enumerate(owners[first : first + _BATCH]):
                spans += [(owner, span) for span in self._spans(places[first + row], labels[row], best[row])]
        return spans

    def _spans(self, places: list[list[int]], labels: list[int], chances: list[float]) -> list[Span]:
        """Neighbouring tokens of one kind, and nothing but them between, are one span."""
        _, model = self._ready()
        spans: list[Span] = []
        previous = -1
        for index, ((start, end), label, chance) in enumerate(zip(places, labels, chances, strict=True)):
            kind = _kind(model.config.id2label[label])
            if start == end or not kind or chance < self._threshold:
                continue
            if spans and previous == index - 1 and spans[-1].kind == kind and start >= spans[-1].end:
                spans[-1] = Span(spans[-1].start, end, kind)
            else:
                spans.append(Span(start, end, kind))
            previous = index
        return spans

    def _ready(self) -> tuple[Any, Any]:
        if self._loaded is None:
            from transformers import AutoModelForTokenClassification, AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
                model = AutoModelForTokenClassification.from_pretrained(self._folder, local_files_only=True)
            except (OSError, ValueError) as problem:
                raise ModelError(
                    f"{self._folder}: not a token classifier",
                    found=type(problem).__name__,
                    expected="a folder with config.json, weights and a tokeniser, saved by save_pretrained",
                ) from None
            if not tokenizer.is_fast:
                raise ModelError(f"{self._folder}: the tokeniser keeps no offsets", expected="a fast tokeniser")
            self._loaded = tokenizer, model.to(self._device).eval()
        return self._loaded


def _kind(label: str) -> str:
    """The kind that a tag names; empty for "O"."""
    return "" if label == "O" else canonical(_TAG.sub("", label))
