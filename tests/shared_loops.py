"""Compiled loops that the processes of one test run share: what one of them compiled, the others load.

Two workers and the servers that tests start would each compile the same forty loops, half a second each. The
product keeps none on disk, since numba's own files do not say what is in them. Here a loop has a file of its own,
named by all that it was compiled from and put there whole; the folder is new for every run of the tests, and gone
after it.
"""

import contextlib
import hashlib
import os
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

FOLDER = "RETICENT_TESTS_LOOPS"  # variable of the environment, which the workers and what they start inherit


@contextlib.contextmanager
def folder_of_a_run():
    """A folder for the loops of this run of the tests."""
    with TemporaryDirectory(prefix="reticent-loops-") as name:
        os.environ[FOLDER] = name
        yield
        del os.environ[FOLDER]


class Untold(TypeError):
    """A loop holds a value of a kind that is not known here: everybody compiles it."""


def share() -> None:
    """From now on look for a loop of reticent's among those of the run before compiling it."""
    from numba.core.caching import NullCache
    from numba.core.dispatcher import Dispatcher

    compile_alone = Dispatcher.compile

    def compile_or_load(dispatcher, signature):
        if type(dispatcher._cache) is NullCache and dispatcher.py_func.__module__.startswith("reticent."):
            dispatcher._cache = _loops_of(dispatcher, Path(os.environ[FOLDER]))
        return compile_alone(dispatcher, signature)

    Dispatcher.compile = compile_or_load


def compiled_here(loop):
    """The loop with the same signatures, compiled by this process: machine code that was loaded cannot be read."""
    from numba.core.caching import NullCache

    anew = type(loop)(loop.py_func, targetoptions=loop.targetoptions)
    anew._cache = type("Alone", (NullCache,), {})()
    for signature in loop.signatures:
        anew.compile(signature)
    return anew


def _loops_of(dispatcher, folder: Path):
    """Numba's cache of one function, in this folder."""
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps

    class Loops(NullCache):
        def load_overload(self, signature, context):
            context.refresh()  # what loaded code calls is set up
            with contextlib.suppress(Untold, FileNotFoundError):
                content = (folder / name_of(dispatcher, signature)).read_bytes()
                return CompileResult._rebuild(context, *pickle.loads(content))
            return None

        def save_overload(self, signature, result):
            if result.lifted or result.library.has_dynamic_globals:  # what numba itself would not keep
                return
            with contextlib.suppress(Untold):
                path = folder / name_of(dispatcher, signature)
                written = path.with_suffix(f".{os.getpid()}")
                written.write_bytes(dumps(result._reduce()))
                written.replace(path)

    return Loops()


def name_of(dispatcher, signature) -> str:
    """A digest of all that the machine code of this signature is made of."""
    found = f"{_described(dispatcher)} {signature} {dispatcher.targetctx.codegen().magic_tuple()}"
    return hashlib.sha256(found.encode()).hexdigest()


def _described(value: Any) -> str:
    """A value that compiled code holds, in words that are the same in every process."""
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return repr(value)
    if isinstance(value, np.generic):
        return f"{value.dtype} {value.tobytes()!r}"
    if isinstance(value, (tuple, list)):
        return str([_described(each) for each in value])
    if isinstance(value, (set, frozenset)):
        return str(sorted(_described(each) for each in value))
    if isinstance(value, dict):
        return str(sorted((str(key), _described(each)) for key, each in value.items()))
    if isinstance(value, FunctionType):
        globals_ = {name: value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__}
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        code = value.__code__
        made_of = [code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_freevars, globals_, cells]
        return f"{value.__module__} {value.__qualname__} {_described(made_of)}"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, (type, BuiltinFunctionType)):
        return f"{value.__module__} {value.__qualname__}"
    if hasattr(value, "targetoptions"):  # a compiled function
        return f"{_described(value.py_func)} {_described(value.targetoptions)}"
    if type(value).__name__ == "_Intrinsic":
        return f"{value._defn.__module__} {value._defn.__qualname__}"
    raise Untold(f"not known how to tell two values of this kind apart: {type(value)}")
