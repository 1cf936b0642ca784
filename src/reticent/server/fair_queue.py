"""Whose turn it is: keys in turn, within a key its jobs in turn, within a job its continuations in turn.

So a key that sends many requests, or a request that asks for many answers, does not make others wait longer than
for one place a round. Not safe for threads: the scheduler holds its lock.
"""

from collections import OrderedDict, deque

from reticent.server.jobs import Continuation, Job

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

    def take(self, count: int) -> list[Continuation]:
        """Up to `count` continuations, one a key and job in turn."""
        taken: list[Continuation] = []
        while self._keys and len(taken) < count:
            taken.append(self._next())
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
