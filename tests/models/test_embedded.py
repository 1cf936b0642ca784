"""The embedded public model: small, loads offline, splits digits, knows the public style and no private value."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from reticent.core.randomness import Randomness
from reticent.data.generators import (
    dialogue_phrases,
    generate_cases,
    generate_codes,
    generate_dialogues,
    secrets_of,
)
from reticent.models.embedded import embedded_model_path

FOLDER = embedded_model_path()


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(FOLDER, local_files_only=True).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)


def token_losses(model, tokenizer, ids: list[int]) -> torch.Tensor:
    """Loss in nats of each token after the start token, the end token included: [T + 1]."""
    sequence = torch.tensor([[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]])
    with torch.no_grad():
        logits = model(input_ids=sequence).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, sequence[0, 1:], reduction="none")


def perplexity(model, tokenizer, sequences: list[list[int]]) -> float:
    losses = torch.cat([token_losses(model, tokenizer, ids) for ids in sequences])
    return math.exp(losses.double().mean())


def encode(tokenizer, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def test_the_weights_are_safetensors_of_at_most_four_megabytes():
    assert isinstance(FOLDER, Path)
    weights = [path for path in FOLDER.iterdir() if path.suffix in {".safetensors", ".bin", ".pt", ".pth", ".pkl"}]
    assert [path.name for path in weights] == ["model.safetensors"]
    assert weights[0].stat().st_size <= 4_000_000
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "README.md"):
        assert (FOLDER / name).is_file()
    assert "auto_map" not in json.loads((FOLDER / "config.json").read_text())


def test_its_path_is_found_without_torch():
    use = "from reticent.models.embedded import embedded_model_path; assert embedded_model_path().is_dir()"
    check = "import sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", f"{use}\n{check}"], check=True)


def test_it_loads_in_float32_with_tied_embeddings_and_a_context_of_512(model, tokenizer):
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert model.config.n_positions == 512
    assert model.config.vocab_size == len(tokenizer)
    assert (model.config.bos_token_id, model.config.eos_token_id) == (
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
    )
    assert len({tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}) == 3


def test_each_digit_is_one_token_wherever_it_stands(tokenizer):
    digits = {symbol: encode(tokenizer, [symbol])[0] for symbol in "0123456789"}
    assert all(len(ids) == 1 for ids in digits.values())
    for text in ("My ID is: 341752", "(017)293-4410.", "x1y22 333\n4444", "7WLILAQM5J"):
        pieces = tokenizer.convert_ids_to_tokens(encode(tokenizer, [text])[0])
        with_digits = [piece for piece in pieces if any(symbol.isdigit() for symbol in piece)]
        assert with_digits == [symbol for symbol in text if symbol.isdigit()]


def test_no_entry_of_the_vocabulary_joins_a_digit_with_anything(tokenizer):
    joined = [
        entry
        for entry in tokenizer.get_vocab()
        if len(entry) > 1 and any(symbol in "0123456789" for symbol in entry)
    ]
    assert joined == []


def test_texts_come_back_as_they_were(tokenizer):
    texts = [
        text for g in (generate_dialogues, generate_cases) for text in g(20, randomness=Randomness.seeded(1)).texts
    ]
    texts += ["", " ", "  two  blanks ", "tab\tand\r\nreturn", "Grüße, ‖ε‖ ≤ δ, 漢字, 🙂", "a <MASK>, <MASK> b"]
    for text, ids in zip(texts, encode(tokenizer, texts), strict=True):
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_the_mask_is_one_token_and_nothing_is_added_around_a_text(tokenizer):
    mask = tokenizer.convert_tokens_to_ids("<MASK>")
    assert encode(tokenizer, ["<MASK>"]) == [[mask]]
    ids = encode(tokenizer, ["Call <MASK>."])[0]
    assert ids.count(mask) == 1
    assert tokenizer.bos_token_id not in tokenizer("Hello.")["input_ids"]


def test_generated_texts_fit_the_context(tokenizer):
    for generate in (generate_dialogues, generate_cases, generate_codes):
        texts = generate(300, randomness=Randomness.seeded(2)).texts
        assert max(len(ids) for ids in encode(tokenizer, texts)) <= 510


# Perplexity of fresh text. Measured by the script that made the weights: public 2.65 (dialogues 2.51, cases 2.98).
PUBLIC_BOUND = 3.3


def test_it_knows_the_public_style_and_not_just_the_words(model, tokenizer):
    dialogues = generate_dialogues(40, randomness=Randomness.seeded(3), private=False).texts
    cases = generate_cases(20, randomness=Randomness.seeded(3), private=False).texts
    sequences = encode(tokenizer, dialogues + cases)
    known = perplexity(model, tokenizer, sequences)
    shuffler = random.Random(0)
    shuffled = perplexity(model, tokenizer, [shuffler.sample(ids, len(ids)) for ids in sequences])
    assert known < PUBLIC_BOUND
    assert shuffled > 50 * known


def test_private_phrasings_are_left_to_learn(model, tokenizer):
    public = encode(tokenizer, generate_dialogues(40, randomness=Randomness.seeded(4), private=False).texts)
    private = encode(tokenizer, generate_dialogues(40, randomness=Randomness.seeded(4)).texts)
    known, unknown = perplexity(model, tokenizer, public), perplexity(model, tokenizer, private)
    # Measured 2.5 and 32: a third of the private phrasings is new to a model that is sure of those it knows.
    assert 4 * known < unknown < 80


def test_private_values_alone_cost_it_little_more_than_public_ones(model, tokenizer, monkeypatch):
    public = encode(tokenizer, generate_dialogues(40, randomness=Randomness.seeded(4), private=False).texts)
    whole = dialogue_phrases.offered
    monkeypatch.setattr(dialogue_phrases, "offered", lambda phrases, *, private: whole(phrases, private=False))
    private = encode(tokenizer, generate_dialogues(40, randomness=Randomness.seeded(4)).texts)
    known, values = perplexity(model, tokenizer, public), perplexity(model, tokenizer, private)
    assert known < values < 1.5 * known  # measured 1.14: the style is the same, the names are new


def test_private_codes_are_as_good_as_random_to_it(model, tokenizer):
    corpus = generate_codes(60, randomness=Randomness.seeded(5), repeated=False)
    digit_ids = torch.tensor(encode(tokenizer, ["0123456789"])[0])
    bits = []
    for secret in secrets_of(corpus):
        prefix, code = encode(tokenizer, ["My number is: ", secret.reveal()])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[tokenizer.bos_token_id, *prefix, *code]])).logits[0]
        rows = logits[len(prefix) : -1, digit_ids].log_softmax(-1)  # [6, 10]: given that a digit follows
        chosen = rows.gather(1, torch.searchsorted(digit_ids, torch.tensor(code))[:, None])
        bits.append(float(-chosen.sum()) / math.log(2))
    # Uniform digits cost log2(10^6) = 19.93 bits on average under the true law and more under any other.
    assert 19.5 < sum(bits) / len(bits) < 22.5
