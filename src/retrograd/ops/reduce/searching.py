"""Distinct elements, and the operators without a derivative that find indices of elements."""

from __future__ import annotations

from math import prod
from typing import Literal, overload

import numpy as np

from ...core.arrays.devices import array_module
from ...core.arrays.layout import row_major
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.layout.search import coordinates
from ..indexing.gather import index_select
from ..indexing.positions import check_range
from ..table.arguments import dimension
from ..table.batching import called_per_example
from ..table.registry import operator
from ..table.types import Dim, Operand
from .sorting import mesh


def _with_indices(distinct: Tensor, *arrays: object) -> Tensor | tuple[Tensor, ...]:
    others = [new_tensor(array) for array in arrays if array is not None]
    return (distinct, *others) if others else distinct


@overload
def unique(
    input: Operand,
    sorted: bool = True,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: Dim | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Operand,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Dim | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
@operator(reads_elements=True)
def unique(
    input: Operand,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Dim | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """``{x_i}``: the distinct elements in ascending order, or the distinct slices along ``dim``. NaN differ from NaN.

    Derivative: ``g`` of each element at its first occurrence; 0 elsewhere.
    Shape: any; without ``dim`` the result is 1-dimensional, else it has the input's shape except along ``dim``.
    Dtype: any, preserved; indices and counts are int64.

    Args:
        return_inverse: also return, per element (slice), its index among the distinct elements.
        return_counts: also return the number of occurrences of each result.
        dim: the dimension of the slices; None compares the elements of the flattened input.

    Returns:
        The elements, or a tuple ``(elements, inverse, counts)`` of the requested results.

    >>> rg.unique(rg.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    x = operand(input)
    array = x.array
    if dim is not None:
        dim = dimension(dim, array.ndim)
    found, first, inverse, counts = array_module(array).unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    distinct = new_tensor(found)
    if x._requires:
        distinct = index_select(x.reshape(-1) if dim is None else x, dim or 0, new_tensor(first))
    inverse = inverse.reshape(array.shape if dim is None else (array.shape[dim],)) if return_inverse else None
    return _with_indices(distinct, inverse, counts if return_counts else None)


@overload
def unique_consecutive(
    input: Operand,
    *,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: Dim | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Operand, return_inverse: bool = False, return_counts: bool = False, dim: Dim | None = None
) -> Tensor | tuple[Tensor, ...]: ...
@operator(like=unique, reads_elements=True)
def unique_consecutive(
    input: Operand, return_inverse: bool = False, return_counts: bool = False, dim: Dim | None = None
) -> Tensor | tuple[Tensor, ...]:
    """``x_i`` with ``x_i != x_(i-1)``: the first of each run of equal elements, or of equal slices along ``dim``.

    Args:
        return_inverse: also return, per element (slice), its index in the result.
        return_counts: also return the length of each run.

    >>> rg.unique_consecutive(rg.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    x = operand(input)
    array = x.array
    xp = array_module(array)
    shape: tuple[int, ...] = array.shape
    if dim is None:
        array, dim = array.reshape(-1), 0
    else:
        dim = dimension(dim, array.ndim)
        shape = (array.shape[dim],) if array.ndim else (1,)
        array = array.reshape(1) if not array.ndim else array
    length = array.shape[dim]
    rows = xp.moveaxis(array, dim, 0).reshape(length, array.size // max(1, length))
    new = xp.ones(length, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = new.nonzero()[0]
    counts = xp.diff(xp.concatenate([starts, xp.full(1, length, starts.dtype)])) if return_counts else None
    inverse = (xp.cumsum(new) - 1).reshape(shape) if return_inverse else None
    if x._requires:
        distinct = index_select(x.reshape(array.shape), dim, new_tensor(starts))
    else:
        distinct = new_tensor(xp.take(array, starts, axis=dim))
    return _with_indices(distinct, inverse, counts)


@operator(method=False, differentiable=False, real=True, dtype="indices only")
@called_per_example
def searchsorted(
    sorted_sequence: Operand,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """``i`` with ``s[i-1] < x <= s[i]``: the index at which each value can be inserted in sorted order.

    Shape: ``sorted_sequence`` (n) and any input, or ``sorted_sequence`` (..., n) and input (..., m) with the same
    leading dimensions; the result has the input's shape.

    Args:
        sorted_sequence: elements in ascending order along the last dimension.
        out_int32: return int32 instead of int64.
        right: insert after equal elements: ``s[i-1] <= x < s[i]``.
        side: ``"left"`` or ``"right"``, NumPy's name for the same option.
        sorter: the indices that sort ``sorted_sequence``, if it is not sorted.

    Raises:
        RuntimeError: the leading dimensions differ, ``side`` and ``right`` disagree, the sequence is 0-d, or
            ``sorter`` has another shape, is not int64, or has an index out of range.

    >>> rg.searchsorted(rg.tensor([1.0, 3.0, 5.0]), rg.tensor([3.0, 6.0]))
    tensor([1, 3])
    """
    sequence, values = operand(sorted_sequence, "sorted_sequence"), operand(input)
    if side not in (None, "left", "right") or side == "left" and right:
        raise RuntimeError(f"side={side!r} and right={right} disagree, or side is not 'left' or 'right'")
    rows, wanted = sequence.array, values.array
    if not rows.ndim:
        raise RuntimeError(f"sorted_sequence must have a dimension, got {describe(sequence)}")
    xp = array_module(rows)
    if sorter is not None:
        if sorter.shape != sequence.shape:
            raise RuntimeError(f"sorter {describe(sorter)} must have the shape of {describe(sequence)}")
        if sorter.array.dtype != np.int64:
            raise RuntimeError(f"sorter must be int64, got {describe(sorter)}")
        check_range(sorter, 0, rows.shape[-1], rows.ndim - 1, sequence, RuntimeError)
        rows = rows[mesh(sorter.array, rows.ndim - 1)]
    place = "right" if right or side == "right" else "left"
    if rows.ndim == 1:
        out = xp.searchsorted(rows, wanted, side=place)
    else:
        if rows.shape[:-1] != wanted.shape[:-1]:
            raise RuntimeError(f"the leading dimensions of {describe(sequence)} and {describe(values)} must be equal")
        lead = prod(rows.shape[:-1])  # reshape cannot infer -1 for arrays without elements
        flat_rows, flat = rows.reshape(lead, rows.shape[-1]), wanted.reshape(lead, wanted.shape[-1])
        found = [xp.searchsorted(row, flat[i], side=place) for i, row in enumerate(flat_rows)]
        out = xp.stack(found).reshape(wanted.shape) if found else xp.zeros(wanted.shape, np.int64)
    return new_tensor(xp.asarray(out, dtype=np.int32 if out_int32 else np.int64))


@operator(method=False, differentiable=False, real=True, dtype="indices only", like=searchsorted)
def bucketize(input: Operand, boundaries: Operand, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """``i`` with ``b[i-1] < x <= b[i]``: the index of the bucket of each value.

    Shape: any input, ``boundaries`` (n); the result has the input's shape.

    Args:
        boundaries: the bounds of the buckets, in ascending order.
        right: buckets contain their left bound: ``b[i-1] <= x < b[i]``.

    Raises:
        RuntimeError: ``boundaries`` is not 1-dimensional.

    >>> rg.bucketize(rg.tensor([0.5, 3.0, 9.0]), rg.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1, 3])
    """
    edges = operand(boundaries, "boundaries")
    if edges.array.ndim != 1:
        raise RuntimeError(f"boundaries must have 1 dimension, got {describe(edges)}")
    return searchsorted(edges, input, out_int32=out_int32, right=right)


@overload
def nonzero(input: Operand, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Operand, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@operator(differentiable=False, dtype="int64", reads_elements=True)
def nonzero(input: Operand, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """``i`` with ``x_i != 0``: the indices of the elements that are not zero, in row-major order.

    Shape: any with n dimensions to (count, n), or with ``as_tuple`` to n results (count); a 0-d input counts as (1).

    Args:
        as_tuple: return one Tensor per dimension; this tuple can index the input.

    >>> rg.nonzero(rg.tensor([[0, 2], [3, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    x = operand(input)
    array = x.array
    places = coordinates(array)
    if places is not None:
        return tuple(new_tensor(index) for index in np.ascontiguousarray(places.T)) if as_tuple else new_tensor(places)
    found = (array.reshape(1) if not array.ndim else array).nonzero()
    if as_tuple:
        return tuple(new_tensor(row_major(index)) for index in found)
    xp = array_module(array)
    return new_tensor(xp.stack(found, axis=1) if array.ndim else xp.zeros((len(found[0]), 0), np.int64))
