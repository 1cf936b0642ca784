"""Many pieces of work, on processes or on Ray."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.engine.work import EngineSettings as EngineSettings
    from reticent.engine.work import Piece as Piece
    from reticent.engine.work import open_engine as open_engine
    from reticent.engine.work import run_pieces as run_pieces

_PLACES = names_by_module(
    __name__,
    {
        "work": "EngineSettings Piece open_engine run_pieces",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
