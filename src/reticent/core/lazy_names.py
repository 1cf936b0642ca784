"""Public names of a package, each loaded from its module when it is first used.

    _PLACES = names_by_module(__name__, {"event": "Gaussian Laplace", "bounds.leakage": "leakage_bounds"})
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)

Importing a package thus imports none of its modules, and no torch. Type checkers and editors do not run this: for
them the package imports the same names under `if TYPE_CHECKING`, each `as` itself, which offers it to others. A
test compares the two.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package that offers names; `places` are their modules."""

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return load, listed


def names_by_module(package: str, modules: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module of a package, with spaces between them."""
    return {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}
