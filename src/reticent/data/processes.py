"""A policy in several processes: batches are cut in pieces that worker processes take in turn.

Workers are started with the first batch, fresh rather than forked, and load what the policy needs themselves; texts
and spans travel through pipes and are written nowhere. Findings are those of the policy itself, in the same order.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType

from reticent.core.corpus import Policy, Span

_PIECES = 4  # a batch for each worker: long texts do not keep the others waiting

_policy: Policy | None = None


class InProcesses:
    """`policy` in `processes` processes; a context manager that ends them."""

    def __init__(self, policy: Policy, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"processes must be at least 1, found {processes}")
        self._policy = policy
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self.name = policy.name
        self.is_local = policy.is_local
        self.reads_context = bool(getattr(policy, "reads_context", False))

    def __repr__(self) -> str:
        return f"InProcesses({self.name}, {self._processes})"

    def __enter__(self) -> "InProcesses":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The policy's own."""
        return tuple(getattr(self._policy, "kinds", ()))

    @property
    def fingerprint(self) -> str:
        """The policy's own: processes change no finding."""
        return str(getattr(self._policy, "fingerprint", ""))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        if self._processes == 1 or len(texts) < 2:
            return self._policy.find(texts)
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._processes, mp_context=get_context("spawn"), initializer=_start, initargs=(self._policy,)
            )
        size = max(1, -(-len(texts) // (self._processes * _PIECES)))
        pieces = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        return [spans for piece in self._pool.map(_find, pieces) for spans in piece]


def _start(policy: Policy) -> None:
    """In a worker: keep the policy, so that it is sent once."""
    global _policy
    _policy = policy


def _find(texts: list[str]) -> list[tuple[Span, ...]]:
    assert _policy is not None
    return _policy.find(texts)
