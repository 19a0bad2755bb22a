"""Accurate and fast sums of floating-point numbers over any dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ..opaque_calls import computing, whole
from . import Array
from .blas import beside_pool
from .layout import cast

BLOCK = 512  # rows per block of a sum over leading dimensions
SHORT = 64  # length of a last dimension up to which overhead per row dominates NumPy's sum
LONG = 4096  # elements up to which ``small_sum`` is used
LARGE = 1 << 18  # elements from which several threads may sum

# ``ndarray.sum`` imports a module, which fails during interpreter shutdown.
_add_all: Callable[..., object] = np.add.reduce

# A multi-threaded sum of large arrays, which returns None if NumPy should sum.
shared: list[Callable[[Any, tuple[int, ...] | None, bool], object]] = []


# A multi-threaded ``np.add`` of large arrays; empty if NumPy adds.
adding: list[Callable[..., Any]] = []


def plus(x: Array, y: Array) -> Array:
    """Return ``x + y``; several threads add large arrays."""
    return adding[0](x, y) if adding and type(x) is ndarray and x.size >= LARGE else x + y


def add_to(total: Array, x: Array) -> Array:
    """Return ``total`` after ``total += x``; several threads add large arrays."""
    if adding and type(total) is ndarray and total.size >= LARGE:
        return adding[0](total, x, total)
    total += x
    return total


@whole
@computing("sum")
def accurate_sum(x: Any, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    """Sum with an error that grows at most with the logarithm of the length, for lengths above ``BLOCK``.

    NumPy sums pairwise only along contiguous memory; over other dimensions it adds row by row, with an error that grows
    with the number of rows. Here each block of rows is multiplied by ones, which gives one row per block, and these
    rows are summed in the same way; BLAS is faster as well. Short last dimensions are also summed by a product with
    ones. float16 is summed in float32.
    """
    dtype = x.dtype
    if x.__class__ is ndarray and x.size < LONG and (dtype.char == "f" or dtype.char == "d"):
        out = small_sum(x, dim, keepdim)
        return _add_all(x, dim, None, None, keepdim) if out is None else out
    if dtype.kind in "biu":
        out = shared[0](x, dim, keepdim) if shared and x.size >= LARGE else None
        return x.sum(axis=dim, keepdims=keepdim, dtype=np.int64) if out is None else out
    if dtype == np.float16 or dtype.kind == "V":
        return accurate_sum(cast(x, np.dtype(np.float32)), dim, keepdim).astype(dtype)
    out = shared[0](x, dim, keepdim) if shared and x.size >= LARGE else None
    if out is not None:
        return out
    if (
        dim is None
        or x.__class__ is not ndarray  # on GPUs, CuPy's sums are pairwise
        or dtype.kind == "c"
        or not x.flags.c_contiguous
        or x.ndim - 1 in dim
        and (len(dim) > 1 or x.shape[-1] > SHORT)
    ):
        total = _add_all if x.__class__ is ndarray else type(x).sum
        return total(x, axis=dim, keepdims=keepdim)
    if x.ndim - 1 in dim:
        out = beside_pool(np.matmul, x, _ones(x.shape[-1], dtype))
        return out.reshape((*x.shape[:-1], 1)) if keepdim else out
    if x.ndim == 2 and len(x) <= BLOCK:
        out = beside_pool(_ones(len(x), dtype).dot, x)
        return out.reshape((1, x.shape[1])) if keepdim else out
    out = x
    for axis in sorted(dim, reverse=True):
        out = _sum_rows(out.reshape(prod(out.shape[:axis]), out.shape[axis], -1)).reshape(
            *out.shape[:axis], 1, *out.shape[axis + 1 :]
        )
    return out if keepdim else out.reshape([n for axis, n in enumerate(x.shape) if axis not in dim])


@lru_cache(maxsize=64)
def _ones(length: int, dtype: np.dtype) -> Array:
    ones = np.ones(length, dtype)
    ones.flags.writeable = False
    return ones


def total_of(x: Array) -> Array:
    """Return the sum of all elements as a NumPy scalar, whose arithmetic is cheaper than that of a 0-d array."""
    if x.__class__ is ndarray and x.size < LONG and x.dtype.char in "fd":
        return x.ravel().dot(_ones(x.size, x.dtype))
    return x.sum()


def small_sum(x: Any, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """Sum a small float32 or float64 array by a product with ones, which has less overhead than NumPy's sum.

    Return None unless the sum is over all dimensions, the last one, or the first of two.
    """
    if dim is None or len(dim) == x.ndim:
        out = np.empty((), x.dtype)
        x.ravel().dot(_ones(x.size, x.dtype), out)  # returns a NumPy scalar
        return out.reshape((1,) * x.ndim) if keepdim else out
    if len(dim) > 1:
        return None
    if dim[0] == x.ndim - 1:
        out = x.dot(_ones(x.shape[-1], x.dtype))
        return out.reshape((*x.shape[:-1], 1)) if keepdim else out
    if x.ndim == 2:
        out = _ones(len(x), x.dtype).dot(x)
        return out.reshape((1, x.shape[1])) if keepdim else out
    return None


def _sum_rows(x: np.ndarray) -> np.ndarray:
    before, rows, width = x.shape
    if rows <= BLOCK:
        return beside_pool(np.matmul, _ones(rows, x.dtype), x)
    blocks, rest = divmod(rows, BLOCK)
    whole = x[:, : rows - rest].reshape(before, blocks, BLOCK, width)
    total = _sum_rows(beside_pool(np.matmul, _ones(BLOCK, x.dtype), whole))
    return total + x[:, rows - rest :].sum(axis=1) if rest else total
