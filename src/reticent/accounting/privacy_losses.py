"""The package `dp_accounting.pld` without the weight of its imports.

`import dp_accounting` loads scipy.optimize, scipy.signal and scipy.stats: two seconds of start-up. Of what is used
here only Laplace steps need scipy.stats and only mixed compositions scipy.signal. So `dp_accounting.pld` is
imported without running the `__init__` above it, and over stand-ins for the two, which import the real module when
one of its names is first asked for. Nothing of this stays in `sys.modules`: whoever imports dp_accounting or
scipy.stats afterwards gets the whole of it.
"""

import importlib
import sys
from functools import cache
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LIBRARY = "dp_accounting"
_HEAVY = ("scipy.signal", "scipy.stats")


class _StandIn(ModuleType):
    """Stands for a module until one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def leave(self) -> None:
        """Give the place in `sys.modules` and in the package back to the real module."""
        package, _, name = self.__name__.rpartition(".")
        for names, key in ((sys.modules, self.__name__), (vars(sys.modules[package]), name)):
            if names.get(key) is self:
                del names[key]


@cache
def privacy_losses() -> ModuleType:
    """The package `dp_accounting.pld`."""
    spec = find_spec(_LIBRARY)
    if _LIBRARY in sys.modules or spec is None:
        return importlib.import_module(f"{_LIBRARY}.pld")
    scipy = importlib.import_module("scipy")
    stand_ins = [_StandIn(name) for name in _HEAVY if name not in sys.modules]
    for module in stand_ins:
        sys.modules[module.__name__] = module
        setattr(scipy, module.__name__.removeprefix("scipy."), module)
    sys.modules[_LIBRARY] = module_from_spec(spec)  # a package with a path, whose __init__ did not run
    try:
        return importlib.import_module(f"{_LIBRARY}.pld")
    finally:
        del sys.modules[_LIBRARY]
        for module in stand_ins:
            module.leave()
