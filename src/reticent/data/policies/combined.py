"""Policies made of word lists and of other policies.

Each returns sorted, non-overlapping spans and says whether it is local: whether masking one span leaves what it
finds elsewhere as it is. Contextual taggers live elsewhere; a policy whose findings may be kept has a
`fingerprint`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence

from reticent.core.corpus import Policy, Span
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
        digest = hashlib.blake2b(listed.encode("utf8", errors="surrogatepass"), digest_size=16).hexdigest()
        return f"dictionary {self._ignore_case} {digest}"

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


class UnionPolicy:
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


def reads_context(policy: Policy) -> bool:
    """Whether what a policy finds may change where another policy masks something that this one does not find."""
    return bool(getattr(policy, "reads_context", False))
