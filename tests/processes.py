"""Processes that tests start, forked from a server that has imported what they need: each starts in milliseconds.

There is one such server for all tests of a process. It is a fork of that process itself, taken when all tests were
collected and none had run: what they import is there already, and nothing of what they do. It has no threads. When
the first process is asked for, it imports the rest, which is listed here.
"""

import atexit
import faulthandler
import itertools
import logging
import multiprocessing
import os
import resource
import select
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

PROCESSES = multiprocessing.get_context("forkserver")
PRELOADED = [
    *("tests.kept_imports", "pytest", "hypothesis", "psycopg", "tests.ledger.ledgers"),
    *("tests.training.killed_run", "tests.training.distributed.ranked_run", "tests.processes"),
    # imported when a run needs them, by every process anew: transformers, adapters and what trains with them
    *("reticent.runs.training.model", "reticent.runs.ensemble.run", "reticent.runs.ensemble.loading"),
    *("reticent.models.huggingface.loading", "transformers.models.gpt2.modeling_gpt2", "peft"),
    "tests.warm_policies",
]


def fork_server() -> None:
    """Fork the server of `PROCESSES` off this process, as it is now."""
    resource_tracker.ensure_running()
    with mock.patch.object(util, "spawnv_passfds", _fork):
        forkserver.ensure_running()


def _fork(_path: object, _arguments: object, places: Sequence[int]) -> int:
    """In the place of multiprocessing's start of an interpreter: its number, as that gives it."""
    child = os.fork()
    if child == 0:
        try:
            _serve(*places)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def _serve(listener: int, alive: int) -> None:
    """What a fresh interpreter would do, less what this one has of its parent: open files, streams, handlers."""
    _close_all_but(0, 1, 2, listener, alive)
    _open_streams()
    faulthandler.disable()
    atexit._clear()
    logging.getLogger().handlers.clear()
    forkserver._forkserver._lock = threading.Lock()  # which the parent holds
    sys.stdin = open(0, encoding="utf8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf8", closefd=False)  # noqa: SIM115
    ready, _, _ = select.select([listener, alive], [], [])
    if listener in ready:
        forkserver.main(listener, alive, PRELOADED)


def _close_all_but(*kept: int) -> None:
    """Not multiprocessing's own function of this sort: that asks for [0, 0) to be closed, which closes every file
    where Python was built with `close_range`."""
    for before, after in itertools.pairwise(sorted({-1, *kept, util.MAXFD})):  # type: ignore[attr-defined]
        if before + 1 < after:
            os.closerange(before + 1, after)


def _open_streams() -> None:
    """Whoever starts the tests may have closed them, standard input above all."""
    for place in (0, 1, 2):
        try:
            os.fstat(place)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != place:
                os.dup2(nothing, place)
                os.close(nothing)


class Command:
    """`reticent ARGUMENTS` in a process of its own; `limit` is the most bytes that a file may hold there."""

    def __init__(self, *arguments: object, limit: int | None = None) -> None:
        self._out, out = PROCESSES.Pipe(duplex=False)
        self._error, error = PROCESSES.Pipe(duplex=False)
        words = [str(argument) for argument in arguments]
        surroundings = dict(os.environ) | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        self._process = PROCESSES.Process(target=_run, args=(words, out, error, limit, surroundings, Path.cwd()))
        self._process.start()
        out.close()
        error.close()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.kill(self._process.pid, number)

    def end(self, *, seconds: float) -> subprocess.CompletedProcess[str]:
        """Wait for its end; what it wrote since it began, and its exit code."""
        written = {self._out.fileno(): b"", self._error.fileno(): b""}
        with selectors.DefaultSelector() as selector:
            for place in written:
                selector.register(place, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(seconds)
                assert ready, "the process neither spoke nor ended"
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    written[key.fd] += piece
                    if not piece:
                        selector.unregister(key.fd)
        self._process.join(seconds)
        out, error = (text.decode("utf8") for text in written.values())
        return subprocess.CompletedProcess([], self._process.exitcode, out, error)


def _run(
    words: list[str],
    out: Connection,
    error: Connection,
    limit: int | None,
    surroundings: dict[str, str],
    folder: Path,
) -> None:
    from reticent.cli.main import main

    os.environ.update(surroundings)
    os.chdir(folder)
    for pipe, place in ((out, 1), (error, 2)):
        os.dup2(pipe.fileno(), place)
        pipe.close()
    sys.stdout = open(1, "w", encoding="utf8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf8", closefd=False)  # noqa: SIM115
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    main(words)
