"""Reductions: sums, means, extremes, products and norms over some of the dimensions."""

from __future__ import annotations

from math import prod as product
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.dtypes import int64
from ...core.errors import describe
from ...core.plan import Rule
from ...core.primitive import Primitive, apply, apply1, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor, new_tensor
from ..shape.conversion import CAST
from ..table.arguments import dimension, dimensions
from ..table.blocks import in_single
from ..table.registry import OPERATORS, numpy_names, operator
from .scans import product_of_others
from .sorting import ValuesIndices, picking, selected

# What reductions share


def reduced(name: str, dim: Any, ndim: int) -> tuple[int, ...] | None:
    """The dimensions to reduce, counted from the front; None for all of them, as which PyTorch reads ``()``, too."""
    if dim is None:
        return None
    axes = dimensions(dim, ndim)
    return (axes if ndim else None) or None


def kept_shape(shape: tuple[int, ...], dim: tuple[int, ...] | int | None) -> tuple[int, ...]:
    """The shape of a reduction of ``shape`` with the reduced dimensions kept as 1."""
    if dim is None:
        return (1,) * len(shape)
    axes = dim if isinstance(dim, tuple) else (dim,)
    return tuple([1 if axis in axes else length for axis, length in enumerate(shape)])


def kept(r: Any, shape: tuple[int, ...], dim: tuple[int, ...] | int | None, keepdim: bool) -> Any:
    """The result of a reduction (or its cotangent) as with ``keepdim``, so that it broadcasts with the input."""
    return r if keepdim else r.reshape(kept_shape(shape, dim))


