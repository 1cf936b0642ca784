"""Functions of scipy.special without the weight of what it imports and hardly uses.

`import scipy.special` loads wrappers for other array libraries, and copies every public name of numpy, which loads
f2py, masked arrays, polynomials and test tools: a quarter of a second of start-up. The functions that prices need
stand in a compiled module of that package, which is imported without running the package's `__init__`.

Only that module stays in `sys.modules`: whoever imports scipy.special afterwards gets the whole of it.
"""

import importlib
import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

_PACKAGE = "scipy.special"


def _compiled() -> Any:
    """The compiled functions of scipy.special."""
    if _PACKAGE in sys.modules:
        return importlib.import_module(f"{_PACKAGE}._ufuncs")
    spec = find_spec(_PACKAGE)
    assert spec is not None
    sys.modules[_PACKAGE] = module_from_spec(spec)  # a package with a path, whose __init__ did not run
    try:
        return importlib.import_module(f"{_PACKAGE}._ufuncs")
    finally:
        del sys.modules[_PACKAGE]


_FUNCTIONS = _compiled()
bdtrc, gammaln, log_ndtr, ndtr = _FUNCTIONS.bdtrc, _FUNCTIONS.gammaln, _FUNCTIONS.log_ndtr, _FUNCTIONS.ndtr
