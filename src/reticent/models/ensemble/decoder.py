"""One forward of a decoder for all rows of an ensemble: row 0 the public model, rows 1.. a part's adapter each.

The weights are read once for all rows, adapters are batched products (`ensemble.stack`), keys and values stand in
one cache. Below the first layer that any part adapts all rows are the same, so those layers are computed with one
row, and the row is repeated only where they part ways: with adapters in the top quarter, three quarters cost one
model.

Several texts of different lengths may be read together: a token's position is its own text's, and a mask keeps each
text to its own columns. Arithmetic is that of the model's own implementation up to floating point; a test holds the
two together.

The output map is the largest matrix of a model, and a look-up multiplies a handful of rows with it. A general
product rearranges the matrix each time, which costs as much as the arithmetic. oneDNN, which comes with torch, can
be given a matrix that is rearranged already, by the two operations that torch's own compiler uses for inference.
Where they are missing, on another device or in another precision the plain product is taken. A packed matrix is a
copy: it is for the one matrix where this counts, not for all weights.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reticent.core.arrays import Floats
from reticent.models.ensemble.key_value_cache import KeyValueCache
from reticent.models.ensemble.stack import LayerAdapters, StackedFactors
from reticent.models.ensemble.weights import DecoderWeights, Layer, Projection

Product = Callable[[Tensor], Tensor]  # x [..., in] → [..., out]


class BatchedDecoder:
    """Weights and stacked adapters, ready to read. Call within `torch.inference_mode`."""

    def __init__(self, weights: DecoderWeights, adapters: Sequence[LayerAdapters | None]) -> None:
        self.weights = weights
        self._adapters = tuple(adapters)
        stacked = [each for layer in adapters if layer is not None for each in _stacks(layer)]
        self.rows = 1 + (stacked[0].down.shape[0] if stacked else 0)
        self.first_adapted = next(
            (index for index, layer in enumerate(adapters) if layer is not None), len(self._adapters)
        )
        packed = packed_product(weights.head.matrix, weights.head.bias) if self.rows > 1 else None
        self._head: Product = weights.head if packed is None else packed

    def new_cache(self) -> KeyValueCache:
        """Empty buffers of the right shape."""
        rows = [1 if index < self.first_adapted else self.rows for index in range(len(self._adapters))]
        weights = self.weights
        return KeyValueCache(rows, weights.key_heads, weights.head_size, like=weights.head.matrix)

    def read(self, tokens: Tensor, *, cache: KeyValueCache, slots: Sequence[int], starts: Sequence[int]) -> Tensor:
        """Hidden states [R, n, t, d] after the tokens [n, t], the i-th text's at columns `starts[i]` and on."""
        weights = self.weights
        columns = tokens.shape[1]
        cache.reserve(slots=max(slots) + 1, columns=max(starts) + columns)
        cache.uncover(slots, ends=[start + columns for start in starts])
        places = torch.tensor(starts, device=tokens.device)[:, None] + torch.arange(columns, device=tokens.device)
        x = torch.nn.functional.embedding(tokens, weights.embedding)[None]  # [1, n, t, d]
        if weights.positions is not None:
            x = x + weights.positions[places]
        attention = _Attention(weights, places, cache=cache, slots=slots, starts=starts)
        for index, (layer, adapters) in enumerate(zip(weights.layers, self._adapters, strict=True)):
            if index == self.first_adapted:
                x = x.repeat(self.rows, 1, 1, 1)
            x = self._block(index, layer, adapters, x, attention)
        return x if self.first_adapted < len(weights.layers) else x.expand(self.rows, -1, -1, -1)

    def log_probs(self, hidden: Tensor) -> Floats:
        """Log-pmfs [n, R, V] in float64 of hidden states [R, n, d].

        Exponentials are taken in the model's precision and summed in float64, so a row of a float32 model sums to 1
        within 1e-7, as accurate as its logits are. Whoever accounts on rows normalises them
        (`prediction.mechanisms.shaping`).
        """
        rows = self._logits(hidden).cpu().numpy()
        top = rows.max(axis=-1, keepdims=True)
        scratch = rows - top
        total = np.exp(scratch, out=scratch).sum(axis=-1, keepdims=True, dtype=np.float64)
        return np.asarray(np.subtract(rows, top.astype(np.float64) + np.log(total), dtype=np.float64))

    def masses(self, hidden: Tensor) -> NDArray[np.floating]:
        """Softmax [n, R, V] of hidden states [R, n, d] in the model's precision, float32 at least."""
        logits = self._logits(hidden)
        return np.asarray(torch.softmax(logits, dim=-1, out=logits).cpu().numpy())  # in place: it is large

    def _logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, R, V] of hidden states [R, n, d]."""
        states = self.weights.final_norm(hidden.transpose(0, 1).contiguous())
        logits = self._head(states)
        return logits if logits.dtype in (torch.float32, torch.float64) else logits.float()

    def _block(
        self, index: int, layer: Layer, adapters: LayerAdapters | None, x: Tensor, attention: "_Attention"
    ) -> Tensor:
        normed = layer.attention_norm(x)
        mixed = _project(
            normed, layer.queries_keys_values, None if adapters is None else adapters.queries_keys_values
        )
        attended = attention(index, mixed)
        x = x + _project(attended, layer.output, None if adapters is None else adapters.output)
        normed = layer.mlp_norm(x)
        inner = _project(normed, layer.up, None if adapters is None else adapters.up)
        if self.weights.is_gated:
            gate, up = inner.chunk(2, dim=-1)
            inner = self.weights.activation(gate).mul_(up)
        else:
            inner = self.weights.activation(inner)
        return x.add_(_project(inner, layer.down, None if adapters is None else adapters.down))


def _project(x: Tensor, projection: Projection, adapters: StackedFactors | None) -> Tensor:
    out = projection(x)
    if adapters is not None:
        adapters.add(out, x)
    return out


def _stacks(layer: LayerAdapters) -> list[StackedFactors]:
    return [each for each in (layer.queries_keys_values, layer.output, layer.up, layer.down) if each is not None]


class _Attention:
    """What attention needs to know of one forward: positions, slots, and which columns each token may look at."""

    def __init__(
        self,
        weights: DecoderWeights,
        places: Tensor,  # [n, t]
        *,
        cache: KeyValueCache,
        slots: Sequence[int],
        starts: Sequence[int],
    ) -> None:
        self._weights, self._cache, self._slots, self._starts = weights, cache, slots, starts
        if weights.cosines is not None and weights.sines is not None:
            self._cosines = weights.cosines[places][:, :, None]  # [n, t, 1, D]
            self._sines = weights.sines[places][:, :, None]  # [n, t, 1, D/2]
        texts, columns = places.shape
        self._mask: Tensor | None = None
        if texts > 1 or columns > 1:
            length = max(starts) + columns
            seen = torch.arange(length, device=places.device) <= places[:, :, None]  # [n, t, L]
            group = weights.heads // weights.key_heads
            self._mask = seen[:, None, None].expand(-1, -1, group, -1, -1).reshape(texts, 1, -1, length)

    def __call__(self, index: int, mixed: Tensor) -> Tensor:
        """Attention's output [R, n, t, H·D] for queries, keys and values [R, n, t, ·] side by side."""
        weights = self._weights
        rows, texts, columns, _ = mixed.shape
        heads, shared, size = weights.heads, weights.key_heads, weights.head_size
        split = mixed.view(rows, texts, columns, heads + 2 * shared, size)
        turned = split[..., : heads + shared, :]
        if weights.cosines is not None:
            turned = self._rotate(turned)
        keys = turned[..., heads:, :].transpose(2, 3)  # [R, n, Hk, t, D]
        values = split[..., heads + shared :, :].transpose(2, 3)
        all_keys, all_values = self._cache.extend(index, keys, values, slots=self._slots, starts=self._starts)
        # Queries that share a key head stand one after another, as if they were further columns.
        queries = turned[..., :heads, :].view(rows, texts, columns, shared, -1, size).permute(1, 0, 3, 4, 2, 5)
        batch = texts * rows
        mask = None
        if self._mask is not None:
            mask = self._mask[:, None].expand(-1, rows, -1, -1, -1).reshape(batch, 1, *self._mask.shape[2:])
        attended = torch.nn.functional.scaled_dot_product_attention(
            queries.reshape(batch, shared, -1, size),
            all_keys.flatten(0, 1),
            all_values.flatten(0, 1),
            attn_mask=mask,
        )  # [n·R, Hk, g·t, D]
        ordered = attended.view(texts, rows, shared, -1, columns, size).permute(1, 0, 4, 2, 3, 5)
        return ordered.reshape(rows, texts, columns, heads * size)

    def _rotate(self, x: Tensor) -> Tensor:
        """Rotary positions of [R, n, t, heads, D]: x·cos + (−x₂, x₁)·sin."""
        half = x.shape[-1] // 2
        turned = x * self._cosines
        turned[..., :half].addcmul_(x[..., half:], self._sines, value=-1.0)
        turned[..., half:].addcmul_(x[..., :half], self._sines)
        return turned


def packed_product(matrix: Tensor, bias: Tensor | None) -> Product | None:
    """x·matrix + bias for a matrix [in, out], or None where it cannot be packed here."""
    if matrix.device.type != "cpu" or matrix.dtype != torch.float32:
        return None
    try:
        rearrange, multiply = torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise
        packed = rearrange(matrix.t().contiguous(), 16)  # for 16 rows: as good for 2 as for 100
        multiply(matrix.new_zeros((2, matrix.shape[0])), packed, bias, "none", [], "")
    except (AttributeError, RuntimeError, NotImplementedError):  # torch without oneDNN, or another version
        return None

    def product(x: Tensor) -> Tensor:
        found: Tensor = multiply(x.reshape(-1, x.shape[-1]), packed, bias, "none", [], "")
        return found.view(*x.shape[:-1], -1)

    return product
