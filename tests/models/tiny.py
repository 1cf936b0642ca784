"""Tiny models with sharp distributions, a character tokenizer, and the slow, obvious forwards of the oracle."""

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from reticent.models.huggingface.model import HuggingFaceModel

ALPHABET = string.ascii_lowercase + string.digits + " .,:"
VOCABULARY_SIZE = len(ALPHABET) + 3
CONTEXT = 48


def tiny_tokenizer(*, start: bool = True, end: bool = True) -> Any:
    """One token a character; <unk>, <s> and </s> are 0, 1 and 2."""
    names = ["<unk>", "<s>", "</s>", *ALPHABET]
    raw = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    raw.decoder = decoders.Fuse()
    special = {"bos_token": "<s>"} if start else {}
    special |= {"eos_token": "</s>"} if end else {}
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", **special)


def tiny_gpt2(seed: int = 0) -> Any:
    """A GPT-2 with learnt positions, random weights wide enough that no distribution is flat."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY_SIZE,
        n_positions=CONTEXT,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.3,
        bos_token_id=1,
        eos_token_id=2,
    )
    return GPT2LMHeadModel(config).eval()


def tiny_llama(seed: int = 0, *, sliding_window: int | None = None) -> Any:
    """A Llama with grouped keys; with `sliding_window`, the Mistral of that shape."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY_SIZE,
        "max_position_embeddings": CONTEXT,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.3,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if sliding_window is not None:
        from transformers import MistralConfig, MistralForCausalLM

        return MistralForCausalLM(MistralConfig(**sizes, sliding_window=sliding_window)).eval()
    return LlamaForCausalLM(LlamaConfig(**sizes)).eval()


def tiny_lstm(seed: int = 0) -> Any:
    """A two-layer LSTM."""
    from reticent.models.lstm.model import LSTMConfig, LSTMForCausalLM

    torch.manual_seed(seed)
    config = LSTMConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=24,
        num_hidden_layers=2,
        initializer_range=1.0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LSTMForCausalLM(config).eval()


def tiny_lora(base: Any, seed: int = 0) -> Any:
    """A LoRA adapter on a GPT-2, its second matrix away from the zeros it starts with."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    adapted = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return adapted.eval()


def tiny_model(kind: str = "gpt2", *, token_budget: int = 64) -> HuggingFaceModel:
    """A tiny model of a kind behind the adapter; a small budget makes many batches."""
    modules = {
        "gpt2": tiny_gpt2,
        "llama": tiny_llama,
        "mistral": lambda: tiny_llama(sliding_window=6),
        "lstm": tiny_lstm,
        "lora": lambda: tiny_lora(tiny_gpt2()),
    }
    return HuggingFaceModel(modules[kind](), tiny_tokenizer(), name=kind, token_budget=token_budget)


def plain_log_probs(module: Any, start_token: int, sequence: Sequence[int]) -> NDArray[np.float64]:
    """The oracle: one text, one forward, start token in front, no padding, no cache, no batch."""
    if len(sequence) == 0:
        return np.empty(0)
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([[start_token, *sequence]])).logits[0].double()
    log_probs = torch.log_softmax(logits, dim=-1)
    return np.array([float(log_probs[place, token]) for place, token in enumerate(sequence)])


def plain_next(module: Any, start_token: int, context: Sequence[int]) -> NDArray[np.float64]:
    """The oracle of a next-token distribution."""
    with torch.no_grad():
        logits = module(input_ids=torch.tensor([[start_token, *context]])).logits[0, -1].double()
    return np.asarray(torch.log_softmax(logits, dim=-1).numpy())


def ragged(seed: int, count: int, *, longest: int = CONTEXT - 1, shortest: int = 0) -> list[list[int]]:
    """Random sequences of random lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(shortest, longest + 1, count)
    return [generator.integers(3, VOCABULARY_SIZE, length).tolist() for length in lengths]
