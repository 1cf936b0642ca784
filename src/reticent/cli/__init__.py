"""The command line: a file a verb. Its names let a program beside it look and fail as the verbs do."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.cli.console import Output, table
    from reticent.cli.flags import VerbCommand, verb
    from reticent.cli.main import run

_PLACES = names_by_module(
    __name__,
    {
        "console": "Output table",
        "flags": "VerbCommand verb",
        "main": "run",
    },
)

__all__ = [
    "Output",
    "VerbCommand",
    "run",
    "table",
    "verb",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
