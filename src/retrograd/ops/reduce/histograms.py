"""Histograms, which have no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.arguments import integer
from ..table.batching import called_per_example
from ..table.registry import operator
from ..table.types import Operand


@operator(differentiable=False, dtype="floating", raises="integers")
@called_per_example
def histc(input: Operand, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """``y_b = sum_i [e_b <= x_i < e_(b+1)]``: the number of elements in each of ``bins`` equal intervals.

    Intervals contain their left end, and the last one also its right end. Elements outside the range are ignored.

    Shape: any; the result is (bins).

    Args:
        bins: the number of intervals.
        min: the start of the first interval.
        max: the end of the last interval; with ``min == max`` the range of the elements is used.

    Raises:
        RuntimeError: ``bins`` is not positive, ``max`` is below ``min`` or the range is not finite.

    >>> rg.histc(rg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = operand(input)
    array = x.array
    xp = array_module(array)
    if array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected a floating dtype, got {describe(x)}")
    if bins <= 0:
        raise RuntimeError(f"bins must be positive, got {bins}")
    low, high = float(min), float(max)
    if low == high and array.size:
        low, high = float(array.min().item()), float(array.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RuntimeError(f"the range [{low}, {high}] is empty or not finite")
    flat = array.reshape(-1)
    flat = flat[(flat >= low) & (flat <= high)]
    place = xp.minimum(((flat - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    return new_tensor(xp.bincount(place, minlength=bins).astype(array.dtype))


@operator(differentiable=False, real=True, reads_elements=True)
@called_per_example
def bincount(input: Operand, weights: Operand | None = None, minlength: int = 0) -> Tensor:
    """``y_n = sum_i [x_i = n] weights_i``: the number of occurrences of 0, 1, 2, ..., or the sums of their weights.

    Shape: input and ``weights`` (n); the result has the length ``max(minlength, max(input) + 1)``.
    Dtype: integers; the result is int64, or with ``weights`` float64 (float32 if the weights are).

    Args:
        input: non-negative integers.
        weights: the weight of each element, 1 by default.
        minlength: the minimum length of the result.

    Raises:
        NotImplementedError: the input does not hold integers.
        RuntimeError: the input is not 1-dimensional or has negative elements, the weights have another shape, or
            ``minlength`` is negative.

    >>> rg.bincount(rg.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """
    x = operand(input)
    array = x.array
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"expected integers, got {describe(x)}")
    if array.ndim != 1 or (array.size and bool((array < 0).any())):
        raise RuntimeError(f"expected a vector of non-negative integers, got {describe(x)}")
    if minlength < 0:
        raise RuntimeError(f"minlength must not be negative, got {minlength}")
    heavy = None if weights is None else operand(weights, "weights").array
    if heavy is not None and heavy.shape != array.shape:
        raise RuntimeError(f"the weights {describe(heavy)} must have the shape of {describe(x)}")
    out = array_module(array).bincount(array, weights=heavy, minlength=minlength)
    return new_tensor(out.astype(np.float32) if heavy is not None and heavy.dtype == np.float32 else out)


class HistogramResult(NamedTuple):
    """The count or weight of each bin, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


class HistogramddResult(NamedTuple):
    """The count or weight of each bin, and the edges of the bins along each dimension."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _points(input: object, name: str) -> Any:
    x = operand(input, name).array
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(x)}")
    return x


def _edges(x: Array, bins: object, bounds: Sequence[float] | None) -> Array:
    """Return the given edges along one dimension, or the edges of equal intervals over the bounds or the range of x."""
    xp = array_module(x)
    if isinstance(bins, Tensor) or hasattr(bins, "ndim"):
        edges = operand(bins, "bins").array
        if edges.ndim != 1 or not edges.size:
            raise RuntimeError(f"bins must be a number or a vector of edges, got {describe(edges)}")
        if edges.dtype != x.dtype:
            raise RuntimeError(f"input and bins must have the same dtype, got {describe(x)} and {describe(edges)}")
        if edges.size > 1 and not bool((edges[1:] >= edges[:-1]).all()):
            raise RuntimeError("the edges of the bins must ascend")
        return edges
    count = integer(bins, "bins")
    if count <= 0:
        raise RuntimeError(f"bins must be > 0, but got {count}")
    if bounds is not None:
        low, high = map(float, bounds)
    else:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"the range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"min should not exceed max, but got min {low} max {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return xp.linspace(low, high, count + 1, dtype=x.dtype)


def _histogram(points: Array, edges: list[Array], weight: Array | None, density: bool) -> Array:
    """Count ``points`` (count, dimensions). Points outside of all bins, and NaN, are ignored."""
    xp = array_module(points)
    counts = tuple(len(edge) - 1 for edge in edges)
    inside = xp.ones(len(points), bool)
    flat = xp.zeros(len(points), np.int64)
    for x, edge, count in zip(points.T, edges, counts, strict=True):
        inside &= (x >= edge[0]) & (x <= edge[-1])
        place = xp.searchsorted(edge, x, side="right") - 1
        flat = flat * count + xp.clip(place, 0, max(count - 1, 0))
    heavy = None if weight is None else weight.reshape(-1)[inside]
    hist = xp.bincount(flat[inside], weights=heavy, minlength=prod(counts)).astype(points.dtype).reshape(counts)
    if density:
        total = hist.sum()
        hist = hist / xp.where(total == 0, xp.nan, total).astype(hist.dtype)
        for axis, edge in enumerate(edges):
            hist = hist / (edge[1:] - edge[:-1]).reshape([-1 if d == axis else 1 for d in range(len(edges))])
    return hist


def _weight(weight: Tensor | None, shape: tuple[int, ...], x: Array) -> Any:
    if weight is None:
        return None
    heavy = operand(weight, "weight").array
    if heavy.dtype != x.dtype:
        raise RuntimeError(f"input and weight must have the same dtype, got {describe(x)} and {describe(heavy)}")
    if heavy.shape != shape:
        raise RuntimeError(f"the weight must have shape {shape}, got {describe(heavy)}")
    return heavy


@operator(differentiable=False, raises="integers")
@called_per_example
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramResult:
    """The number of elements, or their weight, in each of the intervals ``[e_0, e_1), ..., [e_(k-1), e_k]``.

    Elements outside of all intervals are ignored.

    Shape: any to ``(bins,)`` and ``(bins + 1,)``.
    Dtype: real floating; the result has the input's dtype.

    Args:
        bins: the number of equal intervals, or their ascending edges.
        range: the first and the last edge of equal intervals; by default the smallest and the largest
            element, or a range of length 1 if they are equal.
        weight: the weight of each element, in the input's shape and dtype; by default 1.
        density: whether to divide by the sum and by the widths of the intervals, so that the integral is 1.

    Returns: (hist, bin_edges).

    Raises:
        RuntimeError: there are no bins, their range is empty or not finite, or the weight has another shape.
        TypeError: both a range and edges are given.

    >>> rg.histogram(rg.tensor([1.0, 2.0, 1.0, 4.0]), 3)
    HistogramResult(hist=tensor([2., 1., 1.]), bin_edges=tensor([1., 2., 3., 4.]))
    """
    if range is not None and isinstance(bins, Tensor):
        raise TypeError("expected no range if bins are given as edges")
    x = _points(input, "input")
    heavy = _weight(weight, x.shape, x)
    flat = x.reshape(-1)
    edges = _edges(flat, bins, range)
    return HistogramResult(
        new_tensor(_histogram(flat[:, None], [edges], heavy, density)), new_tensor(array_module(x).array(edges))
    )


@operator(method=False, differentiable=False, like=histogram)
@called_per_example
def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramddResult:
    """The number of points, or their weight, in each box of a grid: ``histogram`` in several dimensions.

    Shape: ``(..., d)`` for points with d coordinates to ``(bins_1, ..., bins_d)`` and d edges ``(bins_i + 1,)``.

    Args:
        bins: per dimension the number of equal intervals (one number for all), or their ascending edges.
        range: the first and the last edge of each dimension, in one list; by default the range of the points.
        weight: the weight of each point, in the input's shape without the last dimension; by default 1.
        density: whether to divide by the sum and by the volumes of the boxes, so that the integral is 1.

    Returns: (hist, bin_edges), where bin_edges is a tuple.

    Raises:
        RuntimeError: bins, range or weight have a wrong length or shape.

    >>> rg.histogramdd(rg.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    x = _points(input, "input")
    if x.ndim < 2:
        raise RuntimeError(f"input must have at least 2 dimensions, got {describe(x)}")
    count = x.shape[-1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * count
    for value in each:
        if not (isinstance(value, Tensor) or hasattr(value, "ndim")):
            integer(value, "bins")
    if len(each) != count:
        raise RuntimeError(f"expected bins for {count} dimensions, got {len(each)}")
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(f"expected a range of {2 * count} numbers for {count} dimensions, got {len(range)}")
    heavy = _weight(weight, x.shape[:-1], x)
    points = x.reshape((prod(x.shape[:-1]), count))
    bounds = [None if range is None else range[2 * i : 2 * i + 2] for i in np.arange(count)]
    edges = [_edges(points[:, i], bins_, bounds_) for i, (bins_, bounds_) in enumerate(zip(each, bounds, strict=True))]
    hist = _histogram(points, edges, heavy, density)
    return HistogramddResult(new_tensor(hist), tuple(new_tensor(array_module(x).array(edge)) for edge in edges))
