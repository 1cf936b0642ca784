"""The local engine: processes of this machine, started fresh (never forked), each with one thread.

Every worker has a pipe of its own. A worker that dies closes its pipe, which ends no other; its piece goes to a new
worker. Workers stay for the next call, so that what they loaded is loaded once.
"""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any, Final

from reticent.engine.work import IDLE, Advanced, Began, EngineSettings, Event, Failed, Landed, Piece, Work
from reticent.engine.worker import Attempt, attempt, use_one_thread

_TICK: Final = 0.2  # seconds after which someone who wants to stop is heard
_PATIENCE: Final = 5.0  # seconds in which a worker that was told to end does so
_DIED: Final = "its worker died"
_HINT: Final = "a worker that dies has often run out of memory: try fewer --workers"


@dataclass(slots=True, eq=False)
class _Worker:
    process: BaseProcess
    pipe: "Connection[Any, Any]"
    piece: Piece | None = None


@dataclass(slots=True)
class _Queue:
    """Pieces to do: those that failed first, then new ones; tries by name."""

    fresh: Iterator[Piece]
    again: deque[Piece] = field(default_factory=deque)
    tries: dict[str, int] = field(default_factory=dict)

    def take(self) -> Piece | None:
        piece = self.again.popleft() if self.again else next(self.fresh, None)
        if piece is not None:
            self.tries[piece.name] = self.tries.get(piece.name, 0) + 1
        return piece


class LocalEngine:
    """Workers of this machine; a context manager that ends them."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._count = settings.workers or os.cpu_count() or 1
        self._workers: list[_Worker] = []

    def __repr__(self) -> str:
        return f"LocalEngine({self._count} workers)"

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self._workers)
        self._workers = []

    @property
    def workers(self) -> int:
        """Processes."""
        return self._count

    def run(self, pieces: Iterator[Piece], work: Work) -> Iterator[Event]:
        """Events of all pieces. Closed before its end, it ends the workers that are still busy."""
        queue = _Queue(pieces)
        try:
            while True:
                yield from self._hand_out(queue, work)
                busy = [worker for worker in self._workers if worker.piece is not None]
                if not busy:
                    return
                ready = set(wait([worker.pipe for worker in busy], timeout=_TICK))
                if not ready:
                    yield IDLE
                for worker in busy:
                    if worker.pipe in ready:
                        yield from self._hear(worker, queue)
        finally:
            self._end([worker for worker in self._workers if worker.piece is not None])
            self._workers = [worker for worker in self._workers if worker.piece is None]

    def _hand_out(self, queue: _Queue, work: Work) -> Iterator[Event]:
        """Give every idle worker a piece, starting workers as they are needed."""
        idle = [worker for worker in self._workers if worker.piece is None]
        given: list[tuple[_Worker, Piece]] = []
        for place in range(self._count - len(self._workers) + len(idle)):
            piece = queue.take()
            if piece is None:
                break
            worker = idle[place] if place < len(idle) else self._start()
            worker.piece = piece
            given.append((worker, piece))
        for worker, piece in given:  # all have been started by now: sending waits until a worker listens
            yield Began(piece.name)
            try:
                worker.pipe.send((work, piece.argument))
            except OSError:  # it died while it had nothing to do
                yield from self._lost(worker, queue)

    def _hear(self, worker: _Worker, queue: _Queue) -> Iterator[Event]:
        """One message of a worker: progress, or what became of its piece."""
        piece = worker.piece
        assert piece is not None
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            yield from self._lost(worker, queue)
            return
        if isinstance(message, int):
            yield Advanced(piece.name, message)
            return
        outcome: Attempt = message
        worker.piece = None
        if not outcome.reason:
            yield Landed(piece.name, outcome.result)
        elif outcome.is_final:
            yield Failed(piece.name, outcome.reason, outcome.hint)
        else:
            yield from self._again(piece, queue, reason=outcome.reason, hint=None)

    def _lost(self, worker: _Worker, queue: _Queue) -> Iterator[Event]:
        """A worker is gone: its piece is tried again."""
        piece = worker.piece
        assert piece is not None
        worker.piece = None
        self._workers.remove(worker)
        self._end([worker])
        yield from self._again(piece, queue, reason=_DIED, hint=_HINT)

    def _again(self, piece: Piece, queue: _Queue, *, reason: str, hint: str | None) -> Iterator[Event]:
        tries = queue.tries[piece.name]
        if tries < self._settings.tries:
            queue.again.append(piece)
        else:
            yield Failed(piece.name, f"{reason}, {tries} times" if tries > 1 else reason, hint)

    def _start(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _without_the_script():
            process.start()
        theirs.close()  # so that its death is the end of the pipe
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    @staticmethod
    def _end(workers: list[_Worker]) -> None:
        for worker in workers:
            worker.pipe.close()  # a worker that waits for work ends by itself
            if worker.piece is not None:
                worker.process.terminate()
        for worker in workers:
            worker.process.join(_PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


@contextmanager
def _without_the_script() -> Iterator[None]:
    """Processes that start meanwhile do not import the script that leads: one without a guard would run in each."""
    script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _serve(pipe: "Connection[Any, Any]") -> None:
    """In a worker: take pieces until the pipe is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that leads
    use_one_thread()  # before a piece loads anything
    while True:
        try:
            work, argument = pipe.recv()
            pipe.send(attempt(work, argument, pipe.send))
        except (EOFError, OSError):
            return
