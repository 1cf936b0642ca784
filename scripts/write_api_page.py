"""Write docs/api.md from the source's signatures and docstrings; with --check, fail if the page is not the truth.

First the public API, every name of `reticent.__all__` with its whole docstring and its example; then what its
functions return, with its attributes; then the names that each package offers to researchers, with their arguments.
Reads the source as text: nothing is imported.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
PACKAGES = (
    *("core", "accounting", "ledger", "data", "models", "auditing", "training", "prediction", "engine", "runs"),
    "cli",
)
_WIDEST = 112


def page() -> str:
    """The whole page."""
    parts = [
        "# API",
        "",
        "Generated from signatures and docstrings by `make docs`; do not edit. Arguments after `*` go by name.",
        "",
        "## The public API",
        "",
        "`import reticent` offers these names, each loaded when it is first used. The tests run the examples, one",
        "after another in one folder.",
    ]
    for name, module in sorted(_public().items()):
        parts += _entry(name, module)
    parts += [
        "",
        "## What the functions return",
        "",
        "Objects to read: nobody has to import their classes.",
    ]
    for name, module in sorted(_returned().items()):
        parts += _entry(name, module, is_read=True)
    parts += [
        "",
        "## For researchers",
        "",
        "Each package offers the names that others build on: `from reticent.core import Randomness`. They load",
        "when they are first used. Every name has one home: what `reticent` itself offers is not listed again.",
        "The papers are reproduced with public names alone; a test checks every file of `reproductions/`.",
    ]
    for package in PACKAGES:
        parts += _offered(package)
    return "\n".join(parts) + "\n"


def _public() -> dict[str, str]:
    """The module of each public name, from the table in `reticent/__init__.py`."""
    for node in _tree("").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PLACES":
            places: dict[str, str] = ast.literal_eval(node.value)
            return {name: module.removeprefix("reticent.") for name, module in places.items()}
    raise LookupError("reticent/__init__.py has no table _PLACES")


def _returned() -> dict[str, str]:
    """The module of each class that a public function returns and that is no public name itself."""
    public = set(_public()) | {name for package in PACKAGES for name in _places(package)}
    found: dict[str, str] = {}
    for name, module in _public().items():
        tree = _tree(module)
        node = next(each for each in tree.body if getattr(each, "name", None) == name)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            near = {each.name: module for each in tree.body if isinstance(each, ast.ClassDef)}
            words = re.findall(r"\w+", ast.unparse(node.returns))
            found |= {word: place for word, place in (near | _imports(tree)).items() if word in words}
    return {name: module for name, module in found.items() if name not in public}


def _imports(tree: ast.AST) -> dict[str, str]:
    """The module of each name of ours that is imported anywhere in a tree."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    ours = [node for node in nodes if str(node.module).startswith("reticent.")]
    return {alias.name: str(node.module).removeprefix("reticent.") for node in ours for alias in node.names}


def _places(package: str) -> dict[str, str]:
    """The module of each public name of a package, from the imports for type checkers."""
    (block,) = (node for node in _tree(package).body if ast.unparse(node).startswith("if TYPE_CHECKING:"))
    return _imports(block)


def _offered(package: str) -> list[str]:
    """The public names of a package, each with the first sentence of its docstring."""
    places = _places(package)
    lines = ["", f"### `reticent.{package}`", ""]
    named = ((_called(name, places[name]), _first_sentence(name, places[name])) for name in sorted(places))
    return [*lines, *(f"- `{called}`: {sentence}" for called, sentence in named)]


def _called(name: str, module: str) -> str:
    """A name with what it is called with; by itself where it is a constant, a protocol or a choice."""
    node = next((each for each in _tree(module).body if getattr(each, "name", None) == name), None)
    if isinstance(node, ast.FunctionDef):
        return _signature(node)
    if not isinstance(node, ast.ClassDef):
        return name
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if made is not None:
        return _signature(made).removesuffix(" → None").replace("__init__", name, 1)
    if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        return name
    fields = [ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign) and _is_field(each)]
    by_name = any("kw_only=True" in ast.unparse(each) for each in node.decorator_list)
    return f"{name}({', '.join(['*', *fields] if by_name and fields else fields)})"


