"""Continuous batching: a token a turn for many texts, in one look-up and with one durable charge.

    take up to `batch` texts, fairly → drop the cancelled and the late → read a piece of their prompts → for those
    that are read one look-up, one durable charge, one draw each (`TokenPredictor.step`) → hand the pieces out → put
    back what goes on

One thread takes the turns. Two of them, one looking up while the other mixes, were measured and dropped: on a small
model they spend more on handing the interpreter to each other than they save, on a larger one they halve the batch
and compete for the memory.

A text joins at the next turn and leaves when it is done; nobody waits for a whole batch to finish. A continuation
that was cancelled before its turn is not looked up, so it costs nothing. A piece is handed out only after `step`
returned, that is after its charge is on disk. When a charge cannot be made, everything of that turn is refused and
nothing was drawn.

A turn ends on a grid of 2 ms from its beginning: writing down a charge of zero is some microseconds shorter than
one of many digits, which many tokens would show to whoever times them.

**Shares.** While several keys ask, or did a moment ago, turns are short and go to the key that has had the least of
their time (`fair_queue`), and prompts are read in small pieces. So a key that asks for little waits about twice as
long as alone, whatever another one asks for. Time is that of turns, which private rows do not change.

A text is admitted only where its keys and values fit the memory that was set aside, by the longest text
there was, and where its key then holds no more than is left free (dynamic thresholds, Choudhury and Hahne 1998):
one key that floods gets half, two get a third each, and a newcomer always finds room.

The ledger is looked at twice a second while nobody asks, and while charges fail requests are refused (503), so that
the server says by itself when it cannot answer and when it can again. A charge that waits for longer than `STALL`
makes the server unready although its thread hangs (`is_ready`). No log line holds a text, a token or a cost; of an
unexpected error it is type and place.
"""

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from reticent.core.errors import BudgetExhausted, InternalError, LedgerError
from reticent.core.printing.safe_text import on_one_line
from reticent.prediction.predictor import TokenPredictor
from reticent.server.limits import Limits
from reticent.server.metrics import Metrics
from reticent.server.refusal import Refusal, broken, overloaded, timed_out, unavailable
from reticent.server.scheduling.fair_queue import FairQueue
from reticent.server.scheduling.jobs import READ_SHARED, Continuation, Item, Job

LOG: Final = logging.getLogger("reticent.serve")

GRAIN: Final = 0.002  # seconds
_LOOK: Final = 0.5  # seconds between two looks at the ledger while nobody asks
STALL: Final = 2.0  # seconds that a charge may wait for the ledger before clients are told
_READ: Final = 1024  # tokens of prompts that a turn reads
_WORK_SHARED: Final = 20.0  # tokens of work that a turn has while several keys ask (`Continuation.work`)
_RECENT: Final = 5.0  # seconds after which a key that asks for nothing is no longer waited for
_LONGEST_TURN: Final = 0.25  # seconds that a turn counts at most: a key has not had the time of a disk that hung
_ROOM: Final = 1.25  # buffers of the cache over what texts need (`models.ensemble.key_value_cache`)

Delivery = tuple[Job, Item]
Deliver = Callable[[Sequence[Delivery]], None]


