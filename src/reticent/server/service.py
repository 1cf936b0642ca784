"""Between the protocol and the scheduler: admit a request, follow its pieces, let go of it whatever happens.

A request is refused by what costs nothing, then by its key's quota, and only then read in tokens: in a thread of
its own, for each key one after the other and only so many waiting, so that long prompts of one key hold up nobody
else. A watch over all jobs tells clients that the ledger hangs or that their time is up, whatever the scheduler
does.

A job that ends in any way, answered, refused, timed out or left by its client, is cancelled in the scheduler and
gives back what its key had reserved and not drawn.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from starlette.requests import Request

from reticent.core.errors import UsageError
from reticent.server.access.keys import Key, KeyFile
from reticent.server.access.pacing import Pace
from reticent.server.access.quotas import Quotas
from reticent.server.backends.backend import Backend
from reticent.server.limits import Limits
from reticent.server.metrics import Metrics
from reticent.server.refusal import Refusal, overloaded, timed_out, unavailable
from reticent.server.requests.asking import Asked, tokens_asked
from reticent.server.requests.protocol import ChatRequest, CompletionRequest
from reticent.server.scheduling.growing_text import GrowingText
from reticent.server.scheduling.jobs import Continuation, Job, Piece
from reticent.server.scheduling.scheduler import Delivery, Scheduler

Result = TypeVar("Result")
Body = TypeVar("Body", CompletionRequest, ChatRequest)
ANYBODY: Final = Key("anybody", "")
_WATCH: Final = 0.25  # seconds between two looks of the watch
_GRACE: Final = 1.0  # seconds that the scheduler has to say itself that an answer is late
_READING: Final = 8  # requests of one key that wait to be read in tokens


class Left(Exception):
    """The client went away before its answer was complete."""


@dataclass(slots=True)
class _Reading:
    """Requests of one key that are being read in tokens, one at a time."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0


