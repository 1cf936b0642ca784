"""Directories of models by somebody who wants their code run, other files read, or the loader to hang."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reticent.core.errors import ModelError
from reticent.models.ensemble.stack import read_adapter
from reticent.models.huggingface.checkpoint import check_directory
from reticent.models.huggingface.loading import load_model
from tests.models.tiny import tiny_gpt2, tiny_lora, tiny_tokenizer

INDEX = "model.safetensors.index.json"


class Opened:
    """Pickled: leaves a mark when it is opened."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "base"
    tiny_gpt2().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def saved(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "base")


def write(folder, name, document):
    (folder / name).write_text(json.dumps(document))


def edit(folder, name, **entries):
    path = folder / name
    write(folder, name, (json.loads(path.read_text()) if path.exists() else {}) | entries)


def shard(folder, target):
    """The weights behind an index that names `target`, beside a harmless file of a trusted name."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").rename(folder / "model-harmless.safetensors")
    write(folder, INDEX, {"metadata": {}, "weight_map": dict.fromkeys(weights, target)})


def refused(folder):
    with pytest.raises(ModelError) as caught:
        load_model(folder, device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_index_cannot_lead_to_pickled_weights(saved, tmp_path):
    torch.save(Opened(tmp_path / "mark"), saved / "weights.bin")
    shard(saved, "weights.bin")
    assert "weight_map" in refused(saved)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "target", ["../outside.safetensors", "/etc/passwd", "sub/x.safetensors", "", ".", "a\\b.safetensors"]
)
def test_an_index_cannot_lead_out_of_the_directory(saved, target, tmp_path):
    shutil.copy(saved / "model.safetensors", tmp_path / "outside.safetensors")
    shard(saved, target)
    assert "weight_map" in refused(saved)


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 7}}']
)
def test_an_index_that_is_none_is_refused(saved, content):
    (saved / "model.safetensors").rename(saved / "model-00001.safetensors")
    (saved / INDEX).write_text(content)
    refused(saved)


def test_a_missing_shard_is_named(saved):
    shard(saved, "model-00001-of-00001.safetensors")
    assert "missing" in refused(saved)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_a_shard_must_be_a_regular_file(saved, make):
    shard(saved, "model-00001-of-00001.safetensors")
    make(saved / "model-00001-of-00001.safetensors")
    assert "missing" in refused(saved)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "config.json"])
def test_no_file_that_the_libraries_read_may_be_a_link_out_of_the_directory(saved, tmp_path, name):
    outside = tmp_path / f"outside-{name}"
    (saved / name).rename(outside)
    (saved / name).symlink_to(outside)
    assert "link" in refused(saved)
    (saved / name).unlink()
    outside.rename(saved / f"inside-{name}")
    (saved / name).symlink_to(f"inside-{name}")
    check_directory(saved)


def test_a_true_index_loads(saved):
    shard(saved, "model-harmless.safetensors")
    assert load_model(saved, device="cpu").vocabulary_size


def test_a_link_out_of_the_directory_is_refused_and_the_hub_s_own_is_not(saved, tmp_path):
    (saved / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (saved / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    assert "link" in refused(saved)
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    shutil.copytree(saved, snapshot, symlinks=True)
    (tmp_path / "hub" / "blobs").mkdir()
    (tmp_path / "elsewhere.safetensors").rename(tmp_path / "hub" / "blobs" / "1234")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../blobs/1234")
    check_directory(snapshot)


def test_a_pickled_adapter_beside_a_file_of_another_name_is_refused(tmp_path):
    adapter = tmp_path / "adapter"
    tiny_lora(tiny_gpt2()).save_pretrained(adapter)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model_old.safetensors")
    torch.save(Opened(tmp_path / "mark"), adapter / "adapter_model.bin")
    assert "pickled" in refused(adapter)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("tokenizer_config.json", {"vocab_file": "/etc/passwd"}),
        ("tokenizer_config.json", {"tokenizer_file": "../tokenizer.json"}),
        ("tokenizer_config.json", {"fast_tokenizer_files": ["../tokenizer.4.json"]}),
        ("tokenizer_config.json", {"merges_file": 7}),
        ("config.json", {"transformers_weights": "../weights.bin"}),
        ("config.json", {"_attn_implementation": "evil/kernels"}),
        ("config.json", {"n_layer": 10**9}),
        ("config.json", {"auto_map": {"AutoModel": "m.M"}}),
    ],
)
def test_a_configuration_cannot_name_other_files_code_or_a_billion_layers(saved, name, entries):
    edit(saved, name, **entries)
    assert name in refused(saved)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(saved, bad):
    weights = load_file(saved / "model.safetensors")
    name = sorted(weights)[3]
    weights[name].view(-1)[0] = bad
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    assert name.removeprefix("transformer.") in refused(saved)


def test_an_adapter_of_an_ensemble_that_is_not_finite_or_broken_is_refused(tmp_path):
    adapter = tmp_path / "adapter"
    tiny_lora(tiny_gpt2()).save_pretrained(adapter)
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    name = sorted(weights)[0]
    weights[name].view(-1)[0] = float("nan")
    save_file(weights, path)
    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        read_adapter(adapter)
    path.write_bytes(b"\x00" * 64)
    with pytest.raises(ModelError, match="cannot be read"):
        read_adapter(adapter)
