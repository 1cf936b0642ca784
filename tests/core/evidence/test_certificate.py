"""`guarantee.json`: bound to the files it was written beside."""

import json
from pathlib import Path

import pytest

from reticent.core.errors import GuaranteeError
from reticent.core.evidence.certificate import GUARANTEE, Certificate, model_digest
from reticent.core.ledger import Receipt
from tests.claims import claim


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("anything")
    return tmp_path


def test_a_certificate_is_read_as_it_was_written(folder: Path) -> None:
    written = Certificate(claim(2.0), model_digest(folder), Receipt(7, "abc"))
    written.write(folder)
    assert Certificate.read(folder) == written
    Certificate.read(folder).require_weights(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "merges.txt", "tokenizer.model"])
def test_changed_weights_or_settings_are_not_what_was_certified(folder: Path, name: str) -> None:
    Certificate(claim(2.0), model_digest(folder)).write(folder)
    (folder / name).write_bytes(b"other")
    with pytest.raises(GuaranteeError, match="not written for the weights"):
        Certificate.read(folder).require_weights(folder)


def test_added_removed_and_renamed_weights_are_noticed(folder: Path) -> None:
    before = model_digest(folder)
    (folder / "more.safetensors").write_bytes(b"")
    assert model_digest(folder) != before
    (folder / "more.safetensors").unlink()
    assert model_digest(folder) == before
    (folder / "config.json").rename(folder / "settings.json")
    assert model_digest(folder) != before


def test_neither_the_certificate_itself_nor_notes_count_as_weights(folder: Path) -> None:
    before = model_digest(folder)
    (folder / GUARANTEE).write_text("{}")
    (folder / "notes.txt").write_text("something else")
    assert model_digest(folder) == before


def test_a_promise_without_weights_is_no_certificate_of_weights(folder: Path) -> None:
    Certificate(claim(2.0)).write(folder)
    with pytest.raises(GuaranteeError, match="no weights named"):
        Certificate.read(folder).require_weights(folder)


def test_an_adapter_is_certified_with_the_model_under_it(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "model.safetensors").write_bytes(b"public weights")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    Certificate(claim(2.0)).bound_to(folder).write(folder)
    Certificate.read(folder).require_weights(folder)
    (base / "model.safetensors").write_bytes(b"weights that saw it")
    with pytest.raises(GuaranteeError, match="not the one it was trained on"):
        Certificate.read(folder).require_weights(folder)
    (base / "model.safetensors").unlink()
    base.rmdir()
    with pytest.raises(GuaranteeError, match="no such folder"):
        Certificate.read(folder).require_weights(folder)


def test_of_two_bases_of_one_name_the_one_that_loading_takes_is_certified(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the adapter first, as `models.huggingface.loading` looks for it, then in the working directory."""
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    for place in (folder / "base", here / "base"):
        place.mkdir()
        (place / "model.safetensors").write_bytes(b"public weights")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "base"}))
    Certificate(claim(2.0)).bound_to(folder).write(folder)
    (here / "base" / "model.safetensors").write_bytes(b"weights that nobody loads")
    Certificate.read(folder).require_weights(folder)
    (here / "base" / "model.safetensors").write_bytes(b"public weights")
    (folder / "base" / "model.safetensors").write_bytes(b"weights that saw it")
    with pytest.raises(GuaranteeError, match="not the one it was trained on"):
        Certificate.read(folder).require_weights(folder)
