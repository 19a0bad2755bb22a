"""Sorting and selection along a dimension: operators that return elements of the input and their indices."""

from __future__ import annotations

from operator import index as as_integer
from typing import Any, NoReturn

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of
from ...core.arrays.layout import row_major
from ...core.arrays.unbuffered import ufunc_at
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.storage import share
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels import or_reference
from ...kernels.loops.layout import lanes
from ...kernels.loops.statistics.scans import leading
from ..indexing.positions import places
from ..table import batching
from ..table.arguments import dimension
from ..table.registry import operator
from ..table.types import Dim, Operand
from . import ordering
from .common import along


class ValuesIndices(NamedTuple):
    """Selected elements and their indices along the dimension."""

    values: Tensor
    indices: Tensor

    def __getattr__(self, name: str) -> NoReturn:
        hint = f"; this is a pair of values and indices, take .values.{name}" if hasattr(Tensor, name) else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")


# Elements selected along a dimension, and the derivative: max(dim), median, sort, topk, cummax ...


def mesh(index: Array, dim: int) -> tuple[Array, ...]:
    """Return a tuple that indexes an array at ``index`` along ``dim`` and elementwise along the other dimensions."""
    if index.__class__ is np.ndarray:
        return tuple([index if axis == dim else places(n, axis, index.ndim) for axis, n in enumerate(index.shape)])
    xp = array_module(index)
    key: list[Any] = []
    for axis, length in enumerate(index.shape):
        key.append(xp.arange(length).reshape([-1 if axis == other else 1 for other in range(index.ndim)]))
    key[dim] = index
    return tuple(key)


@or_reference
def _pick(x: Array, index: Array, dim: int, keepdim: bool = True) -> Array:
    if lanes.takes(x, index, dim):
        out = lanes.take(x, index, dim)
    else:
        out = row_major(x[mesh(index, dim)]) if x.ndim else x.copy()
    return out if keepdim or not x.ndim else out.reshape(x.shape[:dim] + x.shape[dim + 1 :])


@or_reference
def _place(x: Array, index: Array, dim: int, shape: tuple[int, ...]) -> Array:
    if not shape:
        return x.copy()
    xp = array_module(x)
    out = xp.zeros(shape, x.dtype)
    if x.dtype.kind == "f" and lanes.writes(out, index, dim):
        lanes.add(out, index, x, dim)
    else:
        ufunc_at("add", out, mesh(index, dim), x)
    return out


@or_reference
def _place_once(x: Array, index: Array, dim: int, shape: tuple[int, ...]) -> Array:
    if not shape:
        return x.copy()
    out = array_module(x).zeros(shape, x.dtype)
    if lanes.writes(out, index, dim):
        lanes.put(out, index, x, dim)
    else:
        out[mesh(index, dim)] = x
    return out


def picking(name: str, *, repeats: bool = False, by_rows: bool = True) -> Primitive:
    """Return a primitive that selects the elements of x at ``index`` along ``dim``.

    ``repeats`` states that an element may be selected several times, so that its cotangents must be added, and
    ``by_rows`` that all elements along ``dim`` decide which elements are selected.
    """
    place = Primitive(
        f"{name}_backward",
        _place if repeats else _place_once,
        "x index",
        [lambda g, index, dim: pick(g, index, dim=dim, keepdim=True), None],
        batch=batching.along("dim", shape="shape"),
    )
    pick = Primitive(
        name,
        _pick,
        "x index",
        [lambda g, index, x_shape, dim: place(g.reshape(index.shape), index, dim=dim, shape=x_shape), None],
        batch=batching.along("dim"),
        by_rows=by_rows,
    )
    return pick


def selected(primitive: Primitive, x: Tensor, index: Array, dim: int, keepdim: bool = True) -> ValuesIndices:
    """Return the elements at ``index`` along ``dim``; ``index`` has all dimensions, also without ``keepdim``."""
    indices = new_tensor(row_major(index))
    values = apply(primitive, (x, indices), {"dim": dim, "keepdim": keepdim})
    if keepdim:
        return ValuesIndices(values, indices)
    squeezed = new_tensor(indices.array.reshape(values.array.shape))
    share(squeezed, indices, related=False)  # writes to the returned indices must not change the saved indices
    return ValuesIndices(values, squeezed)


