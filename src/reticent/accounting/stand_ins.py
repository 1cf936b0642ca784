"""Modules that a library imports and hardly uses, left unloaded until one of their names is asked for."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def standing_in(*names: str) -> Iterator[None]:
    """Whatever is imported in this block finds stand-ins for these modules, unless they are loaded already.

    Nothing of this stays in `sys.modules`: whoever imports one of them afterwards gets the module itself.
    """
    stand_ins = [_StandIn(name) for name in names if name not in sys.modules]
    for module in stand_ins:
        sys.modules[module.__name__] = module
        package, _, name = module.__name__.rpartition(".")
        setattr(importlib.import_module(package), name, module)
    try:
        yield
    finally:
        for module in stand_ins:
            module.leave()


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
