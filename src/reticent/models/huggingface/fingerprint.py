"""A model's fingerprint: a hash of its weights, its configuration, its adapter's settings and its tokenizer.

It is the model's part of every cache key, so two models that compute differently must never share one. Names,
shapes, types and bytes of all tensors are hashed as they stand in memory, so it does not matter where they were
loaded from.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import torch

# Settings that say where a model came from or how it is run, not what it computes.
_VOLATILE: Final = {
    "_name_or_path",
    "_model_name_or_path",
    "base_model_name_or_path",
    "transformers_version",
    "peft_version",
    "inference_mode",
    "use_cache",
    "dtype",
    "torch_dtype",
    "revision",
    "auto_mapping",
}
_MARKS: Final = 1024  # elements of a tensor that a mark looks at


def fingerprint(module: torch.nn.Module, tokenizer: Any) -> str:
    """Hash of everything that decides what the model says, as 32 hexadecimal digits."""
    running = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        _add(running, f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        data = tensor.detach().cpu().contiguous().reshape(-1)
        _add(running, memoryview(data.view(torch.uint8).numpy()))
    settings = [_plain(getattr(module, "config", None)), _adapter_settings(module)]
    _add(running, json.dumps(settings, sort_keys=True, default=str).encode())
    _add(running, tokenizer_state(tokenizer).encode("utf8", errors="surrogatepass"))
    return running.hexdigest()


def tokenizer_state(tokenizer: Any) -> str:
    """All that a tokenizer does, as text: its Rust definition where it has one, else its class and vocabulary."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    special = json.dumps(getattr(tokenizer, "special_tokens_map", {}), sort_keys=True, default=str)
    if backend is not None:
        return f"{backend.to_str()}{special}"
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]))
    return f"{type(tokenizer).__name__}{vocabulary}{special}"


def mark(module: torch.nn.Module) -> tuple[object, ...]:
    """A cheap sign that a model may have changed: each tensor's place, version and the sum of some elements.

    The version counts in-place changes that autograd knows of; the sum sees most of those made behind its back
    (through `.data`). Adapters that were switched or scaled count as well.
    """
    tensors = tuple(_mark(tensor) for tensor in (*module.parameters(), *module.buffers()))
    return tensors, str(_adapter_settings(module))


def _mark(tensor: torch.Tensor) -> tuple[int, int, float]:
    flat = tensor.detach().reshape(-1)
    total = float(flat[:: max(1, flat.numel() // _MARKS)].float().sum()) if flat.numel() else 0.0
    return tensor.data_ptr(), 0 if tensor.is_inference() else int(tensor._version), total


def _add(running: Any, part: bytes | memoryview) -> None:
    """Feed one part, its length in front, so that no two sequences of parts run together."""
    running.update(len(part).to_bytes(8, "big"))
    running.update(part)


def _plain(config: Any) -> Any:
    """A configuration as plain values, without what does not change the model's output."""
    values: Any = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(values, Mapping):
        return values
    return {
        str(key): sorted(map(str, value)) if isinstance(value, set) else value
        for key, value in values.items()
        if key not in _VOLATILE
    }


def _adapter_settings(module: torch.nn.Module) -> Any:
    """The adapters' settings: LoRA's scale, for one, stands in no tensor. And which of them are switched on."""
    configs = getattr(module, "peft_config", None)
    if not configs:
        return None
    active = getattr(module, "active_adapter", None)
    switches = sorted({str(getattr(layer, "disable_adapters", None)) for layer in module.modules()})
    scales = [str(layer.scaling) for layer in module.modules() if isinstance(getattr(layer, "scaling", None), dict)]
    return [{name: _plain(config) for name, config in configs.items()}, str(active), switches, scales]