def spread(g: Any, shape: tuple[int, ...], dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """The cotangent of a sum in the shape of what was summed: a view that repeats it."""
    if dim is None and g.__class__ is np.ndarray and g.size == 1:
        return np.ndarray(shape, g.dtype, g, 0, (0,) * len(shape))  # ten times faster than broadcast_to
    return np.broadcast_to(kept(g, shape, dim, keepdim), shape)


def count(shape: tuple[int, ...], dim: tuple[int, ...] | None) -> int:
    """How many elements each result of a reduction comes from."""
    return product(shape) if dim is None else product([shape[axis] for axis in dim])


def divided(g: Any, n: int) -> Any:
    """``g / n``, also for counts that float16 does not reach."""
    return g * (1 / n) if n > 65504 and g.dtype == np.float16 else g / n


def floating(name: str, input: Any, dtype: Any = None) -> Tensor:
    """The input of an operator that is defined on floating numbers only, converted to ``dtype`` where that is given.

    Raises:
        RuntimeError: it holds integers and no floating ``dtype`` is asked for.
    """
    x = converted(operand(input), dtype)
    if x.array.dtype.kind not in "fc":
        raise RuntimeError(f"wanted a floating or complex dtype, got {describe(x)}")
    return x


def converted(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in ``dtype``, or as it is for None."""
    if dtype is None or x.array.dtype == dtype:
        return x
    return apply(CAST, (x,), {"dtype": np.dtype(dtype)})


def reduce_(primitive: Primitive, x: Tensor, dim: Any, keepdim: bool, **params: Any) -> Tensor:
    """Apply a primitive with the parameters ``dim`` and ``keepdim``, after checking them."""
    if dim is not None:
        dim = reduced(primitive.name, dim, x.array.ndim)
    return apply(primitive, (x,), {"dim": dim, "keepdim": keepdim, **params})


# Sums


@in_single
def _mean(x: Any, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    return accurate_sum(x, dim, keepdim) / x.dtype.type(count(x.shape, dim))


SUM = Primitive(
    "sum", accurate_sum, "x", [lambda g, x_shape, dim, keepdim: spread(g, x_shape, dim, keepdim)], signals=True
)
MEAN = Primitive(
    "mean",
    _mean,
    "x",
    [lambda g, x_shape, dim, keepdim: spread(divided(g, count(x_shape, dim)), x_shape, dim, keepdim)],
    signals=True,
)


@operator()
@numpy_names
def sum_(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over all dimensions, one, or several: ``y = sum_i x_i``. Integers and bools give int64.

    Args:
        input: a Tensor.
        dim: a dimension or a tuple of them; all of them by default.
        keepdim: keep the reduced dimensions with length 1.
        dtype: converts the input first.

    float32 sums are pairwise along contiguous memory and blocked elsewhere: the error stays near one rounding, also for
    millions of elements.

    Raises:
        IndexError: a dimension is out of range.

    >>> x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> rg.sum(x), rg.sum(x, 0), x.sum(axis=1, keepdims=True)
    (tensor(10.), tensor([4., 6.]), tensor([[3.],
            [7.]]))
    """
    x = input if isinstance(input, Tensor) else operand(input)
    if dtype is not None:
        x = converted(x, dtype)
    return reduce_(SUM, x, dim, keepdim)


@operator()
@numpy_names
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean over all dimensions, one, or several: ``y = sum_i x_i / n``; NaN where there are no elements.

    Raises:
        RuntimeError: the input holds integers and no floating ``dtype`` is given.
        IndexError: a dimension is out of range.

    >>> rg.mean(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([2., 3.])
    """
    return reduce_(MEAN, floating("mean", input, dtype), dim, keepdim)


# Extremes


def _not_empty(x: Tensor, name: str, dim: Any) -> None:
    """Refuse to reduce no elements, as PyTorch does: RuntimeError without dimensions, IndexError with."""
    shape = x.array.shape
    if dim is None or dim == ():
        if x.array.size == 0:
            raise RuntimeError(f"expected a dimension to reduce for {describe(x)}, which has no elements")
        return
    for axis in dimensions(dim, len(shape)):
        if shape and shape[axis] == 0:
            raise IndexError(f"expected dimension {axis} of {describe(x)} to have non-zero size")


def _extreme_vjp(g: Any, x: Any, ans: Any, dim: Any, keepdim: bool) -> Any:
    """The cotangent in equal parts to all elements that equal the extreme, as PyTorch's amax and max() give it."""
    hits = x == kept(ans, x.shape, dim, keepdim)
    ties = hits.sum(axis=dim, keepdims=True, dtype=g.dtype)
    return kept(g, x.shape, dim, keepdim) / ties * hits


def equal_share_vjp(g: Any, x: Any, ans: Any) -> Any:
    """The cotangent in equal parts to all elements that equal the answer; NaN equals NaN here, as in PyTorch."""
    hits = (x == ans) | ((x != x) & (ans != ans))
    return g / hits.sum(dtype=g.dtype) * hits


def _extreme(name: str, method: str, rule: Rule = _extreme_vjp) -> Primitive:
    def forward(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return getattr(x, method)(axis=dim, keepdims=keepdim)

    return Primitive(name, forward, "x", [rule], signals=True)


AMAX, AMIN = _extreme("amax", "max"), _extreme("amin", "min")
MAX_OF_ALL, MIN_OF_ALL = _extreme("max", "max", equal_share_vjp), _extreme("min", "min", equal_share_vjp)
MAX, MIN = picking("max"), picking("min")
EVEN_TIES = "ties: the gradient is distributed evenly among equal elements"


@operator(note=EVEN_TIES, real=True)
@numpy_names
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over all dimensions, one, or several. NaN wins over numbers.

    Raises:
        RuntimeError, IndexError: there are no elements.
        IndexError: a dimension is out of range.

    >>> rg.amax(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([5., 4.])
    """
    x = operand(input)
    _not_empty(x, "amax", dim)
    return reduce_(AMAX, x, dim, keepdim)


@operator(note=EVEN_TIES, real=True)
@numpy_names
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over all dimensions, one, or several. NaN wins over numbers.

    Raises:
        RuntimeError, IndexError: there are no elements.
        IndexError: a dimension is out of range.

    >>> rg.amin(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([1., 3.])
    """
    x = operand(input)
    _not_empty(x, "amin", dim)
    return reduce_(AMIN, x, dim, keepdim)


@operator(differentiable=False, real=True)
@numpy_names
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the largest element, of all or along ``dim``: of equals the first, or the first NaN.

    Raises:
        IndexError: there are no elements, or ``dim`` is out of range.

    >>> rg.argmax(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([1, 1])
    """
    return _index_of_extreme("argmax", input, dim, keepdim)


@operator(differentiable=False, real=True)
@numpy_names
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element, of all or along ``dim``: of equals the first, or the first NaN.

    Raises:
        IndexError: there are no elements, or ``dim`` is out of range.

    >>> rg.argmin(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), dim=1)
    tensor([0, 0])
    """
    return _index_of_extreme("argmin", input, dim, keepdim)


def _index_of_extreme(name: str, input: Any, dim: int | None, keepdim: bool) -> Tensor:
    x = operand(input)
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if dim is None:
        if x.array.size == 0:
            raise IndexError(f"expected a dimension to reduce for {describe(x)}, which has no elements")
        index = getattr(x.array.reshape(-1), name)()
        return new_tensor(array_module(x).asarray(index).reshape((1,) * x.array.ndim if keepdim else ()))
    return new_tensor(_indices(name, x, dimension(dim, x.array.ndim), keepdim))


def _indices(name: str, x: Tensor, dim: int, keepdim: bool) -> Any:
    """argmax or argmin along one dimension, as an array."""
    _not_empty(x, name, dim)
    array = x.array
    if array.ndim == 0:
        return array_module(array).zeros((), int64)
    index = getattr(array, name)(axis=dim)
    shape = kept_shape(array.shape, dim)
    return array_module(array).asarray(index).reshape(shape if keepdim else shape[:dim] + shape[dim + 1 :])


def _by_index(primitive: Primitive, search: str, x: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
    """Values and indices along one dimension; the gradient goes to the element at the index."""
    dim = dimension(dim, x.array.ndim)
    return selected(primitive, x, _indices(search, x, dim, True), dim, keepdim)


def _extreme_forms(name: str, input: Any, dim: Any, keepdim: bool, other: Any) -> Any:
    """``f(x)``, ``f(x, dim)`` and ``f(x, y)``."""
    x = operand(input)
    if other is None and (isinstance(dim, Tensor) or hasattr(dim, "__array_interface__")):
        other = dim
    if other is not None:
        return OPERATORS[f"{name}imum"].function(x, other)
    if dim is None:
        _not_empty(x, name, None)
        return reduce_(MAX_OF_ALL if name == "max" else MIN_OF_ALL, x, None, False)
    return _by_index(MAX if name == "max" else MIN, f"arg{name}", x, dim, keepdim)


@operator(note="max(x): ties share the gradient evenly; max(x, dim): it goes to the element at the index", real=True)
@numpy_names
def max_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element: ``max(x)`` of all, ``max(x, dim)`` with indices, ``max(x, y)`` elementwise. NaN wins.

    Returns:
        A Tensor, or ``(values, indices)`` with ``dim``.

    Raises:
        RuntimeError, IndexError: there are no elements.
        IndexError: ``dim`` is out of range.

    >>> x = rg.tensor([[1.0, 5.0], [3.0, 4.0]])
    >>> rg.max(x)
    tensor(5.)
    >>> rg.max(x, 1)
    ValuesIndices(values=tensor([5., 4.]), indices=tensor([1, 1]))
    """
    return _extreme_forms("max", input, dim, keepdim, other)


@operator(note="min(x): ties share the gradient evenly; min(x, dim): it goes to the element at the index", real=True)
@numpy_names
def min_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element: ``min(x)`` of all, ``min(x, dim)`` with indices, ``min(x, y)`` elementwise. NaN wins.

    Returns:
        A Tensor, or ``(values, indices)`` with ``dim``.

    Raises:
        RuntimeError, IndexError: there are no elements.
        IndexError: ``dim`` is out of range.

    >>> rg.min(rg.tensor([[1.0, 5.0], [3.0, 4.0]]), 1).values
    tensor([1., 3.])
    """
    return _extreme_forms("min", input, dim, keepdim, other)


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


@operator(note=EVEN_TIES, real=True)
@numpy_names
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element, of all or along ``dim``.

    Raises:
        RuntimeError, IndexError: there are no elements.
        IndexError: ``dim`` is out of range.

    >>> rg.aminmax(rg.tensor([3.0, 1.0, 2.0]))
    MinMax(min=tensor(1.), max=tensor(3.))
    """
    x = operand(input)
    _not_empty(x, "aminmax", dim)
    return MinMax(reduce_(AMIN, x, dim, keepdim), reduce_(AMAX, x, dim, keepdim))


# Products


def _prod(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return x.prod(axis=dim, keepdims=keepdim, dtype=int64 if x.dtype.kind in "biu" else None)


def _prod_vjp(g: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    """The cotangent times the product of the other elements, so that zeros are no exception."""
    if dim is None:
        return (g * product_of_others(x.reshape((-1,)), 0)).reshape(x.shape)
    return kept(g, x.shape, dim, keepdim) * product_of_others(x, dim) if x.ndim else g


PROD = Primitive("prod", _prod, "x", [_prod_vjp], signals=True)


@operator()
@numpy_names
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product of all elements, or along one dimension. Integers and bools give int64.

    Its derivatives are computed without division and are right where elements are zero.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> x = rg.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> rg.prod(x).backward()
    >>> x.grad
    tensor([0., 8., 0.])
    """
    x = converted(operand(input), dtype)
    if dim is not None:
        dim = dimension(dim, x.array.ndim)
        if x.array.ndim == 0:
            dim = None
    return apply(PROD, (x,), {"dim": dim, "keepdim": keepdim})


# Sums that leave NaN out

ZERO_FOR_NAN = Primitive(
    "zero_for_nan",
    lambda x: array_module(x).where(x == x, x, x.dtype.type(0)),
    "x",
    [lambda g, x: g * (x == x)],
    elementwise=True,
)


@operator()
@numpy_names
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of the elements that are not NaN.

    Raises:
        IndexError: a dimension is out of range.

    >>> rg.nansum(rg.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    x = converted(operand(input), dtype)
    if x.array.dtype.kind == "c":
        raise RuntimeError(f"complex numbers are not supported, got {describe(x)}")
    axes = reduced("nansum", dim, x.array.ndim)
    return reduce_(SUM, apply1(ZERO_FOR_NAN, x) if x.array.dtype.kind == "f" else x, axes, keepdim)


@operator()
@numpy_names
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean of the elements that are not NaN; NaN where there are none.

    Raises:
        RuntimeError: the input holds integers and no floating ``dtype`` is given.
        IndexError: a dimension is out of range.

    >>> rg.nanmean(rg.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5)
    """
    x = floating("nanmean", input, dtype)
    axes = reduced("nanmean", dim, x.array.ndim)
    numbers = (x.array == x.array).sum(axis=axes, keepdims=keepdim, dtype=x.array.dtype)
    return nansum(x, dim, keepdim) / array_module(x).asarray(numbers)


# Truth and counts


def _truth(name: str, input: Any, dim: Any, keepdim: bool) -> Tensor:
    x = operand(input)
    axes = () if dim == () else reduced(name, dim, x.array.ndim)  # here PyTorch reads () as no dimension at all
    out = getattr(x.array != 0, name)(axis=axes, keepdims=keepdim)
    out = array_module(x).asarray(out)
    return new_tensor(out.astype(np.uint8) if x.array.dtype == np.uint8 else out)


@operator(differentiable=False)
@numpy_names
def all_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are non-zero, over all dimensions, one, or several; uint8 for uint8 as in PyTorch.

    Raises:
        IndexError: a dimension is out of range.

    >>> rg.all(rg.tensor([[1, 1], [0, 1]]), dim=1)
    tensor([ True, False])
    """
    return _truth("all", input, dim, keepdim)


@operator(differentiable=False)
@numpy_names
def any_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether any element is non-zero, over all dimensions, one, or several; uint8 for uint8 as in PyTorch.

    Raises:
        IndexError: a dimension is out of range.

    >>> rg.any(rg.tensor([[0, 0], [0, 1]]), dim=1)
    tensor([False,  True])
    """
    return _truth("any", input, dim, keepdim)


@operator(differentiable=False)
@numpy_names
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, over all dimensions, one, or several.

    Raises:
        IndexError: a dimension is out of range.

    >>> rg.count_nonzero(rg.tensor([[0, 2], [1, 3]]), dim=0)
    tensor([1, 2])
    """
    x = operand(input)
    axes = reduced("count_nonzero", dim, x.array.ndim)
    return new_tensor(array_module(x).asarray((x.array != 0).sum(axis=axes, dtype=int64)))
