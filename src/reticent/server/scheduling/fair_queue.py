"""Whose turn it is: keys in turn, within a key its jobs in turn, within a job its continuations in turn.

So a key that sends many requests, or a request that asks for many answers, does not make others wait longer than
for one place a round. While several keys wait, a round is short: `shared` texts, and of prompts that are to be read
`unread` tokens, since everybody waits until the longest is read. Not safe for threads: the scheduler holds its
lock.
"""

from collections import OrderedDict, deque

from reticent.server.scheduling.jobs import Continuation, Job

_Jobs = OrderedDict[Job, deque[Continuation]]


class FairQueue:
    """Continuations that wait for a token."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, _Jobs] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, continuation: Continuation) -> None:
        """To the end of its job's line; a job or key that had nothing waiting goes to the end of its own."""
        job = continuation.job
        self._keys.setdefault(job.key, OrderedDict()).setdefault(job, deque()).append(continuation)
        self._length += 1

    def take(self, count: int, *, shared: int | None = None, unread: int | None = None) -> list[Continuation]:
        """Up to `count` continuations, one a key and job in turn; fewer where several keys wait."""
        taken: list[Continuation] = []
        late: list[tuple[str, _Jobs]] = []
        is_shared = len(self._keys) > 1
        count = min(count, shared) if is_shared and shared is not None else count
        room = unread if is_shared and unread is not None else None
        while self._keys and len(taken) < count:
            key, jobs = next(iter(self._keys.items()))
            cost = next(iter(jobs.values()))[0].unread
            if taken and room is not None and cost > room:
                late.append((key, self._keys.pop(key)))  # first in the next round
                continue
            room = None if room is None else room - cost
            taken.append(self._next())
        for key, jobs in reversed(late):
            self._keys[key] = jobs
            self._keys.move_to_end(key, last=False)
        self._length -= len(taken)
        return taken

    def _next(self) -> Continuation:
        key, jobs = self._keys.popitem(last=False)
        job, line = jobs.popitem(last=False)
        continuation = line.popleft()
        if line:
            jobs[job] = line
        if jobs:
            self._keys[key] = jobs
        return continuation