# Sorting

SORT = picking("sort")
TOPK = picking("topk")


def argsorted(x: Array, dim: int, descending: bool = False) -> Array:
    """Return the indices of a stable sort along ``dim``, with NaN as the largest."""
    xp = array_module(x)
    if not x.ndim:
        return xp.zeros((), np.int64)
    if x.dtype.kind == "V":  # comparisons of bfloat16 do not order NaN
        x = x.astype(np.float32)
    if ordering.takes(x, dim):
        return ordering.order(x, dim, descending)
    if descending:
        turned = along(dim, slice(None, None, -1))
        return x.shape[dim] - 1 - argsorted(x[turned], dim)[turned]
    if x.__class__ is np.ndarray or backend_of(x).name == "numpy":  # the second condition is True for traced arrays
        return x.argsort(axis=dim, kind="stable")
    return x.argsort(axis=dim)  # CuPy's sort is always stable


@operator(real=True, dtype="indices", derivative="sorted")
def sort(input: Operand, dim: Dim = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
    """``y_0 <= y_1 <= ...``: the elements in order along ``dim``, with their indices. NaN counts as the largest.

    Returns:
        The named tuple ``(values, indices)``.

    >>> rg.sort(rg.tensor([2.0, 3.0, 1.0]))
    ValuesIndices(values=tensor([1., 2., 3.]), indices=tensor([2, 0, 1]))
    """
    x = operand(input)
    dim = dimension(dim, x.array.ndim)
    return selected(SORT, x, argsorted(x.array, dim, descending), dim)


@operator(differentiable=False, real=True, dtype="indices only")
def argsort(input: Operand, dim: Dim = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """``i_0, i_1, ...`` with ``x[i_0] <= x[i_1] <= ...``: the indices that sort the input along ``dim``.

    >>> rg.argsort(rg.tensor([2.0, 3.0, 1.0]))
    tensor([2, 0, 1])
    """
    x = operand(input)
    return new_tensor(argsorted(x.array, dimension(dim, x.array.ndim), descending))


@operator(real=True, dtype="not complex", derivative="sorted")
def msort(input: Operand) -> Tensor:
    """``sort(input, 0)``: the elements in ascending order along the first dimension.

    >>> rg.msort(rg.tensor([2.0, 3.0, 1.0]))
    tensor([1., 2., 3.])
    """
    return sort(input, 0).values


@operator(real=True, like=sort)
def topk(input: Operand, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """``sort(input, dim, largest)[:k]``: the ``k`` largest elements along ``dim``, with their indices.

    NaN counts as the largest. For small ``k`` the input is partitioned in linear time instead of sorted.

    Derivative: ``g`` at the original position of each element.
    Shape: any; the results have length ``k`` along ``dim``.

    Args:
        k: the number of elements, from 0 to the length of ``dim``.
        largest: return the largest elements, else the smallest.

    Raises:
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
    index = leading(array, dim, k, largest)
    if index is None:
        index = _leading(array, dim, k, largest)
    return selected(TOPK, x, index, dim)


def _leading(x: Array, dim: int, k: int, largest: bool) -> Array:
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    if ordering.takes(x, dim):
        return ordering.first(x, dim, k, largest)
    length = x.shape[dim]
    if not 0 < 8 * k < length:
        return argsorted(x, dim, largest)[along(dim, slice(0, k))]
    xp = array_module(x)
    # Select candidates in linear time, restore their original order, then sort them.
    part = xp.argpartition(x, length - k if largest else k - 1, axis=dim)
    part = xp.sort(part[along(dim, slice(length - k, None) if largest else slice(0, k))], axis=dim)
    return part[mesh(argsorted(x[mesh(part, dim)], dim, largest), dim)]
