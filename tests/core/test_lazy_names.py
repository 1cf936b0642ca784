"""Lazy names: loaded once, when they are first used; listed before that; a wrong one is an error."""

import sys
from types import ModuleType

import pytest

from reticent.core.lazy_names import lazy_names, names_by_module


@pytest.fixture
def package(monkeypatch):
    """A package that offers two names of the standard library's modules."""
    made = ModuleType("offering")
    monkeypatch.setitem(sys.modules, "offering", made)
    places = {"OrderedDict": "collections", "missing": "collections"}
    made.__getattr__, made.__dir__ = lazy_names("offering", places)
    return made


def test_a_name_is_loaded_when_it_is_first_used_and_kept(package):
    assert "OrderedDict" not in vars(package)
    assert "OrderedDict" in dir(package)
    assert package.OrderedDict is vars(package)["OrderedDict"]


def test_a_name_that_is_not_offered_or_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'offering' has no attribute 'other'"):
        _ = package.other
    with pytest.raises(AttributeError, match="missing"):
        _ = package.missing


def test_names_are_listed_by_module():
    assert names_by_module("a", {"b": "C D", "e.f": "G"}) == {"C": "a.b", "D": "a.b", "G": "a.e.f"}
