"""A transformer's weights laid out for reading many rows at once: what Llama, Qwen2 and GPT-2 share.

    x ← x + O·attention(QKV·norm(x)),    x ← x + D·activation(U·norm(x)),    logits = H·norm(x)

Maps that read the same vector (queries, keys and values; gate and up) stand side by side in one matrix [in, out],
so that a layer is four products. Matrices are stored with the output along the last axis, in which order a product
with few rows is fastest on a CPU; the module's own parameters become views of them, so that the weights are in
memory once.

Anything else (sliding windows, rotary scalings that depend on the length, cross-attention) is refused by name, and
whoever asked reads its models one at a time (`ensemble.separate`). Nothing here knows of adapters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from transformers.activations import ACT2FN

from reticent.core.errors import ModelError

_ROTARY: Final = ("llama", "mistral", "qwen2")
_STATIC: Final = (
    "default",
    "linear",
    "llama3",
)  # rotary kinds whose angles do not depend on the length read so far


@dataclass(frozen=True, slots=True)
class Norm:
    """LayerNorm, or RMSNorm where there is no bias and `is_rms`."""

    weight: Tensor
    bias: Tensor | None
    epsilon: float
    is_rms: bool

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        if self.is_rms:
            return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)
        return torch.nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class Projection:
    """Maps of one input, side by side: y = x·matrix + bias. `names` are the modules, `widths` their outputs."""

    matrix: Tensor  # [in, out]
    bias: Tensor | None  # [out]
    names: tuple[str, ...]
    widths: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """x [..., in] → a fresh [..., out]."""
        flat = x.reshape(-1, x.shape[-1])
        out = flat @ self.matrix if self.bias is None else torch.addmm(self.bias, flat, self.matrix)
        return out.view(*x.shape[:-1], out.shape[-1])


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of a decoder."""

    attention_norm: Norm
    queries_keys_values: Projection
    output: Projection
    mlp_norm: Norm
    up: Projection  # gate and up side by side where `DecoderWeights.is_gated`
    down: Projection


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All weights of a decoder, and the little that its arithmetic needs besides."""

    embedding: Tensor  # [V, d]
    positions: Tensor | None  # [C, d] learnt positions, else rotary
    cosines: Tensor | None  # [C, D] of the rotary angle at each position
    sines: Tensor | None  # [C, D/2]
    layers: tuple[Layer, ...]
    final_norm: Norm
    head: Projection
    heads: int
    key_heads: int
    head_size: int
    is_gated: bool
    activation: Callable[[Tensor], Tensor]
    context_length: int

    @property
    def vocabulary_size(self) -> int:
        """Number of logits."""
        return int(self.head.matrix.shape[1])

    @property
    def width(self) -> int:
        """Size of a hidden state (d)."""
        return int(self.embedding.shape[1])


def read_decoder(module: Any) -> DecoderWeights:
    """The weights of a causal model, which goes on to work on the same memory. Raises ModelError where unknown."""
    kind = getattr(module.config, "model_type", "")
    if kind == "gpt2":
        return _read_gpt2(module)
    if kind in _ROTARY:
        return _read_rotary(module)
    raise ModelError(
        "adapters of this architecture cannot be read in one batch",
        found=kind or type(module).__name__,
        expected=", ".join(("gpt2", *_ROTARY)),
    )


def _read_rotary(module: Any) -> DecoderWeights:
    """Llama and those built like it."""
    config, core = module.config, module.model
    kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if kind not in _STATIC:
        raise ModelError("rotary positions of this kind cannot be read in one batch", found=kind)
    if getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True):
        raise ModelError("a sliding window cannot be read in one batch", found=config.sliding_window)
    layers = []
    for index, block in enumerate(core.layers):
        attention, mlp, where = block.self_attn, block.mlp, f"model.layers.{index}"
        layers.append(
            Layer(
                _rms(block.input_layernorm),
                _fuse(attention, ("q_proj", "k_proj", "v_proj"), f"{where}.self_attn"),
                _fuse(attention, ("o_proj",), f"{where}.self_attn"),
                _rms(block.post_attention_layernorm),
                _fuse(mlp, ("gate_proj", "up_proj"), f"{where}.mlp"),
                _fuse(mlp, ("down_proj",), f"{where}.mlp"),
            )
        )
    head = _head(module, core.embed_tokens)
    limit = int(config.max_position_embeddings)
    places = torch.arange(limit, device=head.matrix.device)[None]
    cosines, sines = core.rotary_emb(core.embed_tokens.weight[:1, None], places)  # [1, C, D] each
    size = cosines.shape[-1]
    return DecoderWeights(
        embedding=core.embed_tokens.weight.detach(),
        positions=None,
        cosines=cosines[0].detach().contiguous(),
        sines=sines[0, :, : size // 2].detach().contiguous(),
        layers=tuple(layers),
        final_norm=_rms(core.norm),
        head=head,
        heads=int(config.num_attention_heads),
        key_heads=int(config.num_key_value_heads),
        head_size=size,
        is_gated=True,
        activation=_activation(config.hidden_act),
        context_length=limit,
    )


def _read_gpt2(module: Any) -> DecoderWeights:
    config, core = module.config, module.transformer
    if config.add_cross_attention or config.scale_attn_by_inverse_layer_idx or not config.scale_attn_weights:
        raise ModelError("this variant of GPT-2's attention cannot be read in one batch")
    layers = []
    for index, block in enumerate(core.h):
        where = f"transformer.h.{index}"
        layers.append(
            Layer(
                _layer_norm(block.ln_1),
                _matrix(block.attn.c_attn, f"{where}.attn.c_attn"),
                _matrix(block.attn.c_proj, f"{where}.attn.c_proj"),
                _layer_norm(block.ln_2),
                _matrix(block.mlp.c_fc, f"{where}.mlp.c_fc"),
                _matrix(block.mlp.c_proj, f"{where}.mlp.c_proj"),
            )
        )
    head = _head(module, core.wte)
    return DecoderWeights(
        embedding=core.wte.weight.detach(),
        positions=core.wpe.weight.detach(),
        cosines=None,
        sines=None,
        layers=tuple(layers),
        final_norm=_layer_norm(core.ln_f),
        head=head,
        heads=int(config.n_head),
        key_heads=int(config.n_head),
        head_size=int(config.n_embd) // int(config.n_head),
        is_gated=False,
        activation=_activation(config.activation_function),
        context_length=int(config.n_positions),
    )


def _fuse(parent: Any, names: Sequence[str], where: str) -> Projection:
    """Linear modules of one input as one matrix; their parameters become views of it."""
    modules = [getattr(parent, name) for name in names]
    widths = tuple(int(module.weight.shape[0]) for module in modules)
    matrix = torch.cat([module.weight.detach().t() for module in modules], dim=1).contiguous()
    for module, part in zip(modules, torch.split(matrix, list(widths), dim=1), strict=True):
        module.weight.data = part.t()
    biases = [None if module.bias is None else module.bias.detach() for module in modules]
    bias = None
    if any(each is not None for each in biases):
        filled = [
            matrix.new_zeros(width) if each is None else each for each, width in zip(biases, widths, strict=True)
        ]
        bias = torch.cat(filled)
    return Projection(matrix, bias, tuple(f"{where}.{name}" for name in names), widths)


def _matrix(module: Any, name: str) -> Projection:
    """GPT-2's `Conv1D`, which is stored as [in, out] already."""
    weight = module.weight.detach()
    return Projection(weight, module.bias.detach(), (name,), (int(weight.shape[1]),))


def _head(module: Any, embedding: Any) -> Projection:
    """The output map; where it is the embedding itself, both become views of one matrix."""
    head = module.get_output_embeddings()
    is_tied = head.weight is embedding.weight
    matrix = head.weight.detach().t().contiguous()  # [d, V]
    head.weight.data = matrix.t()
    if is_tied and embedding.weight is not head.weight:
        raise ModelError("the embedding lost its tie to the head")
    return Projection(matrix, None if head.bias is None else head.bias.detach(), ("head",), (matrix.shape[1],))


def _rms(module: Any) -> Norm:
    return Norm(module.weight.detach(), None, float(module.variance_epsilon), True)


def _layer_norm(module: Any) -> Norm:
    return Norm(module.weight.detach(), module.bias.detach(), float(module.eps), False)


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation of that name; the common ones as one pass over memory."""
    if name == "silu":
        return torch.nn.functional.silu
    if name in ("gelu_new", "gelu_pytorch_tanh"):
        return lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    found: Callable[[Tensor], Tensor] = ACT2FN[name]
    return found
