"""Documents are replaced whole, refuse what JSON cannot say, and name the file that is wrong."""

import math

import pytest

from reticent.core.document import number_to_json, read_document, write_atomically, write_document
from reticent.core.errors import ConfigError


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
