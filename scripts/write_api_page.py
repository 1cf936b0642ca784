"""Write docs/api.md from the source's signatures and docstrings; with --check, fail if the page is not the truth.

Reads the source as text: nothing is imported. Only the modules that callers start from are listed; every other
module says at its top what it is.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
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
        "audit.attacks.exposure.ranking",
        "audit.attacks.membership.attack",
        "audit.attacks.membership.metrics",
        "audit.attacks.lazy.emission",
        "audit.attacks.lazy.risk_map",
        "audit.attacks.extraction.discoverable",
        "audit.attacks.extraction.codes",
        "audit.attacks.update.search",
        "audit.metrics.one_run",
        "audit.metrics.one_run_curve",
    ),
    "Answers": ("prediction.budgets", "prediction.predictor", "prediction.evaluation"),
    "Journeys": (
        "runs.settings.declaration",
        "runs.training.settings",
        "runs.training.result",
        "runs.training.run",
        "runs.ensemble.run",
        "runs.ensemble.prediction",
        "audit.subject",
        "audit.settings",
        "runs.audit.subject",
        "runs.audit.plan",
        "runs.audit.run",
        "runs.update.run",
        "runs.report.reading",
        "reporting.page",
        "reporting.markdown",
    ),
}
_WIDEST = 112


def page() -> str:
    """The whole page."""
    parts = [
        "# API",
        "",
        "Generated from signatures and docstrings by `make docs`; do not edit. The modules that callers start",
        "from, with the first sentence of each name. Arguments after `*` are given by name.",
    ]
    for title, modules in MODULES.items():
        parts += ["", f"## {title}"]
        for module in modules:
            parts += _module(module)
    return "\n".join(parts) + "\n"


def _module(name: str) -> list[str]:
    """The heading, the first sentence and the public names of one module."""
    place = ROOT / "src" / "reticent" / Path(*name.split("."))
    file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf8"))
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
