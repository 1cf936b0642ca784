"""A policy for each language: every text is read by the one for the language that it is written in.

The language is told by the script where that is enough (Chinese, Japanese, Korean, Arabic, Hebrew, Hindi, Thai)
and else by function words. A text in a language without a policy goes to the policy for all others. Not local:
masking a word may change which language is told.
"""

import re
from collections.abc import Mapping, Sequence

from reticent.core.corpus import Policy, Span
from reticent.data.policies.words.vocabulary import language_of

# The first script with more than a fifth of the letters decides; kana before Han, as Japanese is written with both.
_SCRIPTS = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff]"),
    "ko": re.compile("[\uac00-\ud7a3]"),
    "ar": re.compile("[\u0621-\u06ff]"),
    "he": re.compile("[\u05d0-\u05ea]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
}
_ENOUGH = 0.2
_READ = 2000  # characters by which the script is told


class ByLanguage:
    """Finds what the policy for a text's language finds; `others` reads the languages that have none."""

    is_local = False
    reads_context = True

    def __init__(self, policies: Mapping[str, Policy], others: Policy, *, name: str = "by language") -> None:
        self._policies = dict(policies)
        self._others = others
        self.name = name

    def __repr__(self) -> str:
        return f"ByLanguage({', '.join(sorted(self._policies))})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of all policies; asking a tagger may load it."""
        every = (*self._policies.values(), self._others)
        return tuple(sorted({kind for policy in every for kind in getattr(policy, "kinds", ())}))

    @property
    def fingerprint(self) -> str:
        """Those of all policies with their languages; empty, and so none, where one has none."""
        every = {**dict(sorted(self._policies.items())), "others": self._others}
        parts = {language: str(getattr(policy, "fingerprint", "")) for language, policy in every.items()}
        return f"by language {parts}" if all(parts.values()) else ""

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(written_language(text), []).append(place)
        found: list[tuple[Span, ...]] = [()] * len(texts)
        for language, chosen in places.items():
            policy = self._policies.get(language, self._others)
            for place, spans in zip(chosen, policy.find([texts[place] for place in chosen]), strict=True):
                found[place] = spans
        return found


def written_language(text: str) -> str:
    """The language of a text by its script, or by its function words where many languages share the script."""
    if not text.isascii():
        letters = sum(map(str.isalpha, text[:_READ]))
        for language, script in _SCRIPTS.items():
            if len(script.findall(text[:_READ])) > _ENOUGH * letters:
                return language
    return language_of(text)
