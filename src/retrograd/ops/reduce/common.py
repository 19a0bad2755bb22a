"""Helpers of operators along dimensions: dimensions, result shapes and dtypes."""

from __future__ import annotations

from functools import lru_cache
from math import prod as product

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import INEXACT, as_dtype, promote_types
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor
from ..shape.conversion import CAST
from ..table.arguments import dimensions
from ..table.types import Dims, DTypeLike, Operand


def reduced(dim: Dims | None, ndim: int) -> tuple[int, ...] | None:
    """Return the dimensions to reduce as nonnegative indices; None for all dimensions, which ``()`` also means."""
    if dim is None:
        return None
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim + ndim if dim < 0 else dim,)
    axes = dimensions(dim, ndim)
    return (axes if ndim else None) or None


@lru_cache(maxsize=1024)
def kept_shape(shape: tuple[int, ...], dim: tuple[int, ...] | int | None) -> tuple[int, ...]:
    """Return the shape of a reduction with ``keepdim=True``."""
    if dim is None:
        return (1,) * len(shape)
    axes = dim if isinstance(dim, tuple) else (dim,)
    return tuple([1 if axis in axes else length for axis, length in enumerate(shape)])


def kept(r: Array, shape: tuple[int, ...], dim: tuple[int, ...] | int | None, keepdim: bool) -> Array:
    """Reshape the result of a reduction (or its cotangent) as with ``keepdim=True``, to broadcast with the input."""
    return r if keepdim else r.reshape(kept_shape(shape, dim))


def count(shape: tuple[int, ...], dim: tuple[int, ...] | None) -> int:
    """Return the number of elements that each result of a reduction combines."""
    return product(shape) if dim is None else product([shape[axis] for axis in dim])


def divided(g: Array, n: int) -> Array:
    """Return ``g / n``, even if n is beyond the range of float16, or 0 and the result is repeated for no element."""
    return g * (1 / n) if n > 65504 and g.dtype == np.float16 else g / (n or 1)


def along(dim: int, part: slice) -> tuple[slice, ...]:
    """Return an index that selects a part of one dimension."""
    return (slice(None),) * dim + (part,)


def converted(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    """Return ``x`` converted to ``dtype``, or ``x`` for None."""
    if dtype is None or x.array.dtype == dtype:
        return x
    return apply(CAST, (x,), {"dtype": as_dtype(dtype)})


def floating(input: Operand, dtype: DTypeLike | None = None) -> Tensor:
    """Return the input of an operator that is defined only for floating numbers, converted to ``dtype`` if given."""
    x = operand(input) if dtype is None else converted(operand(input), dtype)
    if x.array.dtype.kind not in INEXACT:
        raise RuntimeError(f"expected a floating or complex dtype, got {describe(x)}; convert it with .float()")
    return x


def for_norm(input: Operand, dtype: DTypeLike | None) -> Tensor:
    """Return the input of a norm converted to ``dtype``, which must be at least as wide and of the same kind."""
    x = floating(input)
    if dtype is None:
        return x
    wanted, own = as_dtype(dtype), x.array.dtype
    if wanted.kind not in INEXACT:
        raise RuntimeError(f"dtype must be floating or complex, got {wanted}")
    if (wanted.kind == "c") != (own.kind == "c"):
        raise RuntimeError(f"dtype must be complex for complex inputs and real for real ones, got {wanted} for {own}")
    if promote_types(own, wanted) != wanted:
        raise RuntimeError(f"dtype {wanted} is narrower than that of the input, {own}")
    return converted(x, wanted)


def reduce_(primitive: Primitive, x: Tensor, dim: Dims | None, keepdim: bool, **params: object) -> Tensor:
    """Apply a primitive with the parameters ``dim`` and ``keepdim``, after checking them."""
    params.update(dim=reduced(dim, x.array.ndim), keepdim=keepdim)
    return apply(primitive, (x,), params)
