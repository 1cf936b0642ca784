"""A product with one great matrix and few rows, the matrix laid out for it once.

The output map of a language model is its largest matrix, and a look-up multiplies a handful of rows with it. A
general product rearranges the matrix each time, which costs as much as the arithmetic. oneDNN, which comes with
torch, can be given a matrix that is rearranged already, by the two operations that torch's own compiler uses for
inference. Where they are missing, on another device or in another precision the plain product is taken. A packed
matrix is a copy: it is for the one matrix where this counts, not for all weights.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # x [..., in] → [..., out]


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
