"""A policy on an engine: texts go out in pieces, spans come back in their order. Findings are the policy's own.

A worker keeps the last policies it was given, so that what a policy loads is loaded once. Texts travel through
pipes or Ray's object store and are written to no disk by reticent; Ray spills objects to disk when memory is short.
"""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from reticent.core.corpus import Policy, Span
from reticent.engine.work import Engine, EngineSettings, Piece, Told, gather, open_engine

_PIECES: Final = 4  # a batch for each worker: long texts do not keep the others waiting
_KEPT: Final = 8


class EnginePolicy:
    """`policy`, looked up by the workers of an engine."""

    def __init__(self, policy: Policy, engine: Engine) -> None:
        self._policy = policy
        self._engine = engine
        self._packed = pickle.dumps(policy)
        self.name = policy.name
        self.is_local = policy.is_local
        self.reads_context = bool(getattr(policy, "reads_context", False))

    def __repr__(self) -> str:
        return f"EnginePolicy({self.name}, {self._engine})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The policy's own."""
        return tuple(getattr(self._policy, "kinds", ()))

    @property
    def fingerprint(self) -> str:
        """The policy's own: an engine changes no finding."""
        return str(getattr(self._policy, "fingerprint", ""))

    def find(self, texts: Sequence[str]) -> list[tuple[Span, ...]]:
        """Sorted, non-overlapping spans of each text."""
        if len(texts) < 2:
            return self._policy.find(texts)
        size = max(1, -(-len(texts) // (self._engine.workers * _PIECES)))
        pieces = [
            Piece(f"texts-{start}", (self._packed, list(texts[start : start + size])))
            for start in range(0, len(texts), size)
        ]
        return [spans for found in gather(pieces, find_piece, engine=self._engine) for spans in found]


@contextmanager
def policies_in(
    settings: EngineSettings | None, policies: Sequence[Policy], *, processes: int
) -> Iterator[list[Policy]]:
    """The policies on the engine that was asked for, else in so many processes of this machine."""
    if settings is None and processes == 1:
        yield list(policies)
        return
    with open_engine(settings or EngineSettings(workers=processes)) as engine:
        yield [EnginePolicy(policy, engine) for policy in policies]


def find_piece(argument: tuple[bytes, list[str]], told: Told) -> list[tuple[Span, ...]]:
    """In a worker: the spans of some texts."""
    packed, texts = argument
    found = _unpacked(packed).find(texts)
    told(len(texts))
    return found


@lru_cache(maxsize=_KEPT)
def _unpacked(packed: bytes) -> Policy:
    policy: Policy = pickle.loads(packed)  # noqa: S301 - made by the process that leads this work
    return policy
