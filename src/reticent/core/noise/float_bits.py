"""The bits of a float inside compiled loops, where an array cannot be viewed as another type."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(context: Any, number: Any) -> Any:  # noqa: ARG001
    """The 64 bits of a float, as a whole number."""
    return types.int64(types.float64), lambda _, builder, __, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic  # type: ignore[untyped-decorator]
def from_bits(context: Any, number: Any) -> Any:  # noqa: ARG001
    """The float of such bits."""
    return types.float64(types.int64), lambda _, builder, __, args: builder.bitcast(args[0], ir.DoubleType())
