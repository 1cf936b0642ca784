"""Repository tests: commands, flags, paths and names that pages, docstrings and hints mention exist.

Pages are read as text and the command line through typer's own description of itself. Pages that are generated or
that list history are left out. Each check is a function of a text, so that a broken page can be shown to fail it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from reticent.cli.main import app
from tests.syntax import nodes_of, tree_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reticent"
GENERATED = {"cli.md", "api.md"}
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*")]
    if path.is_file() and path.name not in GENERATED | {"CHANGELOG.md"} and path.suffix != ".py"
]
SOURCES = sorted([*SOURCE.rglob("*.py"), *ROOT.glob("bench/*.py"), *ROOT.glob("examples/*.py")])
CODE = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(
    r"(?:\breticent|-m reticent\.app\.cli) ([a-z][\w-]*(?: [a-z][\w-]*)?)((?:(?!, )[^\n|#;&`]|\\\n)*)"
)
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
FOLDERS = ("src", "tests", "docs", "bench", "examples", "scripts")
PACKAGES = {path.name for path in (ROOT / "src" / "reticent").iterdir() if path.is_dir()}
MODULE = re.compile(r"[a-z_]+/(?:[a-z_]+/)*(?:[a-z_]+\.py)?")  # server/http/guard.py, data/reading/


# ---------------------------------------------------------------- commands and flags


@cache
def verbs() -> dict[str, set[str]]:
    """The flags of every verb, those of `bound` and alike under two words."""
    found: dict[str, set[str]] = {}

    def walk(command, words: tuple[str, ...]) -> None:
        flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        found[" ".join(words)] = {flag for flag in flags if flag.startswith("-")} | {"--help"}
        for name, child in getattr(command, "commands", {}).items():
            walk(child, (*words, name))
            if words:  # `reticent bound … --json` speaks of all its verbs
                found[" ".join(words)] |= found[" ".join((*words, name))]

    walk(typer.main.get_command(app), ())
    return found


def groups() -> set[str]:
    """Verbs that have verbs of their own."""
    return {verb.split()[0] for verb in verbs() if " " in verb}


def false_commands(text: str, *, is_strict: bool = True) -> list[str]:
    """Commands of a text that the command line does not know, or flags that their verbs do not have.

    Prose may say "reticent is": where not strict, a word that is no verb is taken for prose.
    """
    wrong = []
    for words, rest in COMMAND.findall(text):
        verb = next((each for each in (words, words.split()[0]) if each in verbs()), None)
        is_path = rest.startswith(("/", "."))
        if verb is None or (verb in groups() and verb != words and not is_path):
            wrong += [words] if is_strict or verb else []
            continue
        wrong += [f"{verb} {flag}" for flag in FLAG.findall(rest) if flag not in verbs()[verb]]
    return wrong


def commands_of(page: str) -> str:
    """The parts of a page that are typed: fenced blocks and inline code."""
    blocks = re.findall(r"^```(?:console|bash|sh|yaml|ini)?\n(.*?)^```", page, flags=re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if re.match(r"\s*(\w*[$>] |\w+=|- )?", line)]
    return "\n".join([*lines, *CODE.findall(re.sub(r"^```.*?^```", "", page, flags=re.M | re.S))])


def unknown_flags(page: str) -> list[str]:
    """Flags that inline code mentions by themselves and that no verb has."""
    known = set().union(*verbs().values())
    return [
        flag
        for code in CODE.findall(page)
        if code.startswith("--")
        for flag in FLAG.findall(code)
        if flag not in known
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_flags_of_a_page_exist(path):
    page = path.read_text(encoding="utf8")
    typed = commands_of(page) if path.suffix == ".md" else page
    assert false_commands(typed, is_strict=path.suffix == ".md") == []
    assert unknown_flags(page) == []


def test_commands_and_flags_that_the_code_advises_exist():
    wrong = {}
    for path in SOURCES:
        texts = "\n".join(n.value for n in nodes_of(path.read_text(encoding="utf8")) if _is_text(n))
        if found := [*false_commands(texts, is_strict=False), *unknown_flags(texts)]:
            wrong[str(path.relative_to(ROOT))] = found
    assert wrong == {}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


# ---------------------------------------------------------------- paths and names


def missing_paths(page: str) -> list[str]:
    """Files that inline code names, from the root of the repository or the package, and that are not there."""
    codes = [code.split("::")[0] for code in CODE.findall(page) if " " not in code]
    found = [code for code in codes if code.split("/")[0] in FOLDERS]
    found += [f"src/reticent/{code}" for code in codes if MODULE.fullmatch(code) and code.split("/")[0] in PACKAGES]
    return [path for path in found if "*" not in path and "…" not in path and not (ROOT / path).exists()]


@cache
def modules() -> dict[str, dict[str, set[str]]]:
    """Top-level names of every module with the members of each, by dotted path below the package."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        names: dict[str, set[str]] = {}
        for node in tree_of(path.read_text(encoding="utf8")).body:
            names |= dict(_defined(node))
        found[".".join(path.relative_to(SOURCE).with_suffix("").parts)] = names
    return found


