"""Write docs/api.md from the source's signatures and docstrings; with --check, fail if the page is not the truth.

First the public API, every name of `reticent.__all__` with its whole docstring and its example; then the names that
each package offers to researchers, and the modules that lie an import deeper. Reads the source as text: nothing is
imported.
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
MODULES = {
    "The nouns": (
        "core.corpus",
        "core.secret",
        "core.model",
        "core.sampling",
        "core.event",
        "core.guarantee",
        "core.finding",
        "core.ledger",
        "core.ensemble",
        "core.randomness",
        "core.divergence",
        "core.errors",
    ),
    "What is proved": (
        "accounting.guarantees",
        "accounting.bounds.leakage",
        "accounting.bounds.ceiling",
        "accounting.calibration",
        "accounting.bounds.confidentiality",
        "ledger.durable",
    ),
    "Text": (
        "data.reading.corpus_file",
        "data.writing",
        "data.canaries",
        "data.redaction.masking",
        "data.measurement",
        "data.generators.dialogues",
    ),
    "Models": ("models.huggingface.loading", "models.embedded"),
    "What is measured": (
        "auditing.attacks.exposure.ranking",
        "auditing.attacks.membership.attack",
        "auditing.attacks.membership.metrics",
        "auditing.attacks.lazy.emission",
        "auditing.attacks.lazy.risk_map",
        "auditing.attacks.extraction.discoverable",
        "auditing.attacks.extraction.codes",
        "auditing.attacks.update.search",
        "auditing.metrics.one_run",
        "auditing.metrics.one_run_curve",
    ),
    "Answers": ("prediction.budgets", "prediction.predictor", "prediction.evaluation"),
    "Journeys": (
        "runs.settings.declaration",
        "runs.training.settings",
        "runs.training.result",
        "runs.training.run",
        "runs.ensemble.run",
        "runs.ensemble.prediction",
        "auditing.subject",
        "auditing.settings",
        "runs.audit.subject",
        "runs.audit.plan",
        "runs.audit.run",
        "runs.update.run",
        "runs.report.reading",
        "reporting.formats.page",
        "reporting.formats.markdown",
    ),
}
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
        "## For researchers",
        "",
        "Each package offers the names that others build on: `from reticent.core import Randomness`. They load",
        "when they are first used. Every name has one home: what `reticent` itself offers is not listed again.",
        "The papers are reproduced with public names alone; a test checks every file of `reproductions/`.",
    ]
    for package in PACKAGES:
        parts += _offered(package)
    parts += [
        "",
        "## An import deeper",
        "",
        "The modules that these names come from, with signatures. What is listed only here may change between",
        "versions.",
    ]
    for title, modules in MODULES.items():
        parts += ["", f"## {title}"]
        for module in modules:
            parts += _module(module)
    return "\n".join(parts) + "\n"


def _public() -> dict[str, str]:
    """The module of each public name, from the table in `reticent/__init__.py`."""
    for node in _tree("").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PLACES":
            places: dict[str, str] = ast.literal_eval(node.value)
            return {name: module.removeprefix("reticent.") for name, module in places.items()}
    raise LookupError("reticent/__init__.py has no table _PLACES")


def _offered(package: str) -> list[str]:
    """The public names of a package, each with the first sentence of its docstring."""
    (block,) = (node for node in _tree(package).body if ast.unparse(node).startswith("if TYPE_CHECKING:"))
    imports = [node for node in ast.walk(block) if isinstance(node, ast.ImportFrom) and node.module]
    places = {alias.name: str(node.module).removeprefix("reticent.") for node in imports for alias in node.names}
    lines = ["", f"### `reticent.{package}`", "", "| Name | What it is |", "|---|---|"]
    return [*lines, *(f"| `{name}` | {_first_sentence(name, places[name])} |" for name in sorted(places))]


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


def _entry(name: str, module: str) -> list[str]:
    """A public name: its signature, its docstring and, of a class, its public methods and properties."""
    node = next(each for each in _tree(module).body if getattr(each, "name", None) == name)
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    is_class = isinstance(node, ast.ClassDef)
    shown = f"class {name}" if isinstance(node, ast.ClassDef) else _signature(node)
    lines = ["", f"### `{shown}`", "", *_paragraphs(ast.get_docstring(node) or "")]
    for each in node.body if is_class else ():
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            own = each.name if "property" in _decorators(each) else _signature(each)
            lines.append(f"- `.{own}`: {_sentence(each)}")
    return lines


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


def _module(name: str) -> list[str]:
    """The heading, the first sentence and the public names of one module."""
    tree = _tree(name)
    lines = ["", f"### `reticent.{name}`", "", _sentence(tree), ""]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            lines.append(f"- **class `{node.name}`**: {_sentence(node)}")
            lines += [f"  - `{_signature(method)}`: {_sentence(method)}" for method in _methods(node)]
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines.append(f"- `{_signature(node)}`: {_sentence(node)}")
    return lines


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Public methods; properties and overloads are left to the source."""
    found = [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]
    return [each for each in found if not {"property", "cached_property", "overload"} & _decorators(each)]


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


def _sentence(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
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
