"""What the scheduler works on: a job is one request, a continuation one of the texts that it asks for.

Both belong to the scheduler once submitted, whose thread alone works on them. Two flags are set from
outside as well: `Job.is_cancelled`, and `Job.is_over` of a request that nobody waits for any more.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from reticent.core.ensemble import COLUMNS, COPIED
from reticent.prediction.mechanisms.mechanism import Mechanism
from reticent.server.refusal import Refusal
from reticent.server.scheduling.growing_text import GrowingText

READ_SHARED: Final = 16  # tokens of prompts that a turn reads while several keys ask
_SHORT: Final = 6  # texts of fewer than 2 ** _SHORT tokens are all short


@dataclass(frozen=True, slots=True)
class Piece:
    """What one charged token gave: its text, perhaps empty, and why the continuation ended, where it did."""

    index: int
    text: str = field(repr=False)
    finish: str | None = None


@dataclass(eq=False, slots=True, repr=False)
class Continuation:
    """One text in the course of being written."""

    job: "Job"
    index: int
    context: Sequence[int]
    growth: GrowingText
    handle: int | None = None
    is_read: bool = False  # whether its prompt is
    is_held: bool = False  # whether it counts as load
    drawn: int = 0

    @property
    def size(self) -> int:
        """The class of its length: texts of one class are looked up together."""
        return max(_SHORT, (len(self.context) + self.drawn).bit_length())

    @property
    def work(self) -> float:
        """What its next turn costs, in tokens: a piece of its prompt, a look-up, or both where the prompt is short.

        What another text of the job has read is copied.
        """
        looking = 1.0 + (len(self.context) + self.drawn) / COLUMNS
        if self.is_read:
            return looking
        is_first = not any(other.is_read for other in self.job.continuations)
        reading = len(self.context) / (1 if is_first else COPIED)
        return READ_SHARED if reading > READ_SHARED else reading + looking

    @property
    def length(self) -> int:
        """Tokens that it may have in all: start, prompt, answer."""
        return 1 + len(self.context) + self.job.max_tokens

    def accept(self, token: int, end_token: int | None) -> Piece:
        """The piece of a token that was charged and drawn. The end token is charged too and has no text."""
        self.drawn += 1
        if token == end_token:
            return Piece(self.index, self.growth.end(), "stop")
        text = self.growth.add(token)
        if self.growth.is_stopped:
            return Piece(self.index, text, "stop")
        if self.drawn >= self.job.max_tokens:
            text += self.growth.end()
            return Piece(self.index, text, "stop" if self.growth.is_stopped else "length")
        return Piece(self.index, text)


Item = Piece | Refusal


@dataclass(eq=False, slots=True, repr=False)
class Job:
    """One request: whose it is, how its tokens are drawn, until when, and where its pieces go."""

    key: str
    mechanism: Mechanism
    max_tokens: int
    deadline: float
    inbox: "asyncio.Queue[Item]"
    continuations: list[Continuation] = field(default_factory=list)
    is_cancelled: bool = False
    is_over: bool = False

    @property
    def drawn(self) -> int:
        """Tokens of all its texts."""
        return sum(continuation.drawn for continuation in self.continuations)

    @property
    def is_late(self) -> bool:
        """Whether the public time-out has passed."""
        return time.monotonic() > self.deadline
