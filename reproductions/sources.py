"""A fingerprint of the code that a piece of an experiment runs: change the code and the piece is another one.

    the function and what it names in its own module, then every module of the package that those import, whole,
    within functions too, and so on; of packages also the files that are no code (the embedded model's weights)

A public name (`from reticent.core import Randomness`, `reticent.train`) stands for the module that defines it, and
a verb of the library for what it imports itself: a name that is added to a package changes no fingerprint.

Comments, docstrings and layout do not count: what is hashed is the syntax tree. Neither does the rendering of
results, which stands beside the function that computes them but is not named by it, nor the frame that runs and
prints. Other modules that are found by a string at run time are not seen; other packages count by their versions.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import reproductions
import reticent

_ROOTS: Final = {package.__name__: Path(str(package.__file__)).parent for package in (reticent, reproductions)}
# The nouns of an experiment hold what was computed and compute nothing. The other two load public names and call
# verbs: what they load and call counts.
_FRAME: Final = frozenset({"reproductions.experiment", "reticent.core.lazy_names", "reticent.api"})
_LISTS: Final = ("_PLACES", "__all__")  # a package's public names


@cache
def source_fingerprint(compute: Callable[..., Any]) -> str:
    """The fingerprint of a function of a module and of all that it composes."""
    nodes = _reachable(_tree(Path(str(sys.modules[compute.__module__].__file__))), compute.__qualname__)
    modules = _closure(module for node in nodes for module in _imported(node))
    own = [ast.dump(node) for node in nodes]
    return _hashed([*own, *(_module_fingerprint(module) for module in sorted(modules))])


def _hashed(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _reachable(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Statements of a module, in order, that define `name` (`Class.method` is its class) or what it names."""
    defined: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for each in _bound(node):
            defined.setdefault(each, []).append(node)
    wanted, seen = [name.partition(".")[0]], set[str]()
    kept: list[ast.stmt] = []
    while wanted:
        one = wanted.pop()
        if one not in seen:
            seen.add(one)
            for node in defined.get(one, ()):
                kept.append(node)
                wanted += [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    return [node for node in tree.body if any(node is other for other in kept)]


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module binds; those under `if TYPE_CHECKING` do nothing at run time."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    else:
        yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _imported(node: ast.AST) -> Iterator[str]:
    """Modules of the package that are imported anywhere within a node; what is imported for types alone is not."""
    for inner in _walked(node):
        if isinstance(inner, ast.ImportFrom) and inner.module:
            names = [inner.module, *(f"{inner.module}.{alias.name}" for alias in inner.names)]
        elif isinstance(inner, ast.Import):
            names = [alias.name for alias in inner.names]
        elif isinstance(inner, ast.Attribute) and ast.unparse(inner.value) == reticent.__name__:
            names = [f"{reticent.__name__}.{inner.attr}"]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in _ROOTS:
                yield from _defining(name)


def _defining(name: str) -> Iterator[str]:
    """The module of this name, or those behind a public name of a package; none where it is neither."""
    package, _, own = name.rpartition(".")
    if _file(name) is not None:
        yield name
    elif package and (place := _places(package).get(own)):
        yield place
        if place in _FRAME:
            path = _file(place)
            assert path is not None
            yield from (module for node in _reachable(_tree(path), own) for module in _imported(node))


@cache
def _places(package: str) -> dict[str, str]:
    """The module of each public name of a package; none where it is no package, or offers no names."""
    path = _file(package)
    is_package = path is not None and path.name == "__init__.py"
    return dict(getattr(import_module(package), _LISTS[0], {})) if is_package else {}


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, without the blocks that only type checkers read."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from _walked(child)


def _closure(modules: Iterable[str]) -> set[str]:
    """The modules and all that they import, with the packages that hold them."""
    waiting, found = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        if module not in found and module not in _FRAME:
            found.add(module)
            waiting += [*_imports(module), module.rpartition(".")[0] or module]
    return found


@cache
def _imports(module: str) -> frozenset[str]:
    path = _file(module)
    return frozenset() if path is None else frozenset(_imported(_tree(path)))


@cache
def _module_fingerprint(module: str) -> str:
    path = _file(module)
    assert path is not None
    beside: list[Path] = []
    if path.name == "__init__.py":
        beside = [
            one for one in sorted(path.parent.iterdir()) if one.is_file() and one.suffix not in (".py", ".md")
        ]
    digests = [f"{one.name} {hashlib.blake2b(one.read_bytes(), digest_size=8).hexdigest()}" for one in beside]
    return _hashed([module, ast.dump(_tree(path)), *digests])


def _file(module: str) -> Path | None:
    """The file of a module of ours; None where the name is none."""
    package, *rest = module.split(".")
    path = _ROOTS[package].joinpath(*rest)
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((one for one in candidates if one.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    """The syntax tree without docstrings, and of a package without its lists of public names."""
    tree = ast.parse(path.read_bytes())
    if path.name == "__init__.py":
        tree.body = [node for node in tree.body if not _lists_names(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return tree


def _lists_names(node: ast.stmt) -> bool:
    """Whether a statement of a package says which names it offers, at run time or to type checkers."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in _LISTS


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is a string alone: a docstring, or one below a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
