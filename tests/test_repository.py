"""Repository tests: the layers, no torch on import, the README's tree, no forbidden words."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import reticent
from reticent.runs.audit.registry import OPT_IN, USUAL, every_attack
from reticent.runs.audit.settings import AuditSettings
from tests.syntax import nodes_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reticent"

LAYER = {
    "core": 0,
    "accounting": 1,
    "ledger": 1,
    "data": 1,
    "models": 1,
    "auditing": 2,
    "training": 2,
    "prediction": 2,
    "reporting": 2,
    "engine": 2,
    "runs": 3,
    "server": 4,
    "cli": 5,
}
# Reporting renders nouns alone: it must work where nothing but the nouns is installed.
ONLY = {"reporting": {"core"}}
TORCH = {"torch", "transformers", "peft"}
TORCH_LAYERS = {"models", "training", "runs", "server"}


def imported_modules(path: Path) -> set[str]:
    """Every module a file imports, inside functions and under TYPE_CHECKING included."""
    modules = set()
    for node in nodes_of(path.read_text(encoding="utf8")):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            modules.add("." * node.level + module)
            if module == "reticent":
                modules |= {f"reticent.{alias.name}" for alias in node.names if alias.name != "__version__"}
    return modules


def broken_imports(package: str, modules: set[str]) -> list[str]:
    """The imports that a file of `package` must not have."""
    broken = []
    for module in modules:
        if module.startswith("."):
            broken.append(f"{module}: relative")
        if module.split(".")[0] in TORCH and package not in TORCH_LAYERS:
            broken.append(f"{module}: torch in {package}")
        if module.startswith("reticent."):
            other = module.split(".")[1]
            if other == package:
                continue
            allowed = ONLY.get(package)
            if LAYER.get(other, 9) >= LAYER[package] or (allowed is not None and other not in allowed):
                broken.append(f"{module}: {package} is not above {other}")
    return broken


SOURCES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_strictly_downward(path):
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:
        # The public API stands above all layers but the server and the command line; that it loads nothing at
        # import has a test of its own.
        own = {module for module in imported_modules(path) if module.startswith("reticent.")}
        if path.name == "__main__.py":
            assert own == {"reticent.cli.main"}
        else:
            assert not [module for module in own if module.split(".")[1] in ("server", "cli")]
        return
    assert broken_imports(parts[0], imported_modules(path)) == []


def test_layer_check_catches_sideways_upward_relative_and_torch_imports():
    assert broken_imports("data", {"reticent.models.lstm.model"})
    assert broken_imports("core", {"reticent.accounting.rdp"})
    assert broken_imports("training", {".loop"})
    assert broken_imports("accounting", {"torch.nn"})
    assert broken_imports("reporting", {"reticent.accounting.bounds.ceiling"})
    assert not broken_imports("training", {"reticent.core.event", "reticent.models.lstm.model", "torch"})


def test_layer_check_sees_imports_inside_functions(tmp_path):
    path = tmp_path / "sneaky.py"
    path.write_text("def f():\n    from reticent import cli\n    import reticent.cli.main\n")
    assert {"reticent.cli", "reticent.cli.main"} <= imported_modules(path)


def modules_after(code: str) -> set[str]:
    """Names of all modules loaded after running `code` in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_and_its_light_layers_never_imports_torch():
    code = (
        "import reticent, reticent.core, reticent.accounting, reticent.data, reticent.reporting, reticent.cli.main"
    )
    assert not TORCH & modules_after(code)


# Third-party packages that the light commands may import, whatever else is installed. What is not here (torch,
# numba, pyarrow, scipy.stats, ...) is imported inside the function that needs it.
HELP = {"rich", "typer", "click", "shellingham", "annotated_doc", "annotated_types", "numpy", "cython_runtime"}
HELP |= {"pydantic", "pydantic_core", "typing_inspection", "typing_extensions"}
BOUND = {*HELP, "scipy"}
HEAVY_SCIPY = {"scipy.stats", "scipy.signal", "scipy.ndimage"}  # half a second and more, each


