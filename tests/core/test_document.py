"""Documents are replaced whole, refuse what JSON cannot say, and name the file that is wrong."""

import json
import math
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import ClassVar

import pytest

from reticent.core.corpus import Record
from reticent.core.document import (
    ADDED_LATER,
    UNLESS_DEFAULT,
    UNWRITTEN,
    JsonObject,
    as_json,
    called,
    fields_from_json,
    fields_to_json,
    number_to_json,
    read_document,
    write_atomically,
    write_document,
)
from reticent.core.errors import ConfigError
from reticent.core.secret import Secret


def test_written_document_reads_back(tmp_path):
    write_document(tmp_path / "deep" / "d.json", {"ε": [1, 2.5, "inf"]})
    assert read_document(tmp_path / "deep" / "d.json") == {"ε": [1, 2.5, "inf"]}
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["d.json"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_outside_json_leave_the_old_document(tmp_path, bad):
    path = tmp_path / "d.json"
    write_document(path, {"value": 1})
    with pytest.raises(ValueError):
        write_document(path, {"value": bad})
    assert read_document(path) == {"value": 1}


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_mode_is_set_before_the_file_appears(tmp_path):
    write_atomically(tmp_path / "key", b"k", mode=0o600)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b""])
def test_unreadable_documents_are_named(tmp_path, content):
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"d\.json"):
        read_document(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_document(tmp_path / "absent.json")


def test_nan_is_never_written():
    assert number_to_json(math.inf) == "inf"
    assert number_to_json(-math.inf) == "-inf"
    assert number_to_json(None) is None
    with pytest.raises(ValueError, match="NaN"):
        number_to_json(math.nan)


class Colour(StrEnum):
    RED = "bright red"


class Depth(IntEnum):
    FLAT = 0
    VERY_DEEP = 1


@dataclass(frozen=True, slots=True)
class Point(JsonObject):
    x: float
    y: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing(JsonObject):
    schema_version: ClassVar = 3
    colour: Colour
    depth: Depth = Depth.FLAT
    name: str = field(default="", metadata=called("title"))
    points: tuple[Point, ...] = ()
    range: tuple[float, float] = (0.0, math.inf)
    sizes: dict[str, int] = field(default_factory=dict)
    note: str | None = field(default=None, metadata=UNLESS_DEFAULT)
    is_new: bool = field(default=True, metadata=ADDED_LATER)
    cached: list[int] = field(default_factory=list, metadata=UNWRITTEN)


DRAWING = Drawing(colour=Colour.RED, depth=Depth.VERY_DEEP, name="a", points=(Point(1.5), Point(-math.inf, 2)))


def test_fields_are_written_in_their_order_and_as_they_are_declared():
    document = DRAWING.to_json()
    assert json.dumps(document) == (
        '{"schema_version": 3, "colour": "bright red", "depth": "very_deep", "title": "a",'
        ' "points": [{"x": 1.5, "y": null}, {"x": "-inf", "y": 2}], "range": [0.0, "inf"], "sizes": {},'
        ' "is_new": true}'
    )
    assert Drawing(colour=Colour.RED, note="here").to_json()["note"] == "here"


def test_what_is_given_stands_in_place_of_a_field_or_comes_last():
    document = fields_to_json(Point(1.0, 2.0), x=Colour.RED, length=math.inf)
    assert json.dumps(document) == '{"x": "bright red", "y": 2.0, "length": "inf"}'


def test_what_was_written_is_read_back():
    for drawing in (DRAWING, Drawing(colour=Colour.RED, note="here", sizes={"a": 1}, is_new=False)):
        document = json.loads(json.dumps(drawing.to_json()))
        assert fields_from_json(Drawing, document) == drawing
        del document["is_new"]
        assert fields_from_json(Drawing, document).is_new
        assert json.dumps(fields_from_json(Drawing, document | {"is_new": drawing.is_new}).to_json()) == json.dumps(
            drawing.to_json()
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("colour", "blue"),
        ("depth", "deep"),
        ("title", None),
        ("title", 1),
        ("points", {}),
        ("points", [[1, 2]]),
        ("points", [{"x": True, "y": None}]),
        ("points", [{"x": "1.5", "y": None}]),
        ("points", [{"x": 1.5}]),
        ("range", [0.0]),
        ("sizes", []),
        ("is_new", 1),
        ("name", "a"),
        ("cached", []),
    ],
)
def test_a_document_that_somebody_edited_is_refused(key, value):
    document = DRAWING.to_json()
    with pytest.raises((TypeError, ValueError, KeyError)):
        fields_from_json(Drawing, document | {key: value})


def test_a_field_may_be_missing_only_where_it_says_so():
    document = DRAWING.to_json()
    for key in set(document) - {"schema_version", "is_new"}:
        with pytest.raises(KeyError):
            fields_from_json(Drawing, {name: each for name, each in document.items() if name != key})


def test_other_fields_are_ignored_where_the_reader_says_so():
    assert fields_from_json(Drawing, DRAWING.to_json() | {"other": 1}, ignores_others=True) == DRAWING


@pytest.mark.parametrize(
    "value", [Secret("4711", "code"), Record("id", "text"), {"a": [object()]}, b"bytes", {1, 2}, 1j, math.nan]
)
def test_nothing_but_what_was_declared_gets_into_json(value):
    with pytest.raises((TypeError, ValueError)):
        as_json(value)


def test_paths_and_keys_are_written_as_text():
    assert as_json({Colour.RED: (Path("a/b"), None, True)}) == {"bright red": ["a/b", None, True]}
