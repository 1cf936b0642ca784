"""The command line: a file a verb. Its names let a program beside it look and fail as the verbs do."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.cli.console import Output as Output
    from reticent.cli.console import table as table
    from reticent.cli.flags import VerbCommand as VerbCommand
    from reticent.cli.flags import verb as verb
    from reticent.cli.main import run as run

_PLACES = names_by_module(
    __name__,
    {
        "console": "Output table",
        "flags": "VerbCommand verb",
        "main": "run",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
