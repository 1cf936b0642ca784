"""The model a run starts from, and which of its weights are trained.

    embedded        the public model that ships with the package
    lstm:1x200      an LSTM of a paper's size from random weights, with the embedded model's tokenizer
    PATH or hub id  any causal language model that `models.huggingface.loading` reads

Weights are trained in float32 whatever they were stored in; `Computation.dtype` decides what is computed in. All
of them are trained, or all but the embeddings, or LoRA layers alone (Hu et al. 2021): in every linear map of all
blocks or of the top ones, and perhaps in the output layer. Beside them the temperature of the answers may be
trained (`training.temperature`).

Why the output layer: a model tells two tokens apart only as far as their rows in it differ. Tokens that it never
met have the same row but for a ten-thousandth (16,000 of the 32,000 of stories15m), and no adapter below can part
them.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoTokenizer
from transformers.pytorch_utils import Conv1D

from reticent.core.errors import ConfigError, ModelError
from reticent.models.embedded import EMBEDDED, embedded_model_path
from reticent.models.huggingface import checkpoint
from reticent.models.huggingface.device import choose_device, seed_torch
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.location import locate
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.models.lstm.model import LSTMConfig, LSTMForCausalLM, register_lstm
from reticent.training.temperature import ADAPTER_GAIN, add_temperature, foldable_norm, head_of

_LSTM: Final = "lstm:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStart:
    """What a training starts from: where the weights come from and which of them are trained.

    `lora_rank` 0 means no LoRA.
    """

    source: str
    lora_rank: int = 0
    lora_alpha: float | None = None  # None: twice the rank
    lora_layers: int = 0  # top blocks that get LoRA layers; 0: all
    lora_head: bool = False  # whether the output layer gets one too
    freeze_embeddings: bool = False
    learns_temperature: bool = False  # where the model ends in a norm that can take it up
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.lora_rank < 0 or (self.lora_alpha is not None and not self.lora_alpha > 0):
            raise ConfigError("LoRA needs a positive rank and alpha", found=self.lora_rank)
        if self.lora_layers < 0 or (self.lora_layers and not self.lora_rank):
            raise ConfigError("LoRA in the top blocks needs their number and a rank", found=self.lora_layers)
        if self.lora_head and not self.lora_rank:
            raise ConfigError("an adapter of the output layer needs a rank", hint="give lora_rank")
        if self.lora_rank and self.source.startswith(_LSTM):
            raise ConfigError("an LSTM from random weights has nothing to adapt", hint="leave --lora-rank out")


def load_for_training(start: ModelStart, *, seed: int) -> HuggingFaceModel:
    """Load a model and make it ready to be trained.

    `seed` decides random weights alone, so that a resumed run finds the same.
    """
    with torch.random.fork_rng(devices=[]):
        seed_torch(seed)
        if start.source.startswith(_LSTM):
            model = _new_lstm(start.source.removeprefix(_LSTM), start.device)
        else:
            model = _load(start)
        if start.freeze_embeddings:
            _freeze_embeddings(model.module)
        if start.lora_rank:
            adapted = _add_lora(model.module, start, base=base_of(start.source))
            model = HuggingFaceModel(adapted, model.tokenizer, name=model.name)
        if start.learns_temperature:
            add_temperature(model.module, gain=ADAPTER_GAIN if start.lora_rank else 1.0)
    if not any(parameter.requires_grad for parameter in model.module.parameters()):
        raise ModelError(f"{start.source}: nothing is left to train", hint="freeze less")
    return model


def base_of(source: str) -> str:
    """Where an adapter finds its base again: the absolute path of a local model, a hub id as it is."""
    if source == EMBEDDED:
        return str(embedded_model_path())
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _load(start: ModelStart) -> HuggingFaceModel:
    place = locate(start.source)
    if place.is_dir() and checkpoint.is_adapter(place):
        raise ModelError(
            f"{start.source}: training does not start from an adapter",
            hint="merge it first: save PeftModel.merge_and_unload() with its tokenizer",
        )
    if start.lora_rank and place.is_file():
        raise ModelError(f"{start.source}: LoRA on a GGUF file has no base that can be loaded again")
    model = load_model(start.source, device=start.device, dtype="float32", name=start.source)
    model.module.requires_grad_(True)
    return model


def _new_lstm(size: str, device: str) -> HuggingFaceModel:
    """An LSTM from random weights that reads with the embedded model's tokenizer."""
    register_lstm()
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_path(), local_files_only=True)
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    special = {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name) is not None}
    config = LSTMConfig.preset(size, len(tokenizer), **special)
    module = LSTMForCausalLM(config).to(choose_device(device)).eval()
    return HuggingFaceModel(module, tokenizer, name=f"{_LSTM}{size}")