def _is_field(node: ast.AnnAssign) -> bool:
    is_own = isinstance(node.target, ast.Name) and not node.target.id.startswith("_")
    return is_own and not ast.unparse(node.annotation).startswith("ClassVar")


def _first_sentence(name: str, module: str) -> str:
    """The first sentence about a name: of its docstring, or of the string below a constant or a type."""
    body = _tree(module).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        text = None
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            text = ast.get_docstring(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            text = str(ast.literal_eval(below.value)) if ast.unparse(target) == name else None
        if text:
            paragraph = " ".join(text.split("\n\n")[0].split())
            return re.split(r"(?<=[.…])\s+(?=[A-Z`‖0-9])", paragraph)[0].replace("|", "\\|")
    raise LookupError(f"{name} of reticent.{module} has no docstring")


def _entry(name: str, module: str, *, is_read: bool = False) -> list[str]:
    """A name: its signature, its docstring and, of a class, its public methods and properties.

    Of a class that `is_read` and never made by callers, its fields with their types instead of what makes it.
    """
    node = next(each for each in _tree(module).body if getattr(each, "name", None) == name)
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    is_class = isinstance(node, ast.ClassDef)
    shown = f"class {name}" if is_class else _called(name, module)
    lines = ["", f"### `{shown}`", "", *_paragraphs(ast.get_docstring(node) or "")]
    if is_read:
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and _is_field(each)]
        kinds = [ast.unparse(each.annotation).replace("'", "") for each in fields]
        lines += [f"- `.{ast.unparse(each.target)}: {kind}`" for each, kind in zip(fields, kinds, strict=True)]
    elif is_class and (called := _called(name, module)) != name:
        lines.append(f"- `{called}`")
    for each in (*node.body, *_inherited(node)) if isinstance(node, ast.ClassDef) else ():
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            own = each.name if {"property", "cached_property"} & _decorators(each) else _signature(each)
            lines.append(f"- `.{own}`: {_sentence(each)}")
    return lines


def _inherited(node: ast.ClassDef) -> list[ast.stmt]:
    """What a class has from `JsonObject`, where it does not say it itself."""
    if "JsonObject" not in {ast.unparse(each) for each in node.bases}:
        return []
    (shared,) = (each for each in _tree("core.document").body if getattr(each, "name", None) == "JsonObject")
    assert isinstance(shared, ast.ClassDef)
    own = {getattr(each, "name", None) for each in node.body}
    return [each for each in shared.body if getattr(each, "name", None) not in own]


def _paragraphs(text: str) -> list[str]:
    """A docstring as Markdown: an example that starts with >>> is a block of code."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        body = paragraph.rstrip()
        lines += ["```pycon", body, "```", ""] if body.lstrip().startswith(">>>") else [" ".join(body.split()), ""]
    return lines


def _tree(name: str) -> ast.Module:
    place = ROOT / "src" / "reticent" / Path(*(name.split(".") if name else ()))
    file = place.with_suffix(".py") if name and place.with_suffix(".py").is_file() else place / "__init__.py"
    return ast.parse(file.read_text(encoding="utf8"))


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(each).split("(")[0].split(".")[-1] for each in node.decorator_list}


def _signature(node: ast.FunctionDef) -> str:
    """Names of the arguments, with types where the line stays readable."""
    arguments = ast.unparse(node.args)
    arguments = arguments.removeprefix("self, ").removeprefix("cls, ")
    arguments = "" if arguments in ("self", "cls") else arguments
    returned = "" if node.returns is None else f" → {ast.unparse(node.returns)}"
    whole = f"{node.name}({arguments}){returned}".replace("'", "").replace("\n", " ")
    if len(whole) <= _WIDEST:
        return whole
    given = [each.arg for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in ("self", "cls")]
    named = [each.arg for each in node.args.kwonlyargs]
    return f"{node.name}({', '.join([*given, *(['*'] if named else []), *named])}){returned}".replace("'", "")


def _sentence(node: ast.FunctionDef) -> str:
    """The first paragraph of a docstring, on one line."""
    text = ast.get_docstring(node) or ""
    return " ".join(text.split("\n\n")[0].split())


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf8") != page():
            sys.stderr.write("docs/api.md is not what the source says; run: make docs\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
