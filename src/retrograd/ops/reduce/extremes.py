"""Maxima and minima over dimensions, and their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import int64
from ...core.arrays.summation import LARGE
from ...core.errors import describe
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.elements.ufuncs import reduced
from ...kernels.loops.statistics.scans import foremost
from ..math.bounds import maximum, minimum
from ..table import batching
from ..table.arguments import dimension, dimensions
from ..table.composites import one_node
from ..table.elementwise_primitives import KEEP
from ..table.registry import operator
from ..table.types import Dim, Dims, Operand
from .common import kept, kept_shape, reduce_
from .sorting import ValuesIndices, picking, selected

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


def _not_empty(x: Tensor, dim: Dims | None) -> None:
    """Raise PyTorch's error for a reduction of no elements: RuntimeError without ``dim``, otherwise IndexError."""
    shape = x.array.shape
    if dim is None or dim == ():
        if x.array.size == 0:
            raise RuntimeError(f"expected a dimension to reduce for {describe(x)}, which has no elements")
        return
    for axis in dimensions(dim, len(shape)):
        if shape and shape[axis] == 0:
            raise IndexError(f"expected dimension {axis} of {describe(x)} to have non-zero size")


def _extreme_vjp(g: Array, x: Array, ans: Array, dim: tuple[int, ...] | None, keepdim: bool) -> Array:
    """Distribute the cotangent equally among all elements that equal the extreme, as PyTorch's amax and max() do."""
    hits = x == kept(ans, x.shape, dim, keepdim)
    ties = hits.sum(axis=dim, keepdims=True, dtype=g.dtype)
    return kept(g, x.shape, dim, keepdim) / ties * hits


def equal_share_vjp(g: Array, x: Array, ans: Array) -> Array:
    """Distribute the cotangent equally among elements equal to ``ans``, where NaN equals NaN, as in PyTorch."""
    hits = (x == ans) | ((x != x) & (ans != ans))
    return KEEP(g / hits.sum(dtype=g.dtype), hits)