def _freeze_embeddings(module: nn.Module) -> None:
    """Embeddings stay as they are, and with them an output head that shares their matrix."""
    for layer in module.modules():
        if isinstance(layer, nn.Embedding):
            layer.requires_grad_(False)


def _add_lora(module: Any, start: ModelStart, *, base: str) -> Any:
    """LoRA layers in the linear maps; everything else is frozen.

    A temperature is folded into the last norm, which the adapter then holds too.
    """
    from peft import LoraConfig, get_peft_model

    norm = foldable_norm(module) if start.learns_temperature else None

    alpha = 2.0 * start.lora_rank if start.lora_alpha is None else start.lora_alpha
    settings = LoraConfig(
        r=start.lora_rank,
        lora_alpha=alpha,
        target_modules=_adapted_maps(module, start),
        lora_dropout=0.0,
        bias="none",
        modules_to_save=None if norm is None else [norm[0]],
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
    )
    with warnings.catch_warnings():
        # On the orientation of GPT-2's matrices, which peft sets right itself, and on tied heads (`release_model`).
        warnings.simplefilter("ignore")
        try:
            adapted = get_peft_model(module, settings)
        except ValueError:  # peft knows architectures in which some or all of these maps cannot be adapted
            raise ModelError(
                f"{start.source}: LoRA layers do not fit this architecture",
                found=type(module).__name__,
                hint="leave --lora-rank out to train all weights; for --method submix give --lora-rank 0",
            ) from None
    adapted.peft_config["default"].base_model_name_or_path = base
    if norm is not None and (kept := foldable_norm(adapted)) is not None:
        adapted.get_submodule(kept[0]).requires_grad_(False)
    return adapted


def _adapted_maps(module: Any, start: ModelStart) -> str | list[str]:
    """What peft is to adapt: every linear map of the blocks, or the maps with these names."""
    head = head_of(module) if start.lora_head else None
    if not isinstance(head, nn.Linear):
        return _top_maps(module, start.lora_layers) if start.lora_layers else "all-linear"
    maps = [name for name, part in module.named_modules() if isinstance(part, (nn.Linear, Conv1D))]
    if start.lora_layers:
        return [
            *_top_maps(module, start.lora_layers),
            *(name for name in maps if module.get_submodule(name) is head),
        ]
    return sorted({name.rpartition(".")[2] for name in maps})


def _top_maps(module: Any, count: int) -> list[str]:
    """Names of the linear maps in the last `count` blocks: those numbered in the model's one list of blocks."""
    blocks = {name: len(part) for name, part in module.named_modules() if isinstance(part, nn.ModuleList)}
    (stack, depth), *others = blocks.items() or [("", 0)]
    if others or not 0 < count <= depth:
        raise ModelError("cannot identify the top blocks of this model", found=count, expected=f"1 to {depth}")
    top = tuple(f"{stack}.{index}." for index in range(depth - count, depth))
    maps = [name for name, part in module.named_modules() if isinstance(part, (nn.Linear, Conv1D))]
    return [name for name in maps if name.startswith(top)]
