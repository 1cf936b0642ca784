"""The Ray engine: pieces as tasks of a cluster that is there already, or of one started for this run.

Every machine of the cluster has this version of reticent, and models that are named by a path stand at that path on
each of them; texts travel with the pieces. Nothing is written on the workers' machines but temporary files: results
come back through Ray's object store, and the process that leads writes them.

Ray itself runs a task again whose worker or machine died; a task that raised is given out again here. Progress goes
through an actor on the leading machine, so it is lost with no other. Ray reports no usage, and has no dashboard.
"""

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

from reticent.core.errors import ConfigError
from reticent.core.extras import optional_imports
from reticent.engine.work import AHEAD, Advanced, Began, EngineSettings, Event, Failed, Landed, Piece, Work
from reticent.engine.worker import Attempt, attempt

_TICK: Final = 0.2  # seconds between two looks at the progress
_DIED: Final = "its worker or the worker's machine died"


class RayEngine:
    """A cluster, joined when it is first used; a context manager that leaves it."""

    def __init__(self, settings: EngineSettings) -> None:
        with optional_imports("--engine ray"):
            import ray
        self._ray: Any = ray
        self._settings = settings
        self._is_ours = False

    def __repr__(self) -> str:
        return f"RayEngine({self._settings.address or 'started for this run'})"

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            self._ray.shutdown()
            self._is_ours = False

    @property
    def workers(self) -> int:
        """Processors of the cluster, or fewer where so many were asked for."""
        self._join()
        there = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return min(there, self._settings.workers or there)

    def run(self, pieces: Iterator[Piece], work: Work) -> Iterator[Event]:
        """Events of all pieces. Closed before its end, it cancels what is still running."""
        self._join()
        return self._events(pieces, work)

    def _events(self, pieces: Iterator[Piece], work: Work) -> Iterator[Event]:
        ray = self._ray
        tally = self._tally()
        task = ray.remote(_task).options(num_cpus=1, max_retries=self._settings.tries - 1)
        running: dict[Any, Piece] = {}
        tries: dict[str, int] = {}
        seen: dict[str, tuple[int, int]] = {}
        again: list[Piece] = []
        room = self.workers if self._settings.workers else self.workers + AHEAD
        try:
            while True:
                while len(running) < room and (piece := again.pop() if again else next(pieces, None)) is not None:
                    tries[piece.name] = tries.get(piece.name, 0) + 1
                    yield Began(piece.name)
                    running[task.remote(work, piece.argument, piece.name, tally)] = piece
                if not running:
                    return
                done, _ = ray.wait(list(running), num_returns=1, timeout=_TICK)
                yield from _progress(ray.get(tally.read.remote()), seen)
                for reference in done:
                    piece = running.pop(reference)
                    outcome = self._outcome(reference)
                    if not outcome.reason:
                        # The counter may lag behind; what the piece told in all came with its result.
                        yield Advanced(piece.name, outcome.told - seen.get(piece.name, (0, 0))[1])
                        yield Landed(piece.name, outcome.result)
                    elif outcome.is_final or tries[piece.name] >= self._settings.tries:
                        yield Failed(piece.name, outcome.reason, outcome.hint)
                    else:
                        again.append(piece)
        finally:
            for reference in running:
                ray.cancel(reference, force=True)
            ray.kill(tally)

    def _outcome(self, reference: Any) -> Attempt:
        try:
            outcome: Attempt = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            # Ray has tried again as often as it may: the machine, not the piece, is at fault.
            return Attempt(reason=f"{_DIED} ({type(error).__name__})", is_final=True)
        return outcome

    def _tally(self) -> Any:
        """The counter of progress, on the machine that leads."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        return self._ray.remote(_Tally).options(num_cpus=0, scheduling_strategy=here).remote()

    def _join(self) -> None:
        """Join the cluster at the address, or start one here; a process that has joined one already stays there."""
        if self._ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        if self._settings.address is None:
            options |= {"num_cpus": self._settings.workers, "include_dashboard": False, "address": "local"}
        else:
            options |= {"address": self._settings.address}
        try:
            self._ray.init(**options)
        except (ConnectionError, OSError, RuntimeError, ValueError, TimeoutError) as error:
            raise ConfigError(
                "cannot join the Ray cluster",
                found=type(error).__name__,
                expected=f"a cluster at {self._settings.address or 'this machine'}",
                hint="start one with: ray start --head; then --ray-address host:6379",
            ) from None
        self._is_ours = True


class _Tally:
    """How far each piece is, and in which try."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, int]] = {}

    def begin(self, name: str) -> None:
        tries, _ = self._told.get(name, (0, 0))
        self._told[name] = (tries + 1, 0)

    def add(self, name: str, amount: int) -> None:
        tries, told = self._told.get(name, (1, 0))
        self._told[name] = (tries, told + amount)

    def read(self) -> dict[str, tuple[int, int]]:
        return dict(self._told)


def _progress(now: dict[str, tuple[int, int]], seen: dict[str, tuple[int, int]]) -> Iterator[Event]:
    """What is new since the last look; a first event in any case, so that time passes."""
    yield Advanced("", 0)
    for name, (tries, told) in now.items():
        before = seen.get(name, (tries, 0))
        if tries != before[0]:
            yield Began(name)
            before = (tries, 0)
        if told != before[1]:
            yield Advanced(name, told - before[1])
        seen[name] = (tries, told)


def _task(work: Work, argument: Any, name: str, tally: Any) -> Attempt:
    """In a worker of the cluster: one try."""
    tally.begin.remote(name)
    return attempt(work, argument, lambda amount: tally.add.remote(name, amount))
