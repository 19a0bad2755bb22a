"""Differences and integrals of sampled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import get_default_dtype
from ...core.errors import describe
from ...core.primitive import operand
from ...core.tensor import Tensor
from ..shape.joining import cat
from ..table.arguments import dimension, dimensions
from ..table.registry import numpy_names, operator
from .reductions import converted
from .scans import along, cumsum


@operator()
@numpy_names
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The ``n``-th differences of neighbours along ``dim``: ``y[i] = x[i+1] - x[i]``; of bools ``xor``.

    Args:
        input: a Tensor of at least one dimension.
        n: how many times.
        dim: the dimension.
        prepend, append: values that are set before and after the input first.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: the input is 0-d, or ``n`` is negative.

    >>> rg.diff(rg.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    x = operand(input)
    if x.array.ndim == 0:
        raise RuntimeError("wanted an input of at least one dimension, got a 0-d Tensor")
    if n < 0:
        raise RuntimeError(f"n must not be negative, got {n}")
    dim = dimension(dim, x.array.ndim)
    parts = [each for each in (prepend, x, append) if each is not None]
    if len(parts) > 1:
        x = cat([operand(part) for part in parts], dim)
    for _ in range(min(n, x.array.shape[dim])):
        later, earlier = x[along(dim, slice(1, None))], x[along(dim, slice(0, -1))]
        x = later ^ earlier if x.dtype.kind == "b" else later - earlier
    return x[:] if n == 0 else x


def _lengthwise(x: Tensor, ndim: int, dim: int) -> Tensor:
    """A 1-dimensional Tensor laid along ``dim``; one of several dimensions as it is."""
    return x.reshape([-1 if axis == dim else 1 for axis in range(ndim)]) if x.ndim == 1 else x


def _areas(y: Any, x: Any, dx: Any, dim: int) -> tuple[Tensor, int]:
    """The areas of the trapezoids between neighbours."""
    values = operand(y, "y")
    if values.array.ndim == 0:
        raise IndexError("wanted y with at least one dimension, got a 0-d Tensor")
    if values.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(values)}")
    dim = dimension(dim, values.array.ndim)
    if x is not None and dx is not None:
        raise TypeError("got both x and dx")
    step: Any = 1.0 if dx is None else dx
    if x is not None:
        points = _lengthwise(operand(x, "x"), values.ndim, dim)
        place = dim - values.ndim + points.ndim
        if place < 0 or points.shape[place] != values.shape[dim]:
            raise RuntimeError(f"y {describe(values)} and x {describe(x)} must have the same length")
        step = diff(points, dim=place)
    later, earlier = values[along(dim, slice(1, None))], values[along(dim, slice(0, -1))]
    return (later + earlier) * step / 2, dim


@operator(method=False, aliases=("trapz",))
@numpy_names
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of y along ``dim`` by the trapezoidal rule: ``sum_i (y[i] + y[i+1]) / 2 (x[i+1] - x[i])``.

    Args:
        y: the values.
        x: the points, of y's shape or its length; by default they lie ``dx`` (1) apart.
        dx: the distance of the points.
        dim: the dimension.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: the lengths of y and x differ.

    >>> rg.trapezoid(rg.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    areas, dim = _areas(y, x, dx, dim)
    return areas.sum(dim)


@operator(method=False)
@numpy_names
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The running integral of y along ``dim`` by the trapezoidal rule, one element shorter than y; see ``trapezoid``.

    >>> rg.cumulative_trapezoid(rg.tensor([1.0, 2.0, 3.0]))
    tensor([1.5, 4. ])
    """
    areas, dim = _areas(y, x, dx, dim)
    return cumsum(areas, dim)


@operator(method=False)
@numpy_names
def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative of a sampled function along each dimension, by second-order central differences.

    At inner points ``(h1^2 f(x + h2) - h2^2 f(x - h1) + (h2^2 - h1^2) f(x)) / (h1 h2 (h1 + h2))``, at the edges
    one-sided differences of first or second order.

    Args:
        input: the values.
        spacing: the distance of the points, a number or one per dimension; or per dimension a Tensor of coordinates.
        dim: the dimensions, all by default.
        edge_order: 1 or 2.

    Returns:
        A Tensor per dimension.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: too few points, a wrong number of spacings, or another ``edge_order``.

    >>> rg.gradient(rg.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    x = operand(input)
    if edge_order not in (1, 2):
        raise RuntimeError(f"edge_order must be 1 or 2, got {edge_order}")
    dims = tuple(range(x.ndim)) if dim is None else dimensions(dim, x.ndim)
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(f"wanted {len(dims)} spacings for the dimensions {dims}, got {len(spacings)}")
    if x.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if x.dtype.kind in "iu":
        x = converted(x, get_default_dtype())
    return tuple(_derivative(x, h, axis, edge_order) for axis, h in zip(dims, spacings, strict=True))


def _derivative(x: Tensor, spacing: Any, dim: int, edge_order: int) -> Tensor:
    length = x.array.shape[dim] if x.ndim else 0
    if length <= edge_order:
        raise RuntimeError(f"dimension {dim} of {describe(x)} must have at least {edge_order + 1} elements")

    def at(start: int | None, stop: int | None) -> Any:
        return x[along(dim, slice(start, stop))]

    if np.ndim(getattr(spacing, "array", spacing)):
        points = operand(spacing, "spacing")
        if points.shape != (length,):
            raise RuntimeError(f"wanted {length} coordinates for dimension {dim}, got {describe(points)}")
        h = _lengthwise(diff(points), x.ndim, dim)
        h1, h2 = h[along(dim, slice(0, -1))], h[along(dim, slice(1, None))]
        first, last = h[along(dim, slice(0, 1))], h[along(dim, slice(-1, None))]
        second, before = h[along(dim, slice(1, 2))], h[along(dim, slice(-2, -1))]
    else:
        h1 = h2 = first = last = second = before = spacing
    if h1 is h2:
        inner: Any = (at(2, None) - at(0, -2)) / (2 * spacing)
    else:
        inner = (h1 * h1 * at(2, None) - h2 * h2 * at(0, -2) + (h2 * h2 - h1 * h1) * at(1, -1)) / (h1 * h2 * (h1 + h2))
    if edge_order == 1:
        start, end = (at(1, 2) - at(0, 1)) / first, (at(-1, None) - at(-2, -1)) / last
    else:
        start = _edge(at(0, 1), at(1, 2), at(2, 3), first, second)
        end = -_edge(at(-1, None), at(-2, -1), at(-3, -2), last, before)
    return cat([start, inner, end], dim)


def _edge(f0: Any, f1: Any, f2: Any, h1: Any, h2: Any) -> Any:
    """The derivative at the first of three points, of second order."""
    return (-(2 * h1 + h2) / (h1 * (h1 + h2))) * f0 + ((h1 + h2) / (h1 * h2)) * f1 - (h1 / (h2 * (h1 + h2))) * f2
