"""Order statistics: medians, quantiles and modes."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np
from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, array_module
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.fp_warnings import silent
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..indexing.selection import where
from ..math.interpolation import lerp
from ..shape.permutation import movedim
from ..table.arguments import dimension, integer
from ..table.batching import composed
from ..table.elementwise_primitives import unary
from ..table.registry import operator
from ..table.types import Dim, Operand
from . import ordering
from .common import along, floating
from .extremes import equal_share_vjp
from .scans import running
from .sorting import ValuesIndices, argsorted, mesh, picking, selected


def _dimension_of(x: Tensor, dim: int) -> int:
    """Return the dimension as a nonnegative index; raise IndexError if it has length 0."""
    dim = dimension(dim, x.array.ndim)
    if x.array.ndim and x.array.shape[dim] == 0:
        raise IndexError(f"expected dimension {dim} of {describe(x)} to have non-zero size")
    return dim


def _column(array: Array, place: Any, dim: int) -> Array:
    if not array.ndim:
        return array
    if isinstance(place, int):
        return array[along(dim, slice(place, place + 1))]
    return array[mesh(place, dim)]


def _place_of(x: Array, k: int, dim: int) -> Array:
    """Return the index of the element that a stable sort moves to position k."""
    return ordering.at(x, dim, k) if ordering.takes(x, dim) else _column(argsorted(x, dim), k, dim)


KTHVALUE, MEDIAN, NANMEDIAN, MODE = picking("kthvalue"), picking("median"), picking("nanmedian"), picking("mode")


@operator(real=True, dtype="indices")
def kthvalue(input: Operand, k: int, dim: Dim = -1, keepdim: bool = False) -> ValuesIndices:
    """``sort(input, dim)[k - 1]``: the ``k``-th smallest element along ``dim``, and its index.

    NaN counts as the largest element.

    Derivative: ``g`` at the element with the returned index; equal elements are ranked in their order.
    Shape: any; the dimension is removed, or has length 1 with ``keepdim``.

    Args:
        k: the rank, counted from 1.

    Returns:
        The named tuple ``(values, indices)``.

    Raises:
        IndexError: ``dim`` is out of range or empty.
        RuntimeError: ``k`` is out of range.

    >>> rg.kthvalue(rg.tensor([3.0, 1.0, 2.0]), 2)
    ValuesIndices(values=tensor(2.), indices=tensor(2))
    """
    x = operand(input)
    dim = _dimension_of(x, dim)
    k = integer(k, "k")
    length = x.array.shape[dim] if x.array.ndim else 1
    if not 1 <= k <= length:
        raise RuntimeError(f"k={k} is out of range for dimension {dim} of {describe(x)}")
    return selected(KTHVALUE, x, _place_of(x.array, k - 1, dim), dim, keepdim)


def _median_of_all(x: Any, ignore_nan: bool) -> Any:
    flat = x.reshape(-1)
    if not x.size:
        return array_module(x).full((), np.nan, x.dtype)
    if type(x) is ndarray:
        missing = np.count_nonzero(x != x)
        last = x.size - 1
        place = max(last - missing, 0) // 2 if ignore_nan else last if missing else last // 2
        return np.asarray(np.partition(flat, place)[place])
    return _column(flat, _median_index(flat, 0, ignore_nan), 0).reshape(())


def _median_index(x: Array, dim: int, ignore_nan: bool) -> Array:
    """Return the index of the lower median, or of the first NaN unless NaNs are ignored."""
    if not x.ndim:
        return argsorted(x, dim)
    length = x.shape[dim]
    if type(x) is ndarray and not (x.dtype.kind in FLOATING and np.isnan(x).any()):
        return _place_of(x, (length - 1) // 2, dim)
    missing = (x != x).sum(axis=dim, keepdims=True)
    order = argsorted(x, dim)
    if ignore_nan:
        xp = array_module(x)
        return _column(order, xp.maximum(length - missing - 1, 0) // 2, dim)
    place = array_module(x).where(missing > 0, length - missing, (length - 1) // 2)
    return _column(order, place, dim)


# Zero with the gradient of x; x - x.detach() would be NaN for infinite elements.
_ZERO_WITH_GRADIENT = unary("median", np.zeros_like, lambda g: g, promote=None)


def _median_composite(x: Tensor, ignore_nan: bool) -> Tensor:
    """Return the median of all elements; equal elements share the gradient."""
    flat = x.reshape(-1)
    if not x.array.size:
        return new_tensor(array_module(x).full((), np.nan, x.array.dtype))
    index = _median_index(flat.array, 0, ignore_nan)
    value = apply(NANMEDIAN if ignore_nan else MEDIAN, (flat.detach(), new_tensor(index)), {"dim": 0, "keepdim": True})
    same = new_tensor((flat.array == value.array).astype(x.array.dtype))
    share = where(same != 0, _ZERO_WITH_GRADIENT(flat), 0.0).sum() / same.sum().clamp(min=1)
    return value.reshape(()) + share


MEDIAN_OF_ALL = Primitive(
    "median",
    _median_of_all,
    "x",
    [equal_share_vjp],
    signals=True,
    contiguous=True,
    batch=composed(_median_composite),
    by_rows=True,
)


def _median(primitive: Primitive, input: Operand, dim: Dim | None, keepdim: bool) -> Tensor | ValuesIndices:
    x = operand(input)
    if x.array.dtype.kind == "b" and x.array.size:
        raise NotImplementedError("is not defined for bools")
    ignore_nan = primitive is NANMEDIAN
    if dim is None:
        return apply(MEDIAN_OF_ALL, (x,), {"ignore_nan": ignore_nan})
    dim = _dimension_of(x, dim)
    return selected(primitive, x, _median_index(x.array, dim, ignore_nan), dim, keepdim)


@overload
def median(input: Operand, dim: Dim, keepdim: bool = False) -> ValuesIndices: ...
@overload
def median(input: Operand, dim: None = None, keepdim: bool = False) -> Tensor: ...
@operator(real=True, shape="reduced dimension", dtype="real or integer")
def median(input: Operand, dim: Dim | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """``sort(x)[(n - 1) // 2]`` of all elements, or along ``dim``: the lower of two medians; NaN if an element is NaN.

    Derivative: without ``dim``, ``g`` shared evenly by all elements equal to the median; with ``dim``, ``g`` at the
    element with the index.

    Returns:
        A Tensor; with ``dim`` the named tuple ``(values, indices)``.

    Raises:
        IndexError: ``dim`` is out of range or empty.

    >>> rg.median(rg.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    >>> rg.median(rg.tensor([3.0, 1.0, 2.0]), 0)
    ValuesIndices(values=tensor(2.), indices=tensor(2))
    """
    return _median(MEDIAN, input, dim, keepdim)


@overload
def nanmedian(input: Operand, dim: Dim, keepdim: bool = False) -> ValuesIndices: ...
@overload
def nanmedian(input: Operand, dim: None = None, keepdim: bool = False) -> Tensor: ...
@operator(real=True, like=median)
def nanmedian(input: Operand, dim: Dim | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """``median`` of the elements that are not NaN; NaN if there are none.

    Derivative: that of ``median``.

    >>> rg.nanmedian(rg.tensor([3.0, float("nan"), 1.0]))
    tensor(1.)
    """
    return _median(NANMEDIAN, input, dim, keepdim)


@operator(real=True, dtype="indices", like=kthvalue)
def mode(input: Operand, dim: Dim = -1, keepdim: bool = False) -> ValuesIndices:
    """``argmax_v sum_i [x_i = v]``: the most frequent element along ``dim`` (the smallest if tied) and its last index.

    Derivative: ``g`` at the element with the returned index.

    >>> rg.mode(rg.tensor([3.0, 1.0, 3.0, 2.0]))
    ValuesIndices(values=tensor(3.), indices=tensor(2))
    """
    x = operand(input)
    dim = _dimension_of(x, dim)
    order = argsorted(x.array, dim)
    if not x.array.ndim:
        return selected(MODE, x, order, dim, keepdim)
    xp = array_module(order)
    ordered = x.array[mesh(order, dim)]
    steps = xp.arange(order.shape[dim]).reshape([-1 if axis == dim else 1 for axis in range(order.ndim)])
    same = ordered == xp.roll(ordered, 1, axis=dim)
    starts = running(np.maximum, xp.where(same & (steps > 0), 0, steps), dim)
    lengths = steps - starts
    longest = lengths.argmax(axis=dim).reshape(_column(order, 0, dim).shape)
    return selected(MODE, x, _column(order, longest, dim), dim, keepdim)


QUANTILE = picking("quantile", repeats=True)
Interpolation: TypeAlias = Literal["linear", "lower", "higher", "midpoint", "nearest"]


def _quantile(
    input: Operand,
    q: float | Tensor,
    dim: Dim | None,
    keepdim: bool,
    interpolation: Interpolation,
    ignore_nan: bool = False,
) -> Tensor:
    x = floating(input)
    if x.array.dtype.itemsize < 4 or x.array.dtype.kind == "c":
        raise RuntimeError(f"expected float32 or float64, got {describe(x)}")
    choices = get_args(Interpolation)
    if interpolation not in choices:
        raise RuntimeError(f"argument interpolation must be one of {', '.join(choices)}, not {interpolation!r}")
    if x.array.size == 0:
        raise RuntimeError(f"the input {describe(x)} has no elements")
    xp = array_module(x)
    levels = operand(q, "q") if not isinstance(q, float | int) else new_tensor(xp.asarray(q, x.array.dtype))
    if levels.array.ndim > 1:
        raise RuntimeError(f"argument q must be a number or have 1 dimension, got {describe(levels)}")
    if levels.array.dtype != x.array.dtype:
        raise RuntimeError(f"argument q must have the dtype of the input, {x.dtype}, not {levels.dtype}")
    numbers = all_examples(levels.array)
    if not bool(((numbers >= 0) & (numbers <= 1)).all()):
        raise RuntimeError(f"argument q must lie in [0, 1], got {describe(q)}")
    shape = x.array.shape
    if dim is None:
        rows = x.reshape((-1,))
        outer = (1,) * len(shape) if keepdim else ()
    else:
        dim = dimension(dim, len(shape))
        rows = movedim(x, dim, -1) if shape else x.reshape((1,))
        outer = shape[:dim] + ((1,) if keepdim else ()) + shape[dim + 1 :] if shape else ()
    array = rows.array
    last = array.ndim - 1
    missing = (array != array).sum(axis=-1, keepdims=True)
    highest = array.shape[-1] - 1
    if ignore_nan:
        top = xp.maximum(highest - missing, 0)
    else:
        top = xp.where(missing > 0, -1, highest)
    # Ranks (rows, q). In a row with a NaN that is not ignored, every level selects the last element, NaN.
    ranks = levels.reshape((1,) * last + (-1,)) * new_tensor(xp.maximum(top, 0).astype(array.dtype))
    place = xp.where(top < 0, highest, ranks.array)
    if interpolation in ("lower", "higher", "nearest"):
        place = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.round}[interpolation](place)
    below, above = xp.floor(place).astype(np.int64), xp.ceil(place).astype(np.int64)
    order = argsorted(array, last)

    def pick(at: Array) -> Tensor:
        return apply(QUANTILE, (rows, new_tensor(np.take_along_axis(order, at, last))), {"dim": last, "keepdim": True})

    result = pick(below)
    if interpolation in ("linear", "midpoint"):
        weight = 0.5 if interpolation == "midpoint" else ranks - new_tensor(xp.floor(ranks.array))
        # If both neighbors are the same element, the weight is 0, also for infinities, whose difference is NaN.
        one = new_tensor(below == above)
        with silent():
            result = where(one, result, lerp(where(one, 0, result), where(one, 0, pick(above)), weight))
    return movedim(result, -1, 0).reshape(levels.array.shape + outer)


@operator()
def quantile(
    input: Operand,
    q: float | Tensor,
    dim: Dim | None = None,
    keepdim: bool = False,
    *,
    interpolation: Interpolation = "linear",
) -> Tensor:
    """``x_(k) + (r - k) (x_(k+1) - x_(k))`` at rank ``r = q (n - 1)``, ``k = floor(r)``, of the sorted elements.

    Derivative: input: ``g`` times the interpolation weights at the two neighbors; q: ``g (n - 1)`` times the difference
    of the neighbors, 0 where the rank is an integer or is rounded.
    Shape: any; the dimension is removed, or has length 1 with ``keepdim``; a 1-d q prepends a dimension.
    Dtype: float32 and float64, the same for input, q and result.

    Args:
        q: a number or a 1-dimensional Tensor, in ``[0, 1]``.
        dim: the dimension, by default the flattened input.
        interpolation: how to choose a value between the two neighbors of a fractional rank: ``"linear"``, ``"lower"``,
            ``"higher"``, ``"midpoint"`` or ``"nearest"``.

    Raises:
        RuntimeError: a dtype is wrong, the input is empty, ``q`` is outside ``[0, 1]``, or ``interpolation`` is
            not one of these.

    >>> rg.quantile(rg.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
    tensor(2.5)
    """
    return _quantile(input, q, dim, keepdim, interpolation)


@operator(like=quantile)
def nanquantile(
    input: Operand,
    q: float | Tensor,
    dim: Dim | None = None,
    keepdim: bool = False,
    *,
    interpolation: Interpolation = "linear",
) -> Tensor:
    """``quantile`` of the elements that are not NaN; NaN if there are none.

    Derivative: that of ``quantile``.

    >>> rg.nanquantile(rg.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile(input, q, dim, keepdim, interpolation, ignore_nan=True)
