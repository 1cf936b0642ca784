"""Processes that tests start, forked from a server that has imported what they need: each starts in milliseconds.

There is one such server for all tests of a process, so that its imports are listed here, once. It has no threads,
and nothing of the tests that ran before.
"""

import multiprocessing
import os
import resource
import selectors
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        *("tests.kept_imports", "pytest", "hypothesis", "psycopg", "tests.ledger.ledgers"),
        *("tests.training.killed_run", "tests.training.distributed.ranked_run", "tests.processes"),
        # imported when a run needs them, by every process anew: transformers, adapters and what trains with them
        *("reticent.runs.training.model", "reticent.runs.ensemble.run", "reticent.runs.ensemble.loading"),
        *("reticent.models.huggingface.loading", "transformers.models.gpt2.modeling_gpt2", "peft"),
        "tests.warm_policies",
    ]
)


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