def third_party(modules: set[str]) -> set[str]:
    """Top-level packages that neither the standard library nor we bring, without nameless compiled parts."""
    tops = {module.partition(".")[0] for module in modules}
    return {top for top in tops if not top.startswith("_")} - set(sys.stdlib_module_names) - {"reticent"}


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import reticent", set()),
        ("from reticent.cli.main import run; run(['--help'])", HELP),
        (
            "from reticent.cli.main import run; run('bound dp-sgd --noise-multiplier 1 --sampling-rate 0.1 "
            "--steps 9 --secret-bits 20'.split())",
            BOUND,
        ),
    ],
    ids=["import", "help", "bound"],
)
def test_light_commands_import_light_packages_alone(code, allowed):
    loaded = modules_after(f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    {code}")
    assert third_party(loaded) <= allowed
    assert not HEAVY_SCIPY & loaded


def locked(name: str) -> dict[str, str]:
    """Pins of a lock file with the lines of their hashes."""
    text = (ROOT / name).read_text(encoding="utf8")
    return dict(re.findall(r"^([\w.-]+==[\w.!+]+)(.*(?:\n +.*)*)", text, flags=re.MULTILINE))


def test_every_locked_version_has_its_hashes_and_the_demo_takes_its_own_from_the_whole():
    everything, demo = locked("requirements.lock"), locked("requirements-demo.lock")
    assert len(everything) > len(demo) > 40
    unhashed = [pin for pin, hashes in {**everything, **demo}.items() if "--hash=sha256:" not in hashes]
    assert not unhashed, "run `make lock`"
    assert set(demo) <= set(everything)
    assert not [pin for pin in everything if pin.startswith("torch==")]  # the Makefile pins it, without a hash


def test_no_file_name_says_nothing():
    nameless = {"utils", "util", "helpers", "common", "misc", "base", "manager", "handler"}
    assert not [path for path in SOURCES if path.stem in nameless]


def opened_without_encoding(code: str) -> list[int]:
    """Lines that open, read or write a text file in whatever encoding the locale has."""
    found = []
    for node in nodes_of(code):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        given = [*node.args, *(word.value for word in node.keywords)]
        texts = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        is_named = any(word.arg in ("encoding", None) for word in node.keywords) or "utf8" in texts
        opens = isinstance(node.func, ast.Name) and name == "open"
        is_binary = any("b" in text for text in texts if set(text) <= set("rwxab+t"))
        if not is_named and (name in ("read_text", "write_text") or (opens and not is_binary)):
            found.append(node.lineno)
    return found


def test_every_text_file_is_opened_in_a_named_encoding():
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]):
        assert opened_without_encoding(path.read_text(encoding="utf8")) == [], path


def test_the_check_of_encodings_catches_a_file_opened_by_locale():
    broken = 'open("a")\nopen("a", "rb")\npath.read_text()\npath.write_text("b")\npath.read_text("utf8")'
    assert opened_without_encoding(broken) == [1, 3, 4]


def test_readme_tree_equals_the_tree():
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    listed = set(re.findall(r"^[├└]── (\w+)/", readme, flags=re.MULTILINE))
    assert listed == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    for folder in ("tests", "bench", "docs", "scripts", "reproductions", "examples"):
        assert f"{folder}/" in readme


def test_relative_links_of_the_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert len(pages) >= 4
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


METRIC_FILE = SOURCE / "core" / "metric.py"


