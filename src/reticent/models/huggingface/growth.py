"""New words for a model: one entry of the tokenizer each, and a row of the embeddings that starts as an average.

Nothing of this depends on private text, and it comes out the same every time. Input and output embeddings that are
not tied get a row each.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reticent.core.errors import ModelError
from reticent.models.huggingface.model import HuggingFaceModel


def grow_vocabulary(
    model: HuggingFaceModel, words: Sequence[str], *, shares: Tensor | None = None
) -> HuggingFaceModel:
    """The model with each of the words as one token; it is changed in place.

    Their rows start as the mean of the other rows, weighted by `shares` [V] where they are given.
    """
    module: Any = model.module
    model.tokenizer.add_tokens(list(words), special_tokens=False)
    rows = model.encode(words)
    tokens = [row[0] for row in rows if len(row) == 1]
    if len(set(tokens)) != len(words):
        raise ModelError(
            f"{model.name}: the tokenizer does not take a new word as one token", hint="use another model"
        )
    before = int(module.get_input_embeddings().weight.shape[0])
    if max(tokens) >= before:
        module.resize_token_embeddings(max(tokens) + 1, mean_resizing=False)
    _fill(module, tokens, known=min(min(tokens), before), shares=shares)
    return HuggingFaceModel(module, model.tokenizer, name=model.name)


@torch.no_grad()
def _fill(module: Any, tokens: list[int], *, known: int, shares: Tensor | None) -> None:
    """The rows of new tokens: averages of the `known` rows before them."""
    for layer in (module.get_input_embeddings(), module.get_output_embeddings()):
        if layer is None:
            continue
        weight: nn.Parameter = layer.weight
        weight[tokens] = _average(weight[:known], shares)
        bias = getattr(layer, "bias", None)
        if bias is not None:
            bias[tokens] = _average(bias[:known], shares)


def _average(rows: Tensor, shares: Tensor | None) -> Tensor:
    """The mean over rows [V, ...], by shares of them [V] where there are any."""
    if shares is None:
        return rows.mean(0)
    part = shares[: len(rows)].to(rows)
    return (part / part.sum()) @ rows
