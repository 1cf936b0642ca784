"""Signatures of texts by the workers of an engine, in order, a few batches at a time in memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from reticent.data.duplicates.near import Sign, Signatures, signatures
from reticent.engine.work import Engine, Piece, Told, gather

_AHEAD: Final = 8  # batches for each worker between two moments at which all wait for the last


def signed_by(engine: Engine | None) -> Sign:
    """What `near_repeats` computes signatures by: this process, or the engine."""
    if engine is None:
        return lambda batches: map(signatures, batches)
    chosen = engine

    def sign(batches: Iterator[list[str]]) -> Iterable[Signatures]:
        while block := list(islice(batches, _AHEAD * chosen.workers)):
            pieces = [Piece(f"texts-{number}", batch) for number, batch in enumerate(block)]
            yield from gather(pieces, sign_piece, engine=chosen)

    return sign


def sign_piece(texts: list[str], told: Told) -> Signatures:
    """In a worker: the signatures of one batch."""
    found = signatures(texts)
    told(len(texts))
    return found
