"""Policies of experiments, whose misses are known: the labels themselves, and one that misses by a keyed hash."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

from reticent.core.corpus import Policy, Record, Span
from reticent.data.policies.combined import reads_context
from reticent.data.redaction.masking import merge_spans


class GoldLabels:
    """Finds what the labels of known records say: the perfect policy of an experiment.

    Spans labelled "none" (seen and left in clear by annotators) are not sensitive. A text without labels is an
    error, never "nothing found". Local: labels belong to a text and are not computed from it.
    """

    def __init__(self, records: Iterable[Record], *, name: str = "gold labels") -> None:
        self.name = name
        self.is_local = True
        self._spans: dict[bytes, tuple[Span, ...]] = {}
        for record in records:
            spans = merge_spans(span for span in record.spans if span.identifier != "none")
            if self._spans.setdefault(_text_digest(record.text), spans) != spans:
                raise ValueError(f"record {record.id}: an equal text has other labels")

    def __repr__(self) -> str:
        return f"GoldLabels({len(self._spans)} texts)"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """The labels of each text."""
        try:
            return [self._spans[_text_digest(text)] for text in texts]
        except KeyError:
            raise ValueError("a text without gold labels; labels exist for the given records alone") from None


class RandomMiss:
    """A policy that misses each of another's spans with probability γ, decided by a keyed hash.

    With `unit="secret"` the hash takes kind and characters: all mentions of one string are missed together, which
    keeps the policy local and is what a systematic blind spot looks like. With "mention" it takes the whole text
    and the position: mentions in different texts are missed independently, equal texts alike, and it is not local.
    Another policy may mask a part of a span that is missed, and then the rest is another secret: `reads_context`.
    """

    def __init__(
        self, policy: Policy, miss_rate: float, *, key: bytes, unit: Literal["secret", "mention"] = "secret"
    ) -> None:
        if not 0.0 <= miss_rate <= 1.0:
            raise ValueError(f"the miss rate must be in [0, 1], found {miss_rate}")
        if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a key has 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, found {len(key)}")
        self._policy = policy
        self._key = key
        self._unit = unit
        self.miss_rate = miss_rate
        self.name = f"{policy.name} missing {miss_rate:g}"
        self.reads_context = miss_rate > 0.0 or reads_context(policy)
        self.is_local = policy.is_local and unit == "secret"

    def __repr__(self) -> str:
        return f"RandomMiss({self.name})"

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """What the other policy finds, less what is missed."""
        return [
            tuple(span for span in spans if not self._misses(span, text))
            for text, spans in zip(texts, self._policy.find(texts), strict=True)
        ]

    def _misses(self, span: Span, text: str) -> bool:
        place = "" if self._unit == "secret" else f"{span.start}\0{text}"
        message = f"{span.kind}\0{text[span.start : span.end]}\0{place}".encode("utf8", errors="surrogatepass")
        digest = hashlib.blake2b(message, key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.miss_rate * 2.0**64


def _text_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf8", errors="surrogatepass"), digest_size=16).digest()
