"""Libraries without the weight of what they import and hardly use.

- `import scipy.special` copies every public name of numpy, which loads f2py, masked arrays, polynomials and test
  tools: a sixth of the start-up of `reticent bound`. Here are the functions that prices need.
- `import dp_accounting` loads scipy.optimize, scipy.signal and scipy.stats: two seconds of start-up. Of what is
  used here only Laplace steps need scipy.stats and only mixed compositions scipy.signal. So `dp_accounting.pld` is
  imported without running the `__init__` above it, and over stand-ins for the two.

Nothing of this stays in `sys.modules`: whoever imports one of them afterwards gets the whole of it.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

_LIBRARY = "dp_accounting"


@contextmanager
def standing_in(*names: str) -> Iterator[None]:
    """Whatever is imported in this block finds stand-ins for these modules, unless they are loaded already."""
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


with standing_in("numpy.f2py", "numpy.ma", "numpy.polynomial", "numpy.testing"):
    from scipy.special import bdtrc, gammaln, log_ndtr, logsumexp, ndtr

__all__ = ["bdtrc", "gammaln", "log_ndtr", "logsumexp", "ndtr", "privacy_losses", "standing_in"]


@cache
def privacy_losses() -> ModuleType:
    """The package `dp_accounting.pld`."""
    spec = find_spec(_LIBRARY)
    if _LIBRARY in sys.modules or spec is None:
        return importlib.import_module(f"{_LIBRARY}.pld")
    sys.modules[_LIBRARY] = module_from_spec(spec)  # a package with a path, whose __init__ did not run
    try:
        with standing_in("scipy.signal", "scipy.stats"):
            return importlib.import_module(f"{_LIBRARY}.pld")
    finally:
        del sys.modules[_LIBRARY]
