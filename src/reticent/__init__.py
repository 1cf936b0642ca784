"""See, prevent and prove what a language model gives away of its training text.

Importing this package is cheap and never imports torch; each layer is imported by name
(`reticent.core`, `reticent.accounting`, `reticent.models`, ...).
`PrivateStep` and `verify` are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.runs.verifying import verify as verify
    from reticent.training.private_step import PrivateStep as PrivateStep

__version__ = "0.2.0"

_PLACES = {"PrivateStep": "reticent.training.private_step", "verify": "reticent.runs.verifying"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module 'reticent' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
