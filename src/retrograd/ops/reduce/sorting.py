"""Sorting and selecting along a dimension: results that are elements of the input, and where they stood."""

from __future__ import annotations

from math import prod
from operator import index as as_integer
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.storage import share
from ...core.tensor import Tensor, new_tensor
from ..table.arguments import dimension
from ..table.registry import numpy_names, operator


class ValuesIndices(NamedTuple):
    """Selected elements and their indices along the dimension."""

    values: Tensor
    indices: Tensor


# Elements picked along a dimension, and their derivative: max(dim), median, sort, topk, cummax ...


def mesh(index: Any, dim: int) -> tuple[Any, ...]:
    """What indexes an array at ``index`` along ``dim`` and at its own place along the others."""
    xp = array_module(index)
    places: list[Any] = []
    for axis, length in enumerate(index.shape):
        places.append(xp.arange(length).reshape([-1 if axis == other else 1 for other in range(index.ndim)]))
    places[dim] = index
    return tuple(places)


def _pick(x: Any, index: Any, dim: int, keepdim: bool = True) -> Any:
    out = x[mesh(index, dim)] if x.ndim else x.copy()
    return out if keepdim or not x.ndim else out.reshape(x.shape[:dim] + x.shape[dim + 1 :])


def _place(x: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    if not shape:
        return x.copy()
    xp = array_module(x)
    out = xp.zeros(shape, x.dtype)
    xp.add.at(out, mesh(index, dim), x)
    return out


def _place_once(x: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    if not shape:
        return x.copy()
    out = array_module(x).zeros(shape, x.dtype)
    out[mesh(index, dim)] = x
    return out


def picking(name: str, *, repeats: bool = False) -> Primitive:
    """A primitive that takes from x, along ``dim``, the elements at ``index``; a single one also without ``keepdim``.

    ``repeats`` says that an element may be taken several times, so that its cotangents must be added.
    """
    place = Primitive(
        f"{name}_backward",
        _place if repeats else _place_once,
        "x index",
        [lambda g, index, dim: pick(g, index, dim=dim, keepdim=True), None],
    )
    pick = Primitive(
        name,
        _pick,
        "x index",
        [lambda g, index, x_shape, dim: place(g.reshape(index.shape), index, dim=dim, shape=x_shape), None],
    )
    return pick


def selected(primitive: Primitive, x: Tensor, index: Any, dim: int, keepdim: bool = True) -> ValuesIndices:
    """The elements at ``index``, an array with its dimensions kept, along ``dim``."""
    indices = new_tensor(index)
    values = apply(primitive, (x, indices), {"dim": dim, "keepdim": keepdim})
    if keepdim:
        return ValuesIndices(values, indices)
    squeezed = new_tensor(index.reshape(values.array.shape))
    share(squeezed, indices, related=False)  # a write to it must not reach what the node saved
    return ValuesIndices(values, squeezed)


# Sorting

SORT = picking("sort")
TOPK = picking("topk")


def argsorted(x: Any, dim: int, descending: bool = False) -> Any:
    """The indices that sort an array along ``dim``, equal elements in their order, NaN as the largest."""
    xp = array_module(x)
    if not x.ndim:
        return xp.zeros((), np.int64)
    if descending:
        return x.shape[dim] - 1 - xp.flip(argsorted(xp.flip(x, dim), dim), dim)
    if x.__class__ is np.ndarray:
        return x.argsort(axis=dim, kind="stable")
    return x.argsort(axis=dim)  # CuPy has no other than a stable sort


@operator(real=True)
@numpy_names
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
    """The elements in ascending order along ``dim``, with their indices. NaN counts as the largest number.

    Equal elements keep their order (``stable`` may be given; every sort here is stable).

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.sort(rg.tensor([2.0, 3.0, 1.0]))
    ValuesIndices(values=tensor([1., 2., 3.]), indices=tensor([2, 0, 1]))
    """
    x = operand(input)
    dim = dimension(dim, x.array.ndim)
    return selected(SORT, x, argsorted(x.array, dim, descending), dim)


@operator(differentiable=False, real=True)
@numpy_names
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the input along ``dim``; see ``sort``.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.argsort(rg.tensor([2.0, 3.0, 1.0]))
    tensor([2, 0, 1])
    """
    x = operand(input)
    return new_tensor(argsorted(x.array, dimension(dim, x.array.ndim), descending))


@operator(real=True)
def msort(input: Tensor) -> Tensor:
    """The elements in ascending order along the first dimension.

    >>> rg.msort(rg.tensor([2.0, 3.0, 1.0]))
    tensor([1., 2., 3.])
    """
    return sort(input, 0).values


@operator(real=True)
@numpy_names
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The ``k`` largest (or smallest) elements along ``dim``, in order, with their indices. NaN counts as the largest.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: ``k`` is negative or larger than the dimension.

    >>> rg.topk(rg.tensor([2.0, 3.0, 1.0]), 2)
    ValuesIndices(values=tensor([3., 2.]), indices=tensor([1, 0]))
    """
    x = operand(input)
    array = x.array
    dim = dimension(dim, array.ndim)
    k = as_integer(k)
    length = array.shape[dim] if array.ndim else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"k={k} is out of range for dimension {dim} of {describe(x)}")
    if not array.ndim:
        return sort(x)
    if k > 0 and 8 * k < length:
        xp = array_module(array)
        # Candidates in linear time, in the order of their places, then sorted among themselves.
        part = xp.argpartition(array, length - k if largest else k - 1, axis=dim)
        part = xp.sort(part[_along(dim, slice(length - k, None) if largest else slice(0, k))], axis=dim)
        index = part[mesh(argsorted(array[mesh(part, dim)], dim, largest), dim)]
    else:
        index = argsorted(array, dim, largest)[_along(dim, slice(0, k))]
    return selected(TOPK, x, index, dim)


def _along(dim: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * dim + (part,)


# Distinct elements and places of elements


def _results(*arrays: Any) -> Any:
    """Arrays that are wanted, as Tensors: one by itself, several as a tuple."""
    tensors = tuple(new_tensor(array) for array in arrays if array is not None)
    return tensors[0] if len(tensors) == 1 else tensors


@operator(differentiable=False)
@numpy_names
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order, or the distinct slices along ``dim``.

    Returns:
        The elements; with ``return_inverse`` also, per element, its index among them; with ``return_counts`` how often
        each occurs.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.unique(rg.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    x = operand(input)
    array = x.array
    if dim is not None:
        dim = dimension(dim, array.ndim)
    found, inverse, counts = array_module(array).unique(
        array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    inverse = inverse.reshape(array.shape if dim is None else (array.shape[dim],)) if return_inverse else None
    return _results(found, inverse, counts if return_counts else None)


@operator(differentiable=False)
@numpy_names
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The input (flattened, or its slices along ``dim``) with all but the first of equal neighbours left out.

    Returns:
        As ``unique``.

    Raises:
        IndexError: ``dim`` is out of range.

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
    return _results(xp.take(array, starts, axis=dim), inverse, counts)


@operator(method=False, differentiable=False, real=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where to insert each value to keep the sequence sorted: before equal elements, or with ``right`` after them.

    A sequence of several dimensions is a stack of sequences, for values with the same leading dimensions.

    Raises:
        RuntimeError: the leading dimensions differ, or ``side`` and ``right`` disagree.

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
        rows = rows[mesh(sorter.array, rows.ndim - 1)]
    place = "right" if right or side == "right" else "left"
    if rows.ndim == 1:
        out = xp.searchsorted(rows, wanted, side=place)
    else:
        if rows.shape[:-1] != wanted.shape[:-1]:
            raise RuntimeError(f"the leading dimensions of {describe(sequence)} and {describe(values)} must be equal")
        lead = prod(rows.shape[:-1])  # not -1, which has no meaning without elements
        flat_rows, flat = rows.reshape(lead, rows.shape[-1]), wanted.reshape(lead, wanted.shape[-1])
        found = [xp.searchsorted(row, flat[i], side=place) for i, row in enumerate(flat_rows)]
        out = xp.stack(found).reshape(wanted.shape) if found else xp.zeros(wanted.shape, np.int64)
    return new_tensor(xp.asarray(out, dtype=np.int32 if out_int32 else np.int64))


@operator(method=False, differentiable=False, real=True)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket of each value: ``boundaries[i-1] < x <= boundaries[i]``, with ``right`` ``<= x <``.

    Raises:
        RuntimeError: ``boundaries`` is not 1-dimensional.

    >>> rg.bucketize(rg.tensor([0.5, 3.0, 9.0]), rg.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1, 3])
    """
    edges = operand(boundaries, "boundaries")
    if edges.array.ndim != 1:
        raise RuntimeError(f"boundaries must have 1 dimension, got {describe(edges)}")
    return searchsorted(edges, input, out_int32=out_int32, right=right)


@operator(differentiable=False)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: a row per element, or with ``as_tuple`` a Tensor per dimension.

    >>> rg.nonzero(rg.tensor([[0, 2], [3, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    x = operand(input)
    array = x.array
    found = (array.reshape(1) if not array.ndim else array).nonzero()
    if as_tuple:
        return tuple(new_tensor(index) for index in found)
    xp = array_module(array)
    return new_tensor(xp.stack(found, axis=1) if array.ndim else xp.zeros((len(found[0]), 0), np.int64))
