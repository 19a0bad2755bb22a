"""Sums of floating-point numbers that stay accurate, and fast, over any dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from ..opaque_calls import whole
from . import Array
from .blas import beside_pool

BLOCK = 512  # rows per block of a sum over leading dimensions
SHORT = 64  # elements of a last dimension up to which NumPy's sum spends more on beginning than on adding
LONG = 4096  # elements from which a sum over leading dimensions is worth blocking
LARGE = 1 << 18  # elements from which several threads may sum

# ``ndarray.sum`` begins with an import, which an interpreter that is ending cannot do.
_add_all: Callable[..., Any] = np.add.reduce

# The sum of a large array by several threads, or None where NumPy is to sum.
shared: list[Callable[[Any, tuple[int, ...] | None, bool], Any]] = []


# ``np.add`` of large arrays by several threads, or nothing where NumPy is to add.
adding: list[Callable[..., Any]] = []


def plus(x: Array, y: Array) -> Array:
    """``x + y``, by all threads where that pays."""
    return adding[0](x, y) if adding and type(x) is ndarray and x.size >= LARGE else x + y


def add_to(total: Array, x: Array) -> Array:
    """``total += x``, by all threads where that pays."""
    if adding and type(total) is ndarray and total.size >= LARGE:
        return adding[0](total, x, total)
    total += x
    return total


@whole
def accurate_sum(x: Any, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    """The sum, with an error that grows no faster than the logarithm of the length once that exceeds ``BLOCK``.

    NumPy sums pairwise only along contiguous memory; over other dimensions it adds row by row, with an error that grows
    with their number. There, a product of each block of rows with ones gives one row per block (by BLAS, which is
    faster, too), and these rows are summed likewise; so are short last dimensions. float16 is summed in float32.
    """
    dtype = x.dtype
    if x.__class__ is ndarray and x.size < LONG and (dtype.char == "f" or dtype.char == "d"):
        out = small_sum(x, dim, keepdim)
        return x.sum(dim, keepdims=keepdim) if out is None else out
    if dtype.kind in "biu":
        out = shared[0](x, dim, keepdim) if shared and x.size >= LARGE else None
        return x.sum(axis=dim, keepdims=keepdim, dtype=np.int64) if out is None else out
    if dtype == np.float16:
        return accurate_sum(x.astype(np.float32), dim, keepdim).astype(dtype)
    if (
        dim is None
        or x.__class__ is not ndarray  # a GPU's sums are trees already
        or dtype.kind != "f"
        or not x.flags.c_contiguous
        or x.ndim - 1 in dim
        and (len(dim) > 1 or x.shape[-1] > SHORT)
    ):
        out = shared[0](x, dim, keepdim) if shared and x.size >= LARGE else None
        if out is None:
            total = _add_all if x.__class__ is ndarray else type(x).sum
            out = total(x, axis=dim, keepdims=keepdim)
        return out
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
    """The sum of all elements as a number of NumPy's: to divide that costs less than to divide an array."""
    if x.__class__ is ndarray and x.size < LONG and x.dtype.char in "fd":
        return x.ravel().dot(_ones(x.size, x.dtype))
    return x.sum()


def small_sum(x: Any, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """The sum of few float32 or float64, over all or one end of the dimensions, by a product with ones, which begins
    faster; else None.
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
    """The sum over the middle one of three dimensions."""
    before, rows, width = x.shape
    if rows <= BLOCK:
        return beside_pool(np.matmul, _ones(rows, x.dtype), x)
    blocks, rest = divmod(rows, BLOCK)
    whole = x[:, : rows - rest].reshape(before, blocks, BLOCK, width)
    total = _sum_rows(beside_pool(np.matmul, _ones(BLOCK, x.dtype), whole))
    return total + x[:, rows - rest :].sum(axis=1) if rest else total
