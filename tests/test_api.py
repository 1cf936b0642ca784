"""The public API: the names it offers, that it is light, and that every example in it runs."""

import ast
import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reticent
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus

ROOT = Path(__file__).resolve().parent.parent
# A name that leaves this list breaks somebody's program. Add to it with care.
SNAPSHOT = [
    "BudgetExhausted",
    "Corpus",
    "DpSgd",
    "Finding",
    "Guarantee",
    "Predictor",
    "PrivateStep",
    "Record",
    "ReticentError",
    "UsageError",
    "__version__",
    "audit",
    "bound",
    "dedup",
    "diff",
    "evaluate",
    "load_model",
    "open_corpus",
    "plan",
    "plant",
    "report",
    "scan",
    "scrub",
    "train",
    "verify",
]


def test_the_public_names_are_the_snapshot():
    assert sorted(reticent.__all__) == SNAPSHOT
    assert set(SNAPSHOT) <= set(dir(reticent))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = reticent.trian


def test_type_checkers_see_every_name_where_it_is_loaded_from():
    tree = ast.parse((ROOT / "src" / "reticent" / "__init__.py").read_text(encoding="utf8"))
    typed = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {name: typed[name] for name in reticent._PLACES} == reticent._PLACES
    assert {*reticent._PLACES, "__version__"} == set(reticent.__all__)


def test_importing_reticent_loads_nothing_heavy():
    code = "import sys, reticent; print(*(m for m in ('numpy', 'scipy', 'torch', 'pydantic') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all examples, with two corpora: later examples read what earlier ones wrote."""
    path, before = tmp_path_factory.mktemp("examples"), Path.cwd()
    whole = generate_dialogues(120, randomness=Randomness.seeded(5))
    dialogues = Corpus(Record(one.id, one.text[:160], owner=one.owner) for one in whole)  # short, to be quick
    write_corpus(dialogues[:60], path / "mails.jsonl")
    write_corpus(dialogues[60:], path / "others.jsonl")
    os.chdir(path)
    yield path
    os.chdir(before)


def test_every_public_name_has_an_example_that_runs(folder):
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name in reticent._PLACES:
        value = getattr(reticent, name)
        tests = finder.find(value, name, globs={"reticent": reticent})
        assert sum(len(test.examples) for test in tests), f"{name} has no example"
        for test in tests:
            runner.run(test)
    assert runner.failures == 0