def _defined(node: ast.stmt) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name, set()
    elif isinstance(node, ast.ClassDef):
        yield node.name, {name for child in node.body for name, _ in _defined(child)} | _attributes(node)
    elif isinstance(node, ast.Assign):
        yield from ((target.id, set()) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, set()
    elif isinstance(node, ast.ImportFrom):
        yield from ((alias.asname or alias.name, set()) for alias in node.names)


def _attributes(node: ast.ClassDef) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}


DOTTED = re.compile(r"(?:reticent\.)?([a-z]\w*(?:\.\w+)+)(?:\(.*\))?")


@cache
def stems() -> set[str]:
    """Names of modules and packages, without what they are in."""
    return {part for name in modules() for part in name.split(".")}


def missing_names(page: str) -> list[str]:
    """Dotted names in inline code that begin with a module or package of ours and lead nowhere."""
    wrong = []
    for code in CODE.findall(page):
        found = DOTTED.fullmatch(code)
        if (
            found
            and found[1].split(".")[0] in stems()
            and not code.endswith(_FILES)
            and not _leads(found[1].split("."))
        ):
            wrong.append(code)
    return wrong


_FILES = (
    ".py",
    ".md",
    ".json",
    ".db",
    ".toml",
    ".jsonl",
    ".html",
    ".head",
    ".key",
    ".txt",
    ".safetensors",
    ".usage",
)


def _leads(parts: list[str]) -> bool:
    """Whether some module's path ends with the first parts, and holds the rest."""
    for split in range(len(parts), 0, -1):
        ending, rest = parts[:split], parts[split:]
        for name, names in modules().items():
            path = name.removesuffix(".__init__").split(".")
            if path[-split:] != ending and not (not rest and ".".join(ending) in name):
                continue
            if not rest or (rest[0] in names and (len(rest) == 1 or rest[1] in names[rest[0]])):
                return True
    return len(parts) == 2 and parts[1] in members()  # a variable named as a module is: `model.end_token`


@cache
def members() -> set[str]:
    """Names of methods, fields and properties of all classes."""
    return {name for names in modules().values() for held in names.values() for name in held}


@pytest.mark.parametrize("path", [p for p in PAGES if p.suffix == ".md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_and_names_of_a_page_exist(path):
    page = path.read_text(encoding="utf8")
    assert missing_paths(page) == []
    assert missing_names(page) == []


def test_names_in_docstrings_exist():
    wrong = {}
    for path in SOURCES:
        nodes = nodes_of(path.read_text(encoding="utf8"))
        kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
        if found := [each for text in texts for each in (*missing_names(text), *missing_paths(text))]:
            wrong[str(path.relative_to(ROOT))] = found
    assert wrong == {}


# ---------------------------------------------------------------- broken pages are caught


def test_a_page_that_names_what_is_not_there_is_caught():
    assert false_commands("reticent audits x") == ["audits x"]
    assert false_commands("$ reticent audit m --by-coins --train a") == ["audit --by-coins"]
    assert false_commands("$ reticent ledger reanchors RUN --nothing-was-released")
    assert false_commands("reticent keeps models from telling", is_strict=False) == []
    assert unknown_flags("give `--no-such-flag`") == ["--no-such-flag"]
    assert missing_paths("see `docs/nothing.md`") == ["docs/nothing.md"]
    assert missing_paths("`runs/nothing.py`, `data/reading/`, `core/event.py`") == ["src/reticent/runs/nothing.py"]
    assert missing_names("`ledger.Lease` and `training.distributed.sharded`") == ["ledger.Lease"]
    assert missing_names("`ledger.durable.DurableLedger.charge`, `numpy.array`, `ledger.db`") == []
