"""Products of the factors of per-record gradients, by the fastest library that torch has for them.

torch multiplies float32 matrices by MKL, which does not use AVX-512 on processors that are not Intel's; oneDNN,
which torch has as well, does: 231 against 101 Gflop/s on one core of an AMD EPYC. Where MKL does use it, its
batched products are the faster ones (a private step of stories15m takes 1.14 of a plain one, with oneDNN 1.21).
There is no batched product of oneDNN for float32 in torch, so a large product is made record by record, which
also keeps one record's result in the cache while its norm is taken; small ones stay with torch.

The operator has no public name, so it is tried on numbers first: where it is missing, refuses, or computes anything
but the product, torch's own is used. A product is made by one or the other by the shape of one record alone: which
records share a batch changes nothing.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

BLOCKS: Final = 2  # a Gram matrix is symmetric: row blocks up to the diagonal, 3/4 of the product
_LEAST_WORK: Final = 1 << 23  # multiply-adds in one record's product; below, calls cost more than is gained
_GAINS: Final = ("AVX512",)  # measured; with AVX2 alone both libraries take the same time
_INTEL: Final = "GenuineIntel"
_PROCESSOR: Final = Path("/proc/cpuinfo")
_TOLERANCE: Final = 1e-5  # far above float32's, far below that of shorter formats

_Operator = Callable[[Tensor, Tensor], Tensor]


def gram_blocks(x: Tensor) -> list[Tensor]:
    """x xᵀ of x [B, T, d] as row blocks [B, rows, end] that end at their diagonal block."""
    length = x.shape[1]
    edges = [length * k // BLOCKS for k in range(BLOCKS + 1)] if length >= 16 * BLOCKS else [0, length]
    multiply = _operator_for(x, work=length * length * x.shape[2])
    if multiply is None:
        return [torch.bmm(x[:, start:end], x[:, :end].transpose(1, 2)) for start, end in pairwise(edges)]
    x = x.contiguous()
    return [torch.stack([multiply(each[start:end], each[:end]) for each in x]) for start, end in pairwise(edges)]


def record_products(left: Tensor, right: Tensor) -> list[Tensor] | None:
    """Σ_t left_t ⊗ right_t [p, q] of each record of left [B, T, p] and right [B, T, q], strided either way.

    None where one batched product is as fast.
    """
    multiply = _operator_for(left, right, work=left[0].numel() * right.shape[2])
    if multiply is None:
        return None
    return [_of_columns(multiply, a, b) for a, b in zip(left.contiguous(), right.contiguous(), strict=True)]


def summed_products(left: Tensor, right: Tensor) -> Tensor:
    """Σ_b Σ_t left_bt ⊗ right_bt [p, q] of left [B, T, p] and right [B, T, q]."""
    multiply = _operator_for(left, right, work=left[0].numel() * right.shape[2])
    left, right = left.flatten(0, 1), right.flatten(0, 1)
    if multiply is None:
        return left.t() @ right
    return _of_columns(multiply, left.contiguous(), right.contiguous()).contiguous()


def _of_columns(multiply: _Operator, left: Tensor, right: Tensor) -> Tensor:
    """leftᵀ right [p, q] of [T, p] and [T, q]: the first factor is copied, so that is the narrower one."""
    if left.shape[1] <= right.shape[1]:
        return multiply(left.t().contiguous(), right.t())
    return multiply(right.t().contiguous(), left.t()).t()


def _operator_for(*factors: Tensor, work: int) -> _Operator | None:
    """oneDNN's x yᵀ, where it is worth its call and knows these tensors."""
    if work < _LEAST_WORK or not _gains():
        return None
    if any(type(x) is not Tensor or x.dtype is not torch.float32 or x.device.type != "cpu" for x in factors):
        return None
    return _operator() if torch.backends.mkldnn.enabled else None


@cache
def _gains() -> bool:
    """Whether this processor has AVX-512 that MKL leaves unused: MKL asks who made it."""
    if torch.backends.cpu.get_cpu_capability() not in _GAINS:
        return False
    return not _PROCESSOR.is_file() or _INTEL not in _PROCESSOR.read_text(encoding="utf8", errors="replace")


@cache
def _operator() -> _Operator | None:
    """oneDNN's x yᵀ of two matrices, tried on numbers; None where torch has none that can be relied on."""
    found: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        product: Tensor = found(x, y, None, "none", [], "")
        return product

    try:
        return multiply if _is_product(multiply) else None
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def _is_product(multiply: _Operator) -> bool:
    """Whether it multiplies in float32, rows and columns as they lie, and lets what is not a number through."""
    source = torch.Generator().manual_seed(0)
    x, y = (torch.randn(rows, 96, generator=source) for rows in (40, 56))
    expected = x.double() @ y.double().t()
    for factor in (y, y.t().contiguous().t()):
        if not torch.allclose(multiply(x, factor).double(), expected, rtol=_TOLERANCE, atol=_TOLERANCE):
            return False
    broken = x.clone()
    broken[3, 5] = torch.nan
    return bool(multiply(broken, y)[3].isnan().all()) and bool(
        multiply(torch.zeros_like(x), broken)[:, 3].isnan().all()
    )
