"""LoRA adapters of many parts, stacked so that one product a layer applies all of them (Hu et al. 2021).

    y_r = W·x_r + s_r·B_r·A_r·x_r,    rows r = 1..m,    row 0 has no adapter: the public model

Adapters of maps that share their input and their product (`ensemble.weights.Projection`) are fused: the A's stand
side by side, the B's on the diagonal, the scale inside B. A layer's adapters are then two batched products [m, ·,
in]·[m, in, ρ] and [m, ·, ρ]·[m, ρ, out], whatever the number of parts. Adapters of different rank are filled up
with zeros.

Reads what peft writes: safetensors and adapter_config.json. Plain LoRA alone: biases, DoRA, whole modules beside
the adapter and the like are refused, since leaving them out would give another model.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from reticent.core.errors import ModelError
from reticent.models.ensemble.weights import DecoderWeights, Projection
from reticent.models.huggingface.checkpoint import ADAPTER_CONFIG, read_json, require_finite

_WEIGHTS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."
_REFUSED: Final = ("use_dora", "modules_to_save", "lora_bias", "trainable_token_indices", "layer_replication")


@dataclass(frozen=True, slots=True)
class Factors:
    """One map's adapter: it adds `up`·`down`·x, the scale inside `up`."""

    down: Tensor  # [r, in]
    up: Tensor  # [out, r]


@dataclass(frozen=True, slots=True)
class Adapter:
    """One LoRA adapter: its factors by the name of the module they belong to."""

    factors: Mapping[str, Factors]

    @property
    def fingerprint(self) -> str:
        """Hash of names and factors, scale included: what it does, not where it was stored."""
        running = hashlib.blake2b(digest_size=16)
        for name, each in sorted(self.factors.items()):
            for tensor in (each.down, each.up):
                running.update(f"{name} {tuple(tensor.shape)}\n".encode())
                running.update(tensor.contiguous().cpu().numpy().tobytes())
        return running.hexdigest()


def read_adapter(directory: Path) -> Adapter:
    """The adapter that peft saved in a directory."""
    settings = read_json(directory / ADAPTER_CONFIG)
    if settings.get("peft_type") != "LORA" or settings.get("bias", "none") != "none":
        raise ModelError(f"{directory}: not a plain LoRA adapter", found=settings.get("peft_type"))
    extra = [name for name in _REFUSED if settings.get(name)]
    if extra:
        raise ModelError(
            f"{directory}: more than a plain LoRA adapter",
            found=", ".join(extra),
            hint="DP-SGD leaves a plain one with --fixed-temperature and --frozen-head"
            if "modules_to_save" in extra
            else None,
        )
    try:
        tensors = load_file(directory / _WEIGHTS)
        require_finite(tensors.items(), directory)
    except (OSError, ValueError, SafetensorError) as error:
        raise ModelError(f"{directory}: the adapter's weights cannot be read", found=type(error).__name__) from None
    names = {key.removeprefix(_PREFIX).rpartition(".lora_")[0] for key in tensors}
    wanted = {f"{_PREFIX}{name}.lora_{side}.weight" for name in names for side in "AB"}
    if not names or wanted != set(tensors):
        raise ModelError(f"{directory}: holds tensors that are not LoRA's")
    return Adapter({name: _factors(tensors, name, settings) for name in sorted(names)})


def _factors(tensors: Mapping[str, Tensor], name: str, settings: Mapping[str, Any]) -> Factors:
    down, up = (tensors[f"{_PREFIX}{name}.lora_{side}.weight"].float() for side in "AB")
    if settings.get("rank_pattern") or settings.get("alpha_pattern"):
        raise ModelError("an adapter with a rank or alpha of its own for some maps is not supported", found=name)
    rank = int(settings["r"])
    if down.shape[0] != rank or up.shape[1] != rank:
        raise ModelError(f"the adapter of {name} has another rank than its settings say", found=down.shape[0])
    alpha = float(settings["lora_alpha"])
    scale = alpha / math.sqrt(rank) if settings.get("use_rslora") else alpha / rank
    return Factors(down.contiguous(), (up * scale).contiguous())


@dataclass(frozen=True, slots=True)
class StackedFactors:
    """All parts' adapters of one projection. `add` applies them to rows 1.. in place."""

    down: Tensor  # [m, in, ρ]
    up: Tensor  # [m, ρ, out]

    def add(self, out: Tensor, x: Tensor) -> None:
        """out [1 + m, ..., out] += B·A·x for x [1 + m, ..., in], row by row, the public row left alone."""
        rows = self.down.shape[0]
        inputs = x[1:].reshape(rows, -1, x.shape[-1])  # [m, n·t, in]
        out[1:].view(rows, -1, out.shape[-1]).baddbmm_(torch.bmm(inputs, self.down), self.up)


@dataclass(frozen=True, slots=True)
class LayerAdapters:
    """The stacked adapters of a layer's four projections; None where no part adapts that one."""

    queries_keys_values: StackedFactors | None
    output: StackedFactors | None
    up: StackedFactors | None
    down: StackedFactors | None


def stack_adapters(adapters: Sequence[Adapter], weights: DecoderWeights) -> tuple[LayerAdapters | None, ...]:
    """The adapters layer by layer; None for a layer that no part adapts."""
    if not adapters:
        raise ModelError("an ensemble needs at least one adapter")
    left = {name for adapter in adapters for name in adapter.factors}
    layers: list[LayerAdapters | None] = []
    for layer in weights.layers:
        projections = (layer.queries_keys_values, layer.output, layer.up, layer.down)
        stacked = [_stack(adapters, projection) for projection in projections]
        left -= {name for projection in projections for name in projection.names}
        layers.append(LayerAdapters(*stacked) if any(each is not None for each in stacked) else None)
    if left:
        raise ModelError("the adapters change maps that cannot be read in one batch", found=min(left))
    return tuple(layers)


def _stack(adapters: Sequence[Adapter], projection: Projection) -> StackedFactors | None:
    """The fused adapters of one projection: A's side by side, B's on the diagonal."""
    ranks = {
        name: max(
            (adapter.factors[name].down.shape[0] for adapter in adapters if name in adapter.factors), default=0
        )
        for name in projection.names
    }
    if not any(ranks.values()):
        return None
    like, total = projection.matrix, sum(ranks.values())
    down = like.new_zeros((len(adapters), like.shape[0], total))
    up = like.new_zeros((len(adapters), total, like.shape[1]))
    row, column = 0, 0
    for name, width in zip(projection.names, projection.widths, strict=True):
        for part, adapter in enumerate(adapters):
            found = adapter.factors.get(name)
            if found is None:
                continue
            rank = found.down.shape[0]
            if found.down.shape[1] != like.shape[0] or found.up.shape[0] != width:
                raise ModelError(f"the adapter of {name} does not fit the model", found=tuple(found.up.shape))
            down[part, :, row : row + rank] = found.down.t().to(like)
            up[part, row : row + rank, column : column + width] = found.up.t().to(like)
        row, column = row + ranks[name], column + width
    return StackedFactors(down, up)
