"""Policies made of other things than patterns: word lists, gold labels, unions, and one that misses on purpose.

Each returns sorted, non-overlapping spans and says whether it is local: whether masking one span leaves what it
finds elsewhere as it is. Contextual taggers live elsewhere; a policy whose findings may be kept has a
`fingerprint`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from reticent.core.corpus import Policy, Record, Span
from reticent.data.redaction.masking import MASK, mask_for, merge_spans

_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")


class Dictionary:
    """Finds listed words and phrases, whole words only, by hash look-up: fast for hundreds of thousands.

    Entries are stripped of punctuation at their ends ("Jr." is "Jr"); any white space matches any other.
    Matches that overlap are merged, so no entry hides another; masks are not words. Local: a match depends on its
    own characters and on whether the two beside it are word characters, which the edges of a mask never are.
    """

    def __init__(self, entries: Mapping[str, str], *, name: str = "dictionary", ignore_case: bool = False) -> None:
        """`entries` gives the kind of each phrase."""
        self.name = name
        self.is_local = True
        self._ignore_case = ignore_case
        self._kinds: dict[str, str] = {}
        self.kinds = tuple(sorted(set(entries.values())))
        self._lengths: dict[str, set[int]] = {}  # first word -> numbers of words of its phrases
        masks = {MASK, *(mask_for(kind) for kind in entries.values())}
        self._masks = re.compile("|".join(re.escape(mask) for mask in sorted(masks)))
        for entry, kind in entries.items():
            phrase = self._key(re.sub(r"^\W+|\W+$", "", entry))
            words = _WORD.findall(phrase)
            if not words:
                raise ValueError("a dictionary entry needs a letter or a digit")
            self._kinds[phrase] = kind
            self._lengths.setdefault(words[0], set()).add(len(words))

    def __repr__(self) -> str:
        return f"Dictionary({self.name}, {len(self._kinds)} entries)"

    @property
    def fingerprint(self) -> str:
        """Hash of entries, kinds and case: what decides the findings."""
        listed = "\0".join(f"{phrase}\1{kind}" for phrase, kind in sorted(self._kinds.items()))
        return f"dictionary {self._ignore_case} {_text_digest(listed).hex()}"

    def _key(self, text: str) -> str:
        spaced = _SPACE.sub(" ", text)
        return spaced.casefold() if self._ignore_case else spaced

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        return [self._find(text) for text in texts]

    def _find(self, text: str) -> tuple[Span, ...]:
        if "<" in text:  # masks of an earlier redaction: of the same length, and in no entry
            text = self._masks.sub(lambda mask: "<" * len(mask.group()), text)
        words = [match.span() for match in _WORD.finditer(text)]
        found = []
        for index, (start, end) in enumerate(words):
            for count in self._lengths.get(self._key(text[start:end]), ()):
                if index + count > len(words):
                    continue
                last = words[index + count - 1][1]
                kind = self._kinds.get(self._key(text[start:last]))
                if kind is not None:
                    found.append(Span(start, last, kind))
        return merge_spans(found)


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


class Union:
    """Finds what any of several policies finds; overlapping spans are merged.

    Local if all parts are, unless one reads what stands around a span or what lies within it (`reads_context`):
    another part may mask just that. "10:30 to 14 May" is a date from "14" on for patterns, as "30" is joined to
    "10", and from "30" on once runs of digits have masked "10".
    """

    def __init__(self, policies: Sequence[Policy], *, name: str | None = None) -> None:
        if not policies:
            raise ValueError("a union needs at least one policy")
        self._policies = tuple(policies)
        self.name = name or " + ".join(policy.name for policy in policies)
        self.reads_context = any(reads_context(policy) for policy in policies)
        alone = len(policies) == 1
        self.is_local = all(policy.is_local for policy in policies) and (alone or not self.reads_context)

    def __repr__(self) -> str:
        return f"Union({self.name})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of its parts that name theirs; asking a tagger may load it."""
        return tuple(dict.fromkeys(kind for policy in self._policies for kind in getattr(policy, "kinds", ())))

    @property
    def fingerprint(self) -> str:
        """Those of its parts; empty, and so no fingerprint, where a part has none."""
        parts = [str(getattr(policy, "fingerprint", "")) for policy in self._policies]
        return f"union [{' | '.join(parts)}]" if all(parts) else ""

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        each = [policy.find(texts) for policy in self._policies]
        return [merge_spans(span for spans in together for span in spans) for together in zip(*each, strict=True)]


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


def reads_context(policy: Policy) -> bool:
    """Whether what a policy finds may change where another policy masks something that this one does not find."""
    return bool(getattr(policy, "reads_context", False))


def _text_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf8", errors="surrogatepass"), digest_size=16).digest()
