"""LoRA adapts the output layer too, whatever the architecture, and what is saved says what was trained."""

import json
from string import ascii_lowercase

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from reticent.core.errors import ConfigError
from reticent.models.huggingface.loading import load_model
from reticent.training.release import release_model
from reticent.training.starting_model import ModelStart, load_for_training
from reticent.training.temperature import head_of
from tests.training.test_temperature import ARCHITECTURES, logits


def save(module, folder):
    """A model with a tokenizer that fits its vocabulary."""
    module.save_pretrained(folder)
    words = {word: index for index, word in enumerate(["<unk>", "<s>", "</s>", *ascii_lowercase])}
    raw = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)


@pytest.fixture
def saved(request, tmp_path):
    """An architecture and the folder of a model of it."""
    folder = tmp_path / "base"
    save(ARCHITECTURES[request.param](), folder)
    return request.param, folder


def adapted(folder, **others):
    """The model with random adapters, as if it had been trained."""
    start = ModelStart(source=str(folder), lora_rank=3, device="cpu", **({"lora_head": True} | others))
    model = load_for_training(start, seed=0)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            if parameter.requires_grad:
                assert "lora" in name or "log_scale" in name
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("saved", ARCHITECTURES, indirect=True)
@pytest.mark.parametrize("merge", [False, True], ids=["an adapter", "merged"])
@pytest.mark.parametrize("learns_temperature", [False, True], ids=["", "with a temperature"])
def test_a_released_model_says_what_the_trained_one_said(saved, merge, learns_temperature, tmp_path):
    _, base = saved
    model = adapted(base, learns_temperature=learns_temperature)
    expected = logits(model.module)
    release_model(model, tmp_path / "model", certificate=None, merge=merge)
    again = load_model(str(tmp_path / "model"), device="cpu").module
    torch.testing.assert_close(logits(again), expected, rtol=1e-3, atol=1e-4)
    if not merge:
        names = set(load_file(tmp_path / "model" / "adapter_model.safetensors"))
        assert all("lora" in each or learns_temperature for each in names)  # no copy of the embeddings
        return
    # The embeddings stay what they were: the change of the output layer is its own.
    found, before = again.get_input_embeddings().weight, load_model(str(base), device="cpu").module
    assert torch.equal(found, before.get_input_embeddings().weight)
    assert not torch.equal(again.get_output_embeddings().weight, before.get_output_embeddings().weight)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["tie_word_embeddings"] is False


@pytest.mark.parametrize("saved", ["gpt2", "llama"], indirect=True)
def test_a_frozen_head_and_top_blocks_are_left_as_they_are(saved):
    _, base = saved
    for others, heads, blocks in (
        ({"lora_head": False}, False, 2),
        ({"lora_head": True}, True, 2),
        ({"lora_head": False, "lora_layers": 1}, False, 1),
        ({"lora_head": True, "lora_layers": 1}, True, 1),
    ):
        module = adapted(base, **others).module
        trained = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        head = {id(parameter) for parameter in head_of(module).parameters() if parameter.requires_grad}
        assert bool(head) is heads, others
        found = {part for name in trained for part in name.split(".") if part.isdigit()}
        assert len(found) == blocks, others
        assert all("embed" not in name and "wte" not in name for name in trained)


def test_an_adapter_of_the_output_layer_needs_a_rank():
    with pytest.raises(ConfigError, match="rank"):
        ModelStart(source="embedded", lora_head=True)


def test_without_an_adapter_of_the_output_layer_equal_rows_stay_equally_likely(tmp_path):
    """The reason for it: two tokens with one row cannot be told apart by anything below the output layer."""
    module = ARCHITECTURES["llama"]()
    with torch.no_grad():
        module.get_output_embeddings().weight[7] = module.get_output_embeddings().weight[8]
    save(module, tmp_path)
    difference = {}
    for with_head in (False, True):
        found = logits(adapted(tmp_path, lora_head=with_head).module)
        difference[with_head] = (found[..., 7] - found[..., 8]).abs().max().item()
    assert difference[False] < 1e-5
    assert difference[True] > 1e-2
