"""Repository tests: what the package offers can be reached by somebody who types a command.

Every module is imported, directly or not, from the command line, and every public function and class is used by the
package itself or by what stands beside it (`bench/`, `examples/`, `reproductions/`, `scripts/`). What only tests
use is in `tests/`. Code is read by its syntax tree; nothing of ours is imported.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.syntax import nodes_of, tree_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
START = "reticent.__main__"
BESIDE = ("bench", "examples", "reproductions", "scripts")

# Public names that nothing but tests and documents uses, each with the reason why it is here.
ALLOWED = {
    "most_steps": "the inverse of `least_noise`, for plans by a number of steps",
}


def read(folder: Path) -> dict[str, str]:
    """The Python files below a folder, by dotted module name."""
    names = {".".join(path.relative_to(folder).with_suffix("").parts): path for path in folder.rglob("*.py")}
    return {name.removesuffix(".__init__"): path.read_text(encoding="utf8") for name, path in names.items()}


def imported(text: str, known: Iterable[str]) -> set[str]:
    """The modules among `known` that a file imports, wherever in it, with the packages they are in."""
    found = set()
    for node in nodes_of(text):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    parents = {".".join(name.split(".")[:depth]) for name in found for depth in range(1, name.count(".") + 1)}
    return (found | parents) & set(known)


def verbs(text: str) -> tuple[str, ...]:
    """The verbs that the command line declares: each is imported by its name when it is called."""
    tree = ast.parse(text)
    (found,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "VERBS")
    return tuple(each.value for each in ast.walk(found) if isinstance(each, ast.Constant))


def unreached(modules: dict[str, str], *starts: str) -> set[str]:
    """Modules that no chain of imports from `starts` leads to."""
    seen, waiting = set(), list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(modules[name], modules)
    return set(modules) - seen


def used_names(node: ast.AST, *, but: str | None = None) -> set[str]:
    """Names that are read, called or imported in a piece of code; `but` counts only where it is imported."""
    names, imports = set(), set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif isinstance(each, ast.ImportFrom):
            imports |= {alias.name for alias in each.names}
    return names - {but} | imports


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator makes it a verb of the command line: typer calls it."""
    decorators = [ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list]
    return any(name == "verb" or name.endswith(".command") for name in decorators)


def unused(modules: dict[str, str], beside: dict[str, str]) -> dict[str, str]:
    """Public functions and classes that nothing outside their own bodies uses, by name, with their module."""
    defined, used = {}, set()
    for module, text in modules.items():
        for node in tree_of(text).body:
            name = getattr(node, "name", None)
            used |= used_names(node, but=name)  # a verb may be called like what it calls
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not is_command(node):
                defined |= {} if node.name.startswith("_") else {node.name: module}
    for text in beside.values():
        used |= used_names(tree_of(text))
    return {name: module for name, module in defined.items() if name not in used}


def without_offers(text: str) -> str:
    """A file without the imports for type checkers alone: a name that is only offered is not used yet."""
    tree = ast.parse(text)
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.unparse(tree)


# The top level is where users start; what the packages below it offer must be used by somebody.
MODULES = {
    name: without_offers(text) if "_PLACES" in text and name != "reticent" else text
    for name, text in read(SOURCE).items()
}
BENCHES = {name: text for folder in BESIDE for name, text in read(ROOT / folder).items()}


def test_every_module_is_reached_from_the_command_line():
    named = verbs(MODULES["reticent.cli.main"])
    assert len(named) > 15
    assert unreached(MODULES, START, *(f"reticent.cli.{verb}" for verb in named)) == set()


def test_every_public_function_and_class_is_used():
    found = unused(MODULES, BENCHES)
    assert {f"{module}.{name}" for name, module in found.items() if name not in ALLOWED} == set()


def test_nothing_of_the_package_is_imported_from_the_tests():
    """Benches may: the naive way that they measure against is the tests' oracle."""
    assert {name for name, text in MODULES.items() if "from tests" in text} == set()


TWIN = {
    "a": "",
    "a.cli": "def main():\n    from a.used import f\n    f()\n",
    "a.used": "def f():\n    return 1\n\ndef again():\n    return again()\n",
    "a.left": "from a.used import f\nclass Left: ...\n",
}


def test_a_name_that_a_package_only_offers_is_caught():
    offering = "if TYPE_CHECKING:\n    from a.left import Left\n_PLACES = {}\n"
    assert unused(TWIN | {"a": without_offers(offering)}, {})["Left"] == "a.left"
    assert unreached(TWIN | {"a": without_offers(offering)}, "a.cli") == {"a.left"}
    assert "Left" not in unused(TWIN | {"a": offering}, {})


def test_a_module_that_only_imports_others_is_caught():
    assert unreached(TWIN, "a.cli") == {"a.left"}
    assert unreached(TWIN | {"a.cli": "import a.left"}, "a.cli") == set()


def test_a_function_that_only_calls_itself_is_caught_and_a_verb_or_a_bench_is_a_user():
    assert unused(TWIN, {}) == {"main": "a.cli", "again": "a.used", "Left": "a.left"}
    assert unused(TWIN, {"bench": "from a.left import Left\n"}) == {"main": "a.cli", "again": "a.used"}
    assert unused({"a": "@app.command('b')\ndef b(): ...\ndef _c(): ...\n"}, {}) == {}
