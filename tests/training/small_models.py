"""Small models of every kind that is trained, with dropout off and weights large enough that gradients differ."""

import random
from pathlib import Path

import torch
from torch import Tensor, nn

from reticent.models.lstm.model import LSTMConfig, LSTMForCausalLM
from reticent.training.temperature import add_temperature

VOCABULARY = 40
START = 0


def gpt2(*, tied: bool = True) -> nn.Module:
    """Two layers of 16, with absolute position embeddings."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        initializer_range=0.3,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=tied,
        bos_token_id=START,
        eos_token_id=START,
    )
    return GPT2LMHeadModel(config).eval()


def llama(*, tied: bool = True) -> nn.Module:
    """Two layers of 16, four query heads on two key heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        tie_word_embeddings=tied,
        bos_token_id=START,
        eos_token_id=START,
    )
    return LlamaForCausalLM(config).eval()


def stories(shared: Path) -> nn.Module:
    """A real model: stories260k, tied, grouped queries."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(shared / "models" / "stories260k", dtype=torch.float32).eval()


def lstm(*, tied: bool = False) -> nn.Module:
    """Two layers of 12."""
    torch.manual_seed(3)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 12, "num_hidden_layers": 2, "initializer_range": 0.5}
    return LSTMForCausalLM(LSTMConfig(**sizes, tie_word_embeddings=tied, bos_token_id=START)).eval()


def with_lora(base: nn.Module, targets: list[str], *, dropout: float = 0.0) -> nn.Module:
    """Rank-3 adapters whose second factor is not the usual zero, so that both factors have gradients."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(4)
    config = LoraConfig(r=3, target_modules=targets, lora_dropout=dropout, task_type="CAUSAL_LM")
    adapted = get_peft_model(base, config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    return adapted


def tempered(module: nn.Module, log_scale: float = 0.3, *, gain: float = 1.0) -> nn.Module:
    """The model with a temperature that is trained, and that is not 1."""
    assert add_temperature(module, gain=gain)
    with torch.no_grad():
        module.get_output_embeddings().temperature.log_scale.fill_(log_scale)
    return module


class TinyModel(nn.Module):
    """Embedding, a middle that tests supply, a head; reads each position by itself."""

    def __init__(self, middle: nn.Module, *, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.middle = middle
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.middle(self.embedding(input_ids)))


def random_records(
    count: int, *, longest: int = 9, seed: int = 0, vocabulary: int = VOCABULARY
) -> list[list[list[int]]]:
    """Records of one text each, of 1 to `longest` tokens."""
    source = random.Random(seed)
    return [[[source.randrange(vocabulary) for _ in range(source.randint(1, longest))]] for _ in range(count)]