def _extreme(name: str, method: str, rule: Rule = _extreme_vjp) -> Primitive:
    ufunc: Any = np.maximum if method == "max" else np.minimum

    def forward(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        out = reduced(ufunc, x, dim, keepdim) if x.size >= LARGE else None
        if out is not None:
            return out
        if x.__class__ is np.ndarray:
            # Without a 0-d array to write to, reduce would return a NumPy scalar.
            number = np.empty((), x.dtype) if dim is None and not keepdim else None
            return ufunc.reduce(x, dim, None, number, keepdim)
        return getattr(x, method)(axis=dim, keepdims=keepdim)

    def of_all(call: Call) -> Any:
        primitive = AMAX if method == "max" else AMIN
        return batching.flattened({"dim": 1}, primitive)(call)

    batch = batching.along("dim") if rule is _extreme_vjp else of_all
    return Primitive(name, forward, "x", [rule], signals=True, contiguous=True, batch=batch, by_rows=True)


AMAX, AMIN = _extreme("amax", "max"), _extreme("amin", "min")
MAX_OF_ALL, MIN_OF_ALL = _extreme("max", "max", equal_share_vjp), _extreme("min", "min", equal_share_vjp)
MAX, MIN = picking("max"), picking("min")


@operator(real=True, dtype="not complex")
def amax(input: Operand, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """``max_i x_i`` over all dimensions, one, or several; NaN if an element is NaN.

    Derivative: ``g`` at the largest element, shared evenly by ties; NaN where the result is NaN.

    Raises:
        RuntimeError: the input has no elements and no ``dim`` is given.
        IndexError: a dimension has no elements, or is out of range.

    >>> rg.amax(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([5., 4.])
    """
    x = operand(input)
    _not_empty(x, dim)
    return reduce_(AMAX, x, dim, keepdim)


@operator(real=True, like=amax)
def amin(input: Operand, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """``min_i x_i`` over all dimensions, one, or several; NaN if an element is NaN.

    Derivative: ``g`` at the smallest element, shared evenly by ties; NaN where the result is NaN.

    >>> rg.amin(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([1., 3.])
    """
    x = operand(input)
    _not_empty(x, dim)
    return reduce_(AMIN, x, dim, keepdim)


@operator(differentiable=False, real=True, shape="reduced dimension")
def argmax(input: Operand, dim: Dim | None = None, keepdim: bool = False) -> Tensor:
    """``argmax_i x_i``, of all elements (flattened) or along ``dim``: the first of equal elements, or the first NaN.

    Dtype: any but bool and complex; the result is int64.

    Raises:
        IndexError: there are no elements, or ``dim`` is out of range.
        RuntimeError: the input holds bools.

    >>> rg.argmax(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([1, 1])
    """
    return _index_of_extreme("argmax", input, dim, keepdim)


@operator(differentiable=False, real=True, like=argmax)
def argmin(input: Operand, dim: Dim | None = None, keepdim: bool = False) -> Tensor:
    """``argmin_i x_i``, of all elements (flattened) or along ``dim``: the first of equal elements, or the first NaN.

    >>> rg.argmin(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([0, 0])
    """
    return _index_of_extreme("argmin", input, dim, keepdim)


def _index_of_extreme(name: Literal["argmax", "argmin"], input: Operand, dim: Dim | None, keepdim: bool) -> Tensor:
    x = operand(input)
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if dim is None:
        if x.array.size == 0:
            raise IndexError(f"expected a dimension to reduce for {describe(x)}, which has no elements")
        index = getattr(x.array.reshape(-1), name)()
        return new_tensor(array_module(x).asarray(index).reshape((1,) * x.array.ndim if keepdim else ()))
    return new_tensor(_indices(name, x, dimension(dim, x.array.ndim), keepdim))


def _indices(name: Literal["argmax", "argmin"], x: Tensor, dim: int, keepdim: bool) -> Array:
    _not_empty(x, dim)
    array = x.array
    if array.ndim == 0:
        return array_module(array).zeros((), int64)
    index = foremost(array, dim, name == "argmax")
    if index is None:
        index = getattr(array, name)(axis=dim)
    shape = kept_shape(array.shape, dim)
    return array_module(array).asarray(index).reshape(shape if keepdim else shape[:dim] + shape[dim + 1 :])


def _form(
    of_all: Primitive,
    along: Primitive,
    of_two: Callable[[Tensor, Tensor], Tensor],
    input: Operand,
    dim: Dim | Tensor | None,
    keepdim: bool,
    other: Operand | None,
) -> Tensor | ValuesIndices:
    """Apply max or min in the forms ``f(x)``, ``f(x, dim)``, which also returns indices, or ``f(x, y)``."""
    x = operand(input)
    if other is not None:
        return of_two(x, operand(other, "other"))
    if isinstance(dim, Tensor) or hasattr(dim, "__array_interface__"):
        return of_two(x, operand(dim))
    if dim is not None:
        dim = dimension(dim, x.array.ndim)
        return selected(along, x, _indices("argmax" if along is MAX else "argmin", x, dim, True), dim, keepdim)
    _not_empty(x, None)
    return reduce_(of_all, x, None, False)


@overload
def max_(input: Operand, dim: Dim, keepdim: bool = False) -> ValuesIndices: ...
@overload
def max_(
    input: Operand, dim: Tensor | None = None, keepdim: bool = False, *, other: Operand | None = None
) -> Tensor: ...
@operator(real=True, shape="reduced dimension", like=amax)
def max_(
    input: Operand, dim: Dim | Tensor | None = None, keepdim: bool = False, *, other: Operand | None = None
) -> Tensor | ValuesIndices:
    """``max_i x_i`` of all elements; ``max(x, dim)`` along a dimension, ``max(x, y)`` elementwise. NaN if any x is NaN.

    Derivative: ``max(x)``: ``g`` at the largest element, shared evenly by ties; ``max(x, dim)``: ``g`` at the element
    with the returned index; ``max(x, y)``: that of ``maximum``.

    Args:
        dim: the dimension; a Tensor is interpreted as ``other``.
        other: the values to compare with, elementwise, with broadcasting.

    Returns:
        A Tensor; with ``dim`` the named tuple ``(values, indices)``, with the first index of equal elements.

    Raises:
        IndexError: ``dim`` has no elements, or is out of range.

    >>> x = rg.tensor([[1.0, 5.0], [3.0, 4.0]])
    >>> rg.max(x)
    tensor(5.)
    >>> rg.max(x, 1)
    ValuesIndices(values=tensor([5., 4.]), indices=tensor([1, 1]))
    """
    return _form(MAX_OF_ALL, MAX, maximum, input, dim, keepdim, other)


@overload
def min_(input: Operand, dim: Dim, keepdim: bool = False) -> ValuesIndices: ...
@overload
def min_(
    input: Operand, dim: Tensor | None = None, keepdim: bool = False, *, other: Operand | None = None
) -> Tensor: ...
@operator(real=True, like=max_)
def min_(
    input: Operand, dim: Dim | Tensor | None = None, keepdim: bool = False, *, other: Operand | None = None
) -> Tensor | ValuesIndices:
    """``min_i x_i`` of all elements; ``min(x, dim)`` along a dimension, ``min(x, y)`` elementwise. NaN if any x is NaN.

    Derivative: ``min(x)``: ``g`` at the smallest element, shared evenly by ties; ``min(x, dim)``: ``g`` at the element
    with the returned index; ``min(x, y)``: that of ``minimum``.

    >>> rg.min(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), 1).values
    tensor([1., 3.])
    """
    return _form(MIN_OF_ALL, MIN, minimum, input, dim, keepdim, other)


_aminmax_node = one_node("aminmax")


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


@operator(real=True, like=max_)
def aminmax(input: Operand, *, dim: Dim | None = None, keepdim: bool = False) -> MinMax:
    """``(min_i x_i, max_i x_i)``, of all elements or along ``dim``; NaN if an element is NaN.

    Derivative: those of ``amin`` and ``amax``: ties share ``g`` evenly.
    Shape: any; the results are 0-d, or without the dimension (length 1 with ``keepdim``).

    Args:
        dim: the dimension, by default all.

    Returns:
        The named tuple ``(min, max)``.

    >>> rg.aminmax(rg.tensor([3.0, 1.0, 2.0]))
    MinMax(min=tensor(1.), max=tensor(3.))
    """
    x = operand(input)
    _not_empty(x, dim)
    return MinMax(*_aminmax_node(reduce_(AMIN, x, dim, keepdim), reduce_(AMAX, x, dim, keepdim)))