def metric_literals(code: str) -> list[str]:
    """Metric names that a file writes out: whole names, beginnings of parametrised ones, and `metric=` literals.

    A name of one word (`exposure`, `auc`) is also that of an attack or a key, so it counts where a metric is asked
    for: as an argument `metric=` and in a comparison with an attribute `metric`.
    """
    from reticent.core.metric import METRICS

    stems = tuple(metric.name.split("{")[0] for metric in METRICS if "{" in metric.name)
    whole = {metric.name for metric in METRICS if "_" in metric.name and "{" not in metric.name}
    found = []
    for node in nodes_of(code):
        if (
            isinstance(node, ast.keyword)
            and node.arg == "metric"
            and isinstance(node.value, ast.Constant | ast.JoinedStr)
        ):
            found.append(ast.unparse(node.value))
        elif isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "metric":
            found += [ast.unparse(one) for one in node.comparators if isinstance(one, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found += [node.value] if node.value in whole or node.value.startswith(stems) else []
    return found


def test_a_metric_is_declared_once_and_named_nowhere_else_in_the_package():
    written = {
        str(path.relative_to(SOURCE)): literals
        for path in SOURCES
        if path != METRIC_FILE and (literals := metric_literals(path.read_text(encoding="utf8")))
    }
    assert written == {}


def test_the_metric_check_sees_whole_names_beginnings_arguments_and_comparisons():
    for code in (
        "x = 'emitted_share'",
        "x = f'tpr_at_fpr_{rate:g}'",
        "Finding(metric='auc')",
        "x = finding.metric == 'exposure'",
    ):
        assert metric_literals(code) != []
    assert metric_literals("name = 'exposure'\nlist_of = {'auc': 1}\n") == []


# ---------------------------------------------------------------- the papers are reproduced by public names alone


def inner_imports(code: str) -> list[str]:
    """What a program takes from reticent that is no public name, within functions too."""
    found = []
    for node in nodes_of(code):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("reticent.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "reticent":
            offered = getattr(import_module(node.module), "__all__", ()) if node.module.count(".") < 2 else ()
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in offered]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "reticent":
            found += [] if node.attr in (*reticent.__all__, "__name__") else [f"reticent.{node.attr}"]
    return found


OUTSIDE = sorted([*(ROOT / "reproductions").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(ROOT)))
def test_reproductions_and_examples_import_public_names_alone(path):
    assert inner_imports(path.read_text(encoding="utf8")) == []


def test_the_check_of_public_names_sees_modules_private_names_and_imports_inside_functions():
    assert inner_imports("def f():\n    from reticent.core.event import Gaussian\n") == [
        "reticent.core.event.Gaussian"
    ]
    assert inner_imports("import reticent.core.event as event\n") == ["reticent.core.event"]
    assert inner_imports("from reticent.core import Gaussian, event\n") == ["reticent.core.event"]
    assert inner_imports("from reticent.core.lazy_names import *\n") == ["reticent.core.lazy_names.*"]
    assert inner_imports("from reticent import core\n") == ["reticent.core"]
    assert inner_imports("import reticent\nreticent.core.event.Gaussian(1.0)\n") == ["reticent.core"]
    assert inner_imports("import reticent\nfrom reticent import train\nfrom reticent.core import Gaussian\n") == []


# ---------------------------------------------------------------- an option is declared once


def flags_outside_settings(code: str) -> list[int]:
    """Lines of a file that declare a flag by hand: a call of Option or Argument, or of argparse's add_argument."""
    calls = [node for node in nodes_of(code) if isinstance(node, ast.Call)]
    names = [(getattr(call.func, "attr", getattr(call.func, "id", "")), call.lineno) for call in calls]
    return [line for name, line in names if name in ("Option", "Argument", "add_argument")]


def test_no_flag_is_declared_outside_a_settings_class():
    allowed = {"flags.py": 2, "main.py": 1}  # where flags are made from settings, and --version
    files = [*(SOURCE / "cli").glob("*.py"), *(SOURCE / "server").glob("*.py"), ROOT / "reproductions/__main__.py"]
    found = {path.name: len(flags_outside_settings(path.read_text(encoding="utf8"))) for path in files}
    assert {name: count for name, count in found.items() if count} == allowed


def test_the_check_for_flags_sees_one_that_is_written_by_hand():
    assert flags_outside_settings("import typer\nx = typer.Option('--x')\n") == [2]
    assert flags_outside_settings("from typer import Argument as A, Argument\ny = Argument()\n") == [2]


def settings_of_verbs() -> dict[str, type]:
    """The settings class of every verb, by the words of the command."""
    import typer

    from reticent.cli.main import app

    found: dict[str, type] = {}

    def walk(command, words):
        if hasattr(command.callback, "settings"):
            found[" ".join(words)] = command.callback.settings
        for name, child in getattr(command, "commands", {}).items():
            walk(child, (*words, name))

    walk(typer.main.get_command(app), ())
    return found


def test_every_flag_of_every_verb_comes_from_its_settings_class():
    import typer

    from reticent.cli.main import app
    from reticent.runs.settings.declaration import declared_in

    settings = settings_of_verbs()
    assert len(settings) >= 20

    def walk(command, words):
        children = getattr(command, "commands", {})
        if not children:
            options = {each.flag: each for each in declared_in(settings[" ".join(words)])}
            flags = {flag for one in command.params for flag in one.opts if flag.startswith("--")} - {"--help"}
            assert flags == {flag for flag in options if flag.startswith("--")}
            assert all(each.option.help.endswith((".", "…")) for each in options.values()), words
        for name, child in children.items():
            walk(child, (*words, name))

    walk(typer.main.get_command(app), ())


def test_settings_classes_never_import_torch():
    assert not TORCH & modules_after("import reticent.cli.main")


def test_the_files_of_init_parse_and_show_every_setting_of_training():
    import tomllib

    from reticent.runs.settings.declaration import declared_in
    from reticent.runs.settings.file import validate
    from reticent.runs.settings.starter import _JOURNEYS, Journey, config_text
    from reticent.runs.training.settings import TrainSettings

    options = [each for each in declared_in(TrainSettings) if each.option.in_file]
    covered: set[tuple[str, ...]] = set()
    for journey in Journey:
        text = config_text(journey, name="x.toml")
        validate(TrainSettings, tomllib.loads(text), where=journey.value).check()
        shown: set[tuple[str, ...]] = set()
        table: tuple[str, ...] = ()
        for line in text.splitlines():
            if named := re.fullmatch(r"\[(\w+)\]", line):
                table = (named[1],)
            elif named := re.match(r"(?:# )?([a-z_]+) = ", line):
                shown.add((*table, named[1]))
        method = _JOURNEYS[journey][1]
        assert shown == {one.path for one in options if not one.option.methods or method in one.option.methods}
        covered |= shown
    assert covered == {each.path for each in options}


def test_the_help_of_attacks_lists_every_attack_of_the_registry_and_no_other():
    said = AuditSettings.model_fields["attacks"].description or ""
    usual, opt_in = (part.split(".")[0].split(", ") for part in (said.split("all: ")[1], said.split("named: ")[1]))
    assert [*usual, *opt_in] == list(every_attack())
    assert (usual, opt_in) == (list(USUAL), list(OPT_IN))
