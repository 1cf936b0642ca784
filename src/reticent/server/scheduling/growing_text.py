"""The text of a continuation as its tokens come: what may go out now, and whether a stop string ended it.

A token need not be a whole character, nor is the text of two tokens always the sum of their texts. So each piece is
what decoding with the new token adds to decoding without it, from the last place where a piece ended; a piece that
ends inside a character waits. Text that may be the beginning of a stop string waits as well.
"""

from collections.abc import Callable, Sequence

from reticent.core.model import Tokens

Decode = Callable[[Tokens], str]

_TAIL = 4  # tokens of the prompt that the first piece is decoded after
_PATIENCE = 8  # tokens that an unfinished character may take: UTF-8 has at most four bytes
_UNFINISHED = "\ufffd"


class GrowingText:
    """Feed tokens with `add`; `end` gives what was held back."""

    def __init__(self, decode: Decode, context: Tokens, stops: Sequence[str]) -> None:
        self._decode = decode
        self._tokens = list(context[-_TAIL:])
        self._from = 0
        self._shown = len(self._tokens)
        self._stops = tuple(stops)
        self._held = ""
        self.is_stopped = False

    def add(self, token: int) -> str:
        """The text that may go out with this token; a stop string and what follows it never do."""
        self._tokens.append(token)
        return self._release(self._decoded(is_end=False))

    def end(self) -> str:
        """What was held back, where no stop string came."""
        rest = self._release(self._decoded(is_end=True))
        held, self._held = self._held, ""
        return rest if self.is_stopped else rest + held

    def _decoded(self, *, is_end: bool) -> str:
        before = self._decode(self._tokens[self._from : self._shown])
        now = self._decode(self._tokens[self._from :])
        waiting = len(self._tokens) - self._shown
        if now.endswith(_UNFINISHED) and waiting < _PATIENCE and not is_end:
            return ""
        self._from, self._shown = self._shown, len(self._tokens)
        return now[len(before) :]

    def _release(self, piece: str) -> str:
        """The piece up to a stop string, or up to where one may begin."""
        if self.is_stopped:
            return ""
        text = self._held + piece
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if places:
            self.is_stopped = True
            self._held = ""
            return text[: min(places)]
        kept = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`, shorter than it."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
