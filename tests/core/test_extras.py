"""Extras: the table agrees with pyproject.toml, and what is missing is one line with its command."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from reticent.core.errors import MissingExtra
from reticent.core.extras import EXTRA_OF, optional_imports, require

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = {"train", "serve", "pii", "postgres", "ray", "gguf", "plot", "track"}


def names(requirements):
    """Distributions that requirements name, without ours."""
    found = {re.match(r"[\w.-]+", line).group().lower().replace("_", "-") for line in requirements}
    return found - {"reticent"}


installed = cache(importlib.metadata.packages_distributions)


def modules_of(distributions):
    """Modules of EXTRA_OF that the distributions hold."""
    held = installed()
    normal = {module: {name.lower().replace("_", "-") for name in held.get(module, ())} for module in EXTRA_OF}
    return {module for module, holders in normal.items() if holders & distributions}


def test_every_extra_brings_the_modules_that_the_table_says():
    for module, extra in EXTRA_OF.items():
        assert module in modules_of(names(EXTRAS[extra])), module


def test_everything_an_extra_brings_is_in_the_table():
    for extra in FOR_USERS:
        distributions = names(EXTRAS[extra])
        assert len(modules_of(distributions)) == len(distributions), extra


def test_the_base_holds_nothing_optional_and_all_holds_every_extra():
    assert not modules_of(names(PROJECT["dependencies"]))
    (everything,) = EXTRAS["all"]
    assert set(re.search(r"\[(.*)\]", everything).group(1).split(",")) == FOR_USERS


@pytest.mark.parametrize("module", EXTRA_OF)
def test_a_hidden_module_is_one_line_with_the_exact_command(module, monkeypatch):
    for use in (lambda: require(module, purpose="this"), lambda: imported(module)):
        # Found again before the test ends: plug-ins that seed torch between tests import it.
        with monkeypatch.context() as hiding:
            hiding.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtra, match=f"this needs the package '{module}'") as caught:
                use()
        assert caught.value.hint == f"pip install 'reticent[{EXTRA_OF[module]}]'"


def imported(module):
    with optional_imports("this"):
        __import__(module)


def test_a_missing_module_of_ours_is_not_called_an_extra():
    with pytest.raises(ModuleNotFoundError), optional_imports("this"):
        __import__("reticent.no_such_module")


BASE_ALONE = """
import sys
from reticent.core.extras import EXTRA_OF

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRA_OF:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden())
from reticent.cli.main import run
for line in sys.stdin:
    print(run(line.split()), flush=True)
"""


def test_the_base_alone_bounds_and_names_the_extra_that_each_other_verb_needs(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"text": "hello"}\n' * 9, encoding="utf8")
    (tmp_path / "run").mkdir()
    asked = {
        "train --data corpus.jsonl --model embedded --method sgd --out new": "train",
        "serve run --epsilon 1 --delta 1e-5": "serve",
        "bound dp-sgd --noise-multiplier 1 --sampling-rate 0.1 --steps 9 --plot bits.svg": "plot",
        "audit http://127.0.0.1:9#model --train corpus.jsonl --holdout corpus.jsonl --out found": "train",
        "demo --out story": "train",
    }
    bounds = "bound dp-sgd --noise-multiplier 1 --sampling-rate 0.1 --steps 9"
    command = [sys.executable, "-c", BASE_ALONE]
    lines = "\n".join([bounds, *asked])
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=tmp_path, check=True)
    codes = [line for line in done.stdout.splitlines() if line.isdecimal()]
    assert codes == ["0"] + ["2"] * len(asked)
    for line, extra in zip(done.stderr.splitlines(), asked.values(), strict=True):
        assert f"pip install 'reticent[{extra}]'" in line
