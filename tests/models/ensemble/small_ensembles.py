"""Tiny ensembles on disk: a base and LoRA adapters away from zero, and the same models one at a time from peft."""

import copy
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers.pytorch_utils import Conv1D

from reticent.models.ensemble.adapters import AdapterEnsemble, EnsembleMember
from reticent.models.ensemble.separate import SeparateEnsemble
from reticent.models.huggingface.model import HuggingFaceModel
from tests.models.tiny import tiny_tokenizer


def save_adapters(
    base: Any, folder: Path, count: int, *, layers: tuple[int, ...] = (0, 1), **settings: Any
) -> list[Path]:
    """LoRA adapters of random weights in every linear map of the named layers."""
    maps = [name for name, part in base.named_modules() if isinstance(part, nn.Linear | Conv1D)]
    chosen = [name for name in maps if any(f".{layer}." in name for layer in layers)]
    paths = []
    for index in range(count):
        torch.manual_seed(100 + index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"r": 2, "lora_alpha": 4} | settings
            adapted = get_peft_model(copy.deepcopy(base), LoraConfig(target_modules=chosen, **options))
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        paths.append(folder / f"adapter-{index}")
        adapted.save_pretrained(paths[-1])
    return paths


def peft_models(base: Any, paths: list[Path]) -> list[HuggingFaceModel]:
    """The oracle: every adapter on a base of its own, read by peft."""
    models = []
    for path in paths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapted = PeftModel.from_pretrained(copy.deepcopy(base), path).eval()
        models.append(HuggingFaceModel(adapted, tiny_tokenizer(), name=path.name))
    return models


def both(
    base: Any, paths: list[Path], *, halves: bool = False, **options: Any
) -> tuple[AdapterEnsemble, SeparateEnsemble]:
    """The same ensemble in one batch and one model at a time."""
    rows = [index // 2 if halves else index for index in range(len(paths))]
    parts = [f"part-{part:02d}" for part in range(max(rows) + 1)]
    separate = SeparateEnsemble(
        HuggingFaceModel(copy.deepcopy(base), tiny_tokenizer()), peft_models(base, paths), rows=rows, parts=parts
    )
    public = HuggingFaceModel(copy.deepcopy(base), tiny_tokenizer())
    members = [EnsembleMember(row, path) for row, path in zip(rows, paths, strict=True)]
    return AdapterEnsemble(public, members, parts=parts, **options), separate
