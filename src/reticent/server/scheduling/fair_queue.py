"""Whose turn it is: keys by the time that they have had, within a key its jobs in turn.

A key that had less of the model's time comes first (start-time fair queueing, Goyal, Vin and Cheng 1996): seconds
of turns are counted by key. A key that asked for nothing while others were served goes before them until it has
had as much, `CREDIT` seconds at most (borrowed virtual time, Duda and Cheriton 1999): however long it was away, the
others wait no longer than that. So a key that sends many requests, each for many answers after a long prompt, takes
no more time than any other key, and one that asks for little now and then hardly waits for it.

While several keys ask, a turn is one key's: texts of about the same length, since beside a long text a short one
costs as much as the long one, and `work` tokens at most. Other keys whose next texts have that length join it with
few tokens each: many keys that ask for little are answered together, and a key that asks for much has turns of its
own.

Within a key prompts are read first, one after the other, and a text then waits behind those that were read before.
Once its turn has come it keeps its place for `STAY` tokens, since to change the texts of a turn means to move what
was read of them. Not safe for threads: the scheduler holds its lock.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from reticent.server.scheduling.jobs import Continuation

STAY: Final = 32  # tokens
CREDIT: Final = 0.25  # seconds
_JOINING: Final = 4.0  # tokens of work that each other key adds to a turn, where it has more than one text


class FairQueue:
    """Continuations that wait for a token."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Continuation]] = {}  # by key, the next one first
        self._had: dict[str, float] = {}  # seconds by key
        self._now = 0.0  # what the key that came first had at its turn: a newcomer begins `CREDIT` before that

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def put(self, continuation: Continuation) -> None:
        """A new text, behind those of its key that come as early in their own jobs."""
        key = continuation.job.key
        line = self._lines.setdefault(key, [])
        place = next((at for at, other in enumerate(line) if _is_later(other, continuation)), len(line))
        line.insert(place, continuation)
        self._had[key] = max(self._had.get(key, 0.0), self._now - CREDIT)

    def put_back(self, continuations: Sequence[Continuation]) -> None:
        """Texts of a turn that go on: behind those of other lengths, before those of theirs, prompts first."""
        for key in {each.job.key: None for each in continuations}:
            own = [each for each in continuations if each.job.key == key]
            sizes = {each.size for each in own}
            waiting = self._lines.get(key, [])
            self._lines[key] = [
                *(each for each in waiting if each.size not in sizes),
                *(each for each in own if not each.is_read),
                *(each for each in waiting if each.size in sizes and not each.is_read),
                *(each for each in own if each.is_read and not _is_to_move(each)),
                *(each for each in waiting if each.size in sizes and each.is_read),
                *(each for each in own if each.is_read and _is_to_move(each)),
            ]

    def take(self, count: int, *, work: float | None = None) -> list[Continuation]:
        """Up to `count` texts, one a key in turn; where `work` is given, of one size and with little more work."""
        if not self._lines:
            return []
        keys = sorted(self._lines, key=lambda key: self._had[key])
        self._now = max(self._now, self._had[keys[0]])
        shares = [self._lines[key] for key in keys]
        if work is not None:
            size = shares[0][0].size
            first, *others = (
                [each for each in line if each.size == size] for line in shares if line[0].size == size
            )
            own = _within(first, work)
            shares = [own, *(_within(line, _JOINING) for line in others)]
        taken = [each for turn in zip_longest(*shares) for each in turn if each is not None][:count]
        gone = set(taken)
        for key in keys:
            self._lines[key] = [each for each in self._lines[key] if each not in gone]
            if not self._lines[key]:
                del self._lines[key]
        return taken

    def take_all(self) -> list[Continuation]:
        """Everything that waits."""
        taken = [each for line in self._lines.values() for each in line]
        self._lines.clear()
        return taken

    def count(self, work: Sequence[tuple[str, float]], seconds: float) -> None:
        """The time of a turn, divided among the keys of its texts by their work."""
        total = sum(each for _, each in work)
        for key, each in work:
            self._had[key] = self._had.get(key, self._now) + seconds * each / total

    def forget(self, key: str) -> None:
        """A key that holds nothing more; what it had is kept while that matters should the key come back."""
        self._had = {each: had for each, had in self._had.items() if each != key or had > self._now - CREDIT}


def _within(line: Sequence[Continuation], work: float) -> list[Continuation]:
    """The first texts of a line that have no more work together, or the first one alone."""
    taken: list[Continuation] = []
    for each in line:
        if taken and each.work > work:
            break
        taken.append(each)
        work -= each.work
    return taken


def _is_later(other: Continuation, new: Continuation) -> bool:
    """Whether a new text comes before another one of its key: that one has had nothing and is later in its job."""
    return not other.drawn and other.handle is None and other.index > new.index


def _is_to_move(continuation: Continuation) -> bool:
    """Whether a text goes behind all that wait: after its first token, and each time that it kept its place."""
    return continuation.drawn % STAY == 1