class Service:
    """One process's share of a server. `start` within the event loop that answers."""

    def __init__(self, backend: Backend, limits: Limits, *, keys: KeyFile | None, quotas: Quotas) -> None:
        self.backend = backend
        self.limits = limits
        self.keys = keys
        self.quotas = quotas
        self.metrics = Metrics()
        self.started = int(time.time())
        self._scheduler: Scheduler | None = None
        self._jobs: set[Job] = set()
        self._readings: dict[str, _Reading] = {}
        self._pace = Pace()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reticent-read")
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer, in the running event loop."""
        loop = asyncio.get_running_loop()

        def deliver(pieces: Sequence[Delivery]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(_hand_over, pieces)

        self._scheduler = Scheduler(
            self.backend.predictor,
            deliver,
            limits=self.limits,
            metrics=self.metrics,
            is_shared=self.keys is not None,
        )
        self._scheduler.start()
        self._watch = asyncio.create_task(self._watch_jobs())

    async def stop(self) -> None:
        """Refuse what waits and end the ensemble's thread."""
        if self._watch is not None:
            self._watch.cancel()
        self._reader.shutdown(wait=False, cancel_futures=True)
        self.backend.chat.close()
        if self._scheduler is not None:
            await asyncio.to_thread(self._scheduler.stop)

    @property
    def is_ready(self) -> bool:
        """Whether answers can be given now."""
        return self._scheduler is not None and self._scheduler.is_ready

    def admit(self, bearer: str | None) -> Key:
        """Whose request it is; Refusal where the key is not known."""
        if self.keys is None:
            return ANYBODY
        try:
            found = None if bearer is None else self.keys.find(bearer)
        except UsageError:  # the key file became unreadable: nobody is admitted
            raise unavailable() from None
        if found is None:
            raise Refusal(401, "a valid API key is needed", code="invalid_api_key")
        return found

    def refusal_delay(self, key: Key) -> float:
        """Seconds that a key waits to hear that it asks for too much; nothing where all clients are one."""
        return 0.0 if self.keys is None else self._pace.delay(key.digest)

    def reserve(self, body: CompletionRequest | ChatRequest, key: Key) -> int:
        """Count the tokens that a request may draw for its key; Refusal by size or quota, before any work."""
        if not self.is_ready:
            raise unavailable()
        tokens = tokens_asked(body, self.limits)
        self.quotas.reserve(key, tokens)
        return tokens

    async def read(
        self, body: Body, key: Key, *, by: Callable[[Body, Backend, Limits], Asked], reserved: int
    ) -> Asked:
        """What a request asks for, in tokens; gives the reservation back where it is refused."""
        reading = self._readings.setdefault(key.digest, _Reading())
        reading.count += 1
        try:
            if reading.count > _READING:
                self.metrics.overloads.inc()
                raise overloaded()
            async with reading.turn:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._reader, by, body, self.backend, self.limits)
        except BaseException:
            self.quotas.give_back(key, reserved)
            raise
        finally:
            reading.count -= 1
            if not reading.count:
                self._readings.pop(key.digest, None)

    async def _watch_jobs(self) -> None:
        """Tell clients that wait for a ledger that hangs, or beyond their time, though the scheduler cannot."""
        while True:
            await asyncio.sleep(_WATCH)
            is_stalled = self._scheduler is not None and self._scheduler.is_stalled
            for job in self._jobs:
                if not job.is_over and (is_stalled or time.monotonic() > job.deadline + _GRACE):
                    job.is_over = job.is_cancelled = True
                    job.inbox.put_nowait(unavailable() if is_stalled else timed_out())

    async def pieces(self, asked: Asked, key: Key, *, reserved: int) -> AsyncGenerator[Piece]:
        """The pieces of an answer as they are released. Closing the iterator lets go of the job."""
        if self._scheduler is None:
            raise unavailable()
        job = self._job(asked, key)
        unfinished = len(job.continuations)
        self._jobs.add(job)
        try:
            self._scheduler.submit(job)
            self.metrics.prompt_tokens.inc(asked.prompt_tokens)
            while unfinished:
                item = await job.inbox.get()
                if isinstance(item, Refusal):
                    raise item
                unfinished -= item.finish is not None
                yield item
        finally:
            self._scheduler.cancel(job)
            self._jobs.discard(job)
            # A turn may be running: each text that was let go of may still be charged one token.
            self.quotas.give_back(key, max(0, reserved - job.drawn - unfinished))

    def _job(self, asked: Asked, key: Key) -> Job:
        mechanism = self.backend.mechanism(asked.shaping)
        job = Job(
            key=key.digest,
            mechanism=mechanism,
            max_tokens=asked.max_tokens,
            deadline=time.monotonic() + self.limits.timeout,
            inbox=asyncio.Queue(),
        )
        for index, context in enumerate(asked.contexts):
            growth = GrowingText(self.backend.decode, context, asked.stops)
            job.continuations.append(Continuation(job, index, context, growth))
        return job


def _hand_over(pieces: Sequence[Delivery]) -> None:
    for job, item in pieces:
        job.inbox.put_nowait(item)


async def unless_left(work: Awaitable[Result], request: Request) -> Result:
    """The result of `work`; `Left`, with the work cancelled, as soon as the client goes away."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Left
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def gathered(pieces: AsyncGenerator[Piece]) -> list[Piece]:
    """All pieces of an answer."""
    async with aclosing(pieces):
        return [piece async for piece in pieces]


async def preceded(first: Piece, rest: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    """A piece that was waited for, and those after it."""
    yield first
    async for piece in rest:
        yield piece


def by_continuation(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces sorted by the continuation they belong to."""
    sorted_out: dict[int, list[Piece]] = {}
    for piece in pieces:
        sorted_out.setdefault(piece.index, []).append(piece)
    return [sorted_out[index] for index in sorted(sorted_out)]
