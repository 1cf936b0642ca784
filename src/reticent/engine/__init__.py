"""Many pieces of work, on processes or on Ray."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.engine.work import EngineSettings, Piece, open_engine, run_pieces

_PLACES = names_by_module(
    __name__,
    {
        "work": "EngineSettings Piece open_engine run_pieces",
    },
)

__all__ = [
    "EngineSettings",
    "Piece",
    "open_engine",
    "run_pieces",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
