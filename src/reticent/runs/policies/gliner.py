"""GLiNER as a policy: a tagger that is asked for kinds in words ("phone number"), such as a GLiNER-PII model.

Needs the package `gliner`, which this package does not bring: it asks for an older transformers than ours, so an
environment of its own is the safe place. A directory or a hub id; weights are safetensors alone. Texts are read in
windows of words that overlap, in batches; a word is sensitive if any window says so. Labels are named by the one
map of kinds. Not local: a tagger reads the sentence around a span.
"""

import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reticent.core.corpus import Span
from reticent.core.errors import UsageError
from reticent.data.kinds import canonical
from reticent.data.policies.taggers.word_edges import whole_words

INSTALL = "pip install gliner"
LABELS = (
    "person",
    "location",
    "address",
    "organization",
    "email address",
    "phone number",
    "username",
    "password",
    "date of birth",
    "social security number",
    "passport number",
    "driver license number",
    "bank account number",
    "credit card number",
    "iban",
    "ip address",
)
_BATCH = 8
_WINDOW = 200  # words; the models read 384 words with their labels
_OVERLAP = 20
_WORD = re.compile(r"\S+")


class GlinerPolicy:
    """Finds what the GLiNER model at `source` gives one of `labels` with at least `threshold`.

    Loads it with the first text.
    """

    is_local = False

    def __init__(self, source: Path | str, *, labels: Sequence[str] = LABELS, threshold: float = 0.5) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"a threshold is in [0, 1], found {threshold}")
        if importlib.util.find_spec("gliner") is None:
            raise UsageError("the policy 'gliner' needs the package gliner", hint=INSTALL)
        self._source = str(source)
        self._labels = tuple(labels)
        self._threshold = threshold
        self._loaded: Any = None
        self.kinds = tuple(sorted(set(map(canonical, labels))))
        self.name = f"gliner {Path(source).name}"

    def __repr__(self) -> str:
        return f"GlinerPolicy({self.name})"

    def __getstate__(self) -> dict[str, Any]:
        """Without the model: another process loads its own."""
        return self.__dict__ | {"_loaded": None}

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        pieces = [(index, start, piece) for index, text in enumerate(texts) for start, piece in _windows(text)]
        found: list[list[Span]] = [[] for _ in texts]
        if pieces:
            asked = [piece for _, _, piece in pieces]
            answers = self._model().inference(
                asked, list(self._labels), flat_ner=True, threshold=self._threshold, batch_size=_BATCH
            )
            for (index, start, _), entities in zip(pieces, answers, strict=True):
                found[index] += [
                    Span(start + entity["start"], start + entity["end"], canonical(entity["label"]))
                    for entity in entities
                ]
        return [whole_words(text, spans) for text, spans in zip(texts, found, strict=True)]

    def _model(self) -> Any:
        if self._loaded is None:
            from gliner import GLiNER

            from reticent.models.huggingface.checkpoint import check_weights
            from reticent.models.huggingface.location import locate

            folder = locate(self._source)
            check_weights(folder)
            self._loaded = GLiNER.from_pretrained(str(folder), local_files_only=True)
        return self._loaded


def _windows(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of so many words, each with its place; neighbours share some."""
    words = [match.span() for match in _WORD.finditer(text)]
    for first in range(0, len(words), _WINDOW - _OVERLAP):
        last = min(first + _WINDOW, len(words)) - 1
        yield words[first][0], text[words[first][0] : words[last][1]]
        if last == len(words) - 1:
            return
