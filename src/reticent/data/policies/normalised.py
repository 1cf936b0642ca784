"""A policy that reads text as it looks: invisible characters left out, letters and their accents composed, letters
and digits of full width in their usual one.

A name with a soft hyphen or a zero-width space in it, or with an accent as a character of its own, looks like a
name and is none to a policy that compares characters; "０３－１２３４" is a number in Japan. Such texts are read
in the composed form (Unicode NFC) without characters of no width, and with ASCII for its twins of full width.
Findings are led back to the characters they came from.
"""

import re
import unicodedata
from collections.abc import Sequence

from reticent.core.corpus import Policy, Span

_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_WIDE = "\uff10-\uff19\uff20-\uff3a\uff41-\uff5a"  # digits, "@" and letters of full width
_HIDDEN = re.compile(f"[{_INVISIBLE}\u0300-\u036f{_WIDE}]")
_NARROWED = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_DROPPED = re.compile(f"[{_INVISIBLE}]")
_CLUSTER = re.compile(f"[{_INVISIBLE}]|.[\u0300-\u036f{_INVISIBLE}]*", re.DOTALL)


class Normalised:
    """What `policy` finds in the text as it looks."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.is_local = False  # what is composed depends on the characters beside it
        self.reads_context = bool(getattr(policy, "reads_context", False))

    def __repr__(self) -> str:
        return f"Normalised({self.name})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The policy's own."""
        return tuple(getattr(self._policy, "kinds", ()))

    @property
    def fingerprint(self) -> str:
        """That of the policy; empty, and so none, where it has none."""
        inner = str(getattr(self._policy, "fingerprint", ""))
        return f"normalised {inner}" if inner else ""

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        read = [
            (text, None) if text.isascii() or not _HIDDEN.search(text) else _as_it_looks(text) for text in texts
        ]
        found = self._policy.find([text for text, _ in read])
        return [
            spans if places is None else tuple(_led_back(span, places) for span in spans)
            for spans, (_, places) in zip(found, read, strict=True)
        ]


Places = list[tuple[int, int]]  # for each character that is read, where it starts and ends in the original


def _as_it_looks(text: str) -> tuple[str, Places]:
    pieces: list[str] = []
    places: Places = []
    if re.search(f"[{_WIDE}]", text):
        text = text.translate(_NARROWED)  # one character for another
    for match in _CLUSTER.finditer(text):
        composed = unicodedata.normalize("NFC", _DROPPED.sub("", match.group()))
        pieces.append(composed)
        places += [match.span()] * len(composed)
    return "".join(pieces), places


def _led_back(span: Span, places: Places) -> Span:
    return Span(places[span.start][0], places[span.end - 1][1], span.kind, span.identifier)
