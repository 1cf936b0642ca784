"""The package `dp_accounting.pld` without the weight of its imports.

`import dp_accounting` loads scipy.optimize, scipy.signal and scipy.stats: two seconds of start-up. Of what is used
here only Laplace steps need scipy.stats and only mixed compositions scipy.signal. So `dp_accounting.pld` is
imported without running the `__init__` above it, and over stand-ins for the two. Nothing of this stays in
`sys.modules`: whoever imports dp_accounting or scipy.stats afterwards gets the whole of it.
"""

import importlib
import sys
from functools import cache
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from reticent.accounting.stand_ins import standing_in

_LIBRARY = "dp_accounting"


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
