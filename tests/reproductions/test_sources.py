"""The fingerprint of a piece's code: it changes with what is run, and with nothing else."""

import importlib.util
import sys

import pytest

from reproductions import sources
from reproductions.catalogue import experiments
from reproductions.crt import amplification as crt_amplification
from reproductions.experiment import Scale
from reproductions.rdp import ngram as rdp_ngram

MODULE = '''
"""A module."""
import math
from reticent.core.randomness import Randomness

LIMIT = 3

def helper(x):
    """Words."""
    return x + LIMIT  # a comment

def compute(parameters, randomness):
    from reticent.core import sampling
    return helper(Randomness)

def render(results):
    return math.pi
'''


@pytest.fixture
def fingerprint(tmp_path, monkeypatch):
    """The fingerprint of `compute` in a module of this source."""

    def of(source, name="module"):
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        sources._tree.cache_clear()
        sources.source_fingerprint.cache_clear()
        return sources.source_fingerprint(module.compute)

    return of


def test_words_comments_and_rendering_change_nothing(fingerprint):
    first = fingerprint(MODULE)
    assert fingerprint(MODULE.replace("Words", "Others").replace("a comment", "none")) == first
    assert fingerprint(MODULE.replace("math.pi", "math.e")) == first


@pytest.mark.parametrize(
    ("old", "new"),
    [("x + LIMIT", "x - LIMIT"), ("LIMIT = 3", "LIMIT = 4"), ("core import sampling", "core import secret")],
)
def test_what_the_function_names_or_imports_changes_it(fingerprint, old, new):
    assert fingerprint(MODULE.replace(old, new)) != fingerprint(MODULE)


@pytest.mark.parametrize(
    ("public", "inner"),
    [
        ("from reticent.core import Sampling", "from reticent.core.sampling import Sampling"),
        ("from reticent import Record", "from reticent.core.corpus import Record"),
        ("import reticent\nreticent.Record", "import reticent\nfrom reticent.core.corpus import Record"),
        ("from reticent import dedup", "from reticent.runs.corpus import dedup"),
    ],
)
def test_a_public_name_stands_for_the_code_behind_it(public, inner):
    reached = [sources._closure(sources._imported(sources.ast.parse(code))) for code in (public, inner)]
    assert reached[0] == reached[1]
    assert len(reached[0]) > 2


def test_a_name_that_a_package_offers_besides_changes_nothing(fingerprint):
    module = MODULE.replace("core.randomness", "core")
    first = fingerprint(module)
    assert fingerprint(module.replace("Randomness", "Sampling")) != first
    package = sources._file("reticent.core")
    kept = sources.ast.unparse(sources._tree(package))
    assert "Sampling" in package.read_text(encoding="utf8")
    assert "Sampling" not in kept
    assert "lazy_names(__name__, _PLACES)" in kept


def forget():
    sources._module_fingerprint.cache_clear()
    sources.source_fingerprint.cache_clear()


def test_a_change_in_a_module_far_below_changes_it(monkeypatch):
    """The n-gram models reach the random numbers through two other modules."""
    forget()
    before = sources.source_fingerprint(rdp_ngram._measure)
    other = sources.source_fingerprint(crt_amplification._amplify)
    tree = sources._tree
    below = sources._file("reproductions.rdp.digit_models")
    monkeypatch.setattr(sources, "_tree", lambda path: sources.ast.parse("x = 1") if path == below else tree(path))
    forget()
    assert sources.source_fingerprint(rdp_ngram._measure) != before
    assert sources.source_fingerprint(crt_amplification._amplify) == other
    forget()


def test_the_weights_of_the_embedded_model_count(tmp_path):
    modules = sources._closure(["reticent.models.embedded"])
    assert modules == {"reticent.models.embedded", "reticent.models", "reticent"}
    assert any(
        "reticent.models.embedded" in sources._closure(sources._imported(sources._tree(sources._file(name))))
        for name in ("reticent.models.huggingface.loading",)
    )


def test_every_piece_has_a_fingerprint_and_none_depends_on_the_page():
    for experiment in experiments().values():
        for piece in experiment.pieces(Scale.SMALL)[:1]:
            assert len(sources.source_fingerprint(piece.compute)) == 16
    page = "reproductions.page"
    nodes = sources._reachable(sources._tree(sources._file("reproductions.rdp.ngram")), "_measure")
    assert page not in sources._closure(module for node in nodes for module in sources._imported(node))