class Scheduler:
    """The thread that draws tokens. `deliver` is called in it, with the pieces of a turn."""

    def __init__(
        self,
        predictor: TokenPredictor,
        deliver: Deliver,
        *,
        limits: Limits,
        metrics: Metrics,
        is_shared: bool = False,
    ) -> None:
        """`is_shared`: keys are those of different clients, so that none of them may take all."""
        self._predictor = predictor
        self._deliver = deliver
        self._limits = limits
        self._is_shared = is_shared
        self._metrics = metrics
        self._held: Counter[str] = Counter()  # by key
        self._longest = 1  # tokens that the cache has columns for
        self._shared_until = 0.0  # by the clock
        self._queue = FairQueue()
        self._load = 0  # continuations that are held, waiting or in the turn
        self._wake = threading.Condition()
        self._is_stopping = False
        self._can_charge = True
        self._thread = threading.Thread(target=self._run, name="reticent-ensemble", daemon=True)

    @property
    def load(self) -> int:
        """Continuations that are held: public."""
        return self._load

    @property
    def is_ready(self) -> bool:
        """Whether answers can be given: the thread lives and the last charge reached the disk."""
        return self._thread.is_alive() and self._can_charge and not self._is_stopping and not self.is_stalled

    @property
    def is_stalled(self) -> bool:
        """Whether a charge has waited for so long that the ledger must be taken for hung."""
        return self._predictor.waited > STALL

    def start(self) -> None:
        """Begin to take turns."""
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> None:
        """Refuse what waits, finish the turn and end the thread."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def submit(self, job: Job) -> None:
        """Take a job in, all of its continuations or none: 429 by load alone."""
        with self._wake:
            if self._is_stopping or not self._can_charge or self.is_stalled:
                raise unavailable()
            self._require_room(job)
            self._load += len(job.continuations)
            self._held[job.key] += len(job.continuations)
            for continuation in job.continuations:
                continuation.is_held = True
                self._queue.put(continuation)
            self._metrics.load.set(self._load)
            self._wake.notify()

    def _require_room(self, job: Job) -> None:
        """Refuse a job that would pass the capacity, the memory, or its key's share of either."""
        count = len(job.continuations)
        longest = max(self._longest, *(1 << (each.length - 1).bit_length() for each in job.continuations))
        each = _ROOM * longest * self._predictor.token_bytes
        most = (
            self._limits.capacity if not each else min(self._limits.capacity, int(self._limits.memory_bytes / each))
        )
        free = most - self._load - count
        if free < 0 or (self._is_shared and self._held[job.key] + count > max(1, free + count)):
            self._metrics.overloads.inc()
            raise overloaded()
        self._longest = longest

    def cancel(self, job: Job) -> None:
        """The client left: from the next turn on nothing is looked up or charged for it."""
        job.is_cancelled = True

    def _run(self) -> None:
        while True:
            chosen = self._chosen()
            if self._is_stopping:
                with self._wake:  # what came between the choice and the stop waits as well
                    chosen += self._queue.take_all()
                self._refuse(chosen, unavailable())
                return
            if chosen:
                self._turn_or_refuse(chosen)
            else:
                self._look_again()

    def _chosen(self) -> list[Continuation]:
        """The texts of the next turn; none where it is time to look at the ledger again."""
        with self._wake:
            while not len(self._queue) and not self._is_stopping:
                if not self._wake.wait(_LOOK):
                    return []
            if self._is_stopping:
                return self._queue.take_all()
            if self._is_shared and len(self._held) > 1:
                self._shared_until = time.monotonic() + _RECENT
            return self._queue.take(self._limits.batch, work=_WORK_SHARED if self._has_company else None)

    @property
    def _has_company(self) -> bool:
        """Whether several keys ask, or did a moment ago."""
        return time.monotonic() < self._shared_until

    def _look_again(self) -> None:
        """Whether the ledger can be used, though nobody asks for anything."""
        try:
            self._predictor.check(by_writing=not self._can_charge)  # a full disk can still be read
        except Exception as error:  # the thread goes on
            if self._can_charge:
                why = str(error) if isinstance(error, LedgerError) else place_of(error)
                LOG.error("the ledger cannot be used, requests are refused: %s", on_one_line(why))
            self._can_charge = False
            return
        if not self._can_charge:
            LOG.warning("the ledger can be used again")
        self._can_charge = True

    def _turn_or_refuse(self, chosen: Sequence[Continuation]) -> None:
        """A turn. Whatever is wrong with it, its texts are refused and the thread goes on."""
        try:
            self._turn(chosen)
        except Exception as error:
            LOG.error("a turn broke off: %s", place_of(error))
            with suppress(Exception):  # the same fault again, as likely as not
                self._refuse(chosen, broken())

    def _turn(self, chosen: Sequence[Continuation]) -> None:
        """One token for each whose prompt is read, or a refusal."""
        begun = time.perf_counter()
        live = self._opened(self._still_wanted(chosen))
        work = [(each.job.key, each.work) for each in live]
        ready: list[Continuation] = []
        try:
            ready = self._read_ahead(live)
            tokens = self._predictor.step([_handle(each) for each in ready])
        except (LedgerError, BudgetExhausted) as error:
            self._can_charge = False
            why = str(error) if isinstance(error, LedgerError) else type(error).__name__
            LOG.error("a charge was refused, nothing was released: %s", on_one_line(why))
            self._refuse(live, unavailable())
            return
        except Exception as error:
            LOG.error("a turn failed, nothing was released: %s", place_of(error))
            self._refuse(live, broken())
            return
        if ready:
            _wait_for_grid(begun)
            self._can_charge = True
            self._metrics.observe_turn(len(ready), time.perf_counter() - begun)
        with self._wake:
            self._queue.count(work, min(_LONGEST_TURN, time.perf_counter() - begun))
            self._queue.put_back([each for each in live if not each.is_read])
        self._hand_out(ready, tokens)

    def _read_ahead(self, live: Sequence[Continuation]) -> list[Continuation]:
        """Those whose prompts are read, after a piece of the others'."""
        unread = [each for each in live if not each.is_read]
        if unread:
            most = READ_SHARED if self._has_company else _READ
            are_read = self._predictor.read_ahead([_handle(each) for each in unread], most=most)
            for each, is_read in zip(unread, are_read, strict=True):
                each.is_read = is_read
        return [each for each in live if each.is_read]

    def _hand_out(self, live: Sequence[Continuation], tokens: Sequence[int]) -> None:
        """Pieces to their jobs; what is not finished waits for its next turn."""
        end = self._predictor.ensemble.public.end_token
        pieces: list[Delivery] = []
        going_on, finished = [], []
        for continuation, token in zip(live, tokens, strict=True):
            try:
                piece = continuation.accept(token, end)
            except Exception as error:  # a text that cannot be decoded must not end the thread
                LOG.error("a token could not be read: %s", place_of(error))
                self._refuse([continuation], broken())
                continue
            pieces.append((continuation.job, piece))
            if piece.finish is None:
                going_on.append(continuation)
            else:
                finished.append(continuation)
        with self._wake:
            self._queue.put_back(going_on)
        self._uncount(finished)
        if pieces:
            self._deliver(pieces)
        self._close(finished)

    def _still_wanted(self, chosen: Sequence[Continuation]) -> list[Continuation]:
        """Without the cancelled, which cost nothing from now on, and the late, which are told so."""
        wanted = []
        for continuation in chosen:
            if continuation.job.is_cancelled:
                self._uncount([continuation])
                self._close([continuation])
            elif continuation.job.is_late:
                self._refuse([continuation], timed_out())
            else:
                wanted.append(continuation)
        return wanted

    def _opened(self, wanted: Sequence[Continuation]) -> list[Continuation]:
        """Those that have a handle; one that the ensemble does not take is refused by itself."""
        opened = []
        for continuation in wanted:
            try:
                if continuation.handle is None:
                    continuation.handle = self._predictor.open(
                        continuation.context, mechanism=continuation.job.mechanism
                    )
            except Exception as error:
                LOG.error("a text could not be opened: %s", place_of(error))
                self._refuse([continuation], broken())
                continue
            opened.append(continuation)
        return opened

    def _refuse(self, continuations: Sequence[Continuation], refusal: Refusal) -> None:
        """Tell each job once; its other continuations leave at their next turn."""
        told: list[Delivery] = []
        for continuation in continuations:
            if not continuation.job.is_over:
                continuation.job.is_over = continuation.job.is_cancelled = True
                told.append((continuation.job, refusal))
        self._uncount(continuations)
        if told:
            self._deliver(told)
        self._close(continuations)

    def _uncount(self, continuations: Sequence[Continuation]) -> None:
        """These texts are no longer held; one that is not already counts no more."""
        with self._wake:
            for continuation in continuations:
                if not continuation.is_held:
                    continue
                continuation.is_held = False
                self._load -= 1
                key = continuation.job.key
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
                    self._queue.forget(key)
            self._metrics.load.set(self._load)

    def _close(self, continuations: Sequence[Continuation]) -> None:
        """Free what the ensemble holds of texts that have ended."""
        for continuation in continuations:
            if continuation.handle is not None:
                self._predictor.close(continuation.handle)
                continuation.handle = None


def _handle(continuation: Continuation) -> int:
    if continuation.handle is None:
        raise InternalError("a text takes part in a turn before it is open")
    return continuation.handle


def _wait_for_grid(begun: float) -> None:
    """Sleep until the next whole number of grains since `begun`."""
    time.sleep(-(time.perf_counter() - begun) % GRAIN)


def place_of(error: BaseException) -> str:
    """Type and place of an error, for a log: its message may quote a text."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return type(error).__name__ + where
