"""Differences and integrals of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.dtypes import get_default_dtype
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ..shape.joining import cat
from ..table.arguments import dimension, dimensions, integer
from ..table.registry import operator
from ..table.types import Dim, Dims, Number, Operand
from .common import along, converted
from .scans import cumsum


@operator()
def diff(
    input: Operand, n: int = 1, dim: Dim = -1, prepend: Operand | None = None, append: Operand | None = None
) -> Tensor:
    """``y_i = x_(i+1) - x_i`` along ``dim``, ``n`` times; for bools ``xor``.

    Derivative: ``g_(i-1) - g_i``, ``n`` times.
    Shape: at least one dimension; the result is ``n`` shorter along ``dim``, at least 0.

    Args:
        n: the number of repetitions; 0 returns a copy.
        prepend: values to concatenate before the input, with the input's shape except along ``dim``.
        append: values to concatenate after the input, with its shape except along ``dim``.

    Raises:
        RuntimeError: the input is 0-d, ``n`` is negative, or ``prepend`` or ``append`` differs in another dimension.
        TypeError: ``n`` is not an integer, or ``prepend`` or ``append`` is a number.

    >>> rg.diff(rg.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    x = operand(input)
    for argument, part in (("prepend", prepend), ("append", append)):
        if isinstance(part, (bool, int, float, complex)):
            raise TypeError(f"argument {argument!r} must be a Tensor, not {type(part).__name__}")
    if x.array.ndim == 0:
        raise RuntimeError("expected an input of at least one dimension, got a 0-d Tensor")
    n = integer(n, "n")
    if n < 0:
        raise RuntimeError(f"n must not be negative, got {n}")
    dim = dimension(dim, x.array.ndim)
    parts = [x]
    if prepend is not None:
        parts.insert(0, _beside(x, prepend, "prepend"))
    if append is not None:
        parts.append(_beside(x, append, "append"))
    if n == 0:
        return x.clone()  # PyTorch ignores prepend and append for n = 0
    if len(parts) > 1:
        x = cat(parts, dim)
    for _ in range(min(n, x.array.shape[dim])):
        later, earlier = x[along(dim, slice(1, None))], x[along(dim, slice(0, -1))]
        x = later ^ earlier if x.dtype.kind == "b" else later - earlier
    return x


def _beside(x: Tensor, part: Operand, argument: str) -> Tensor:
    part = operand(part, argument)
    if part.array.ndim != x.array.ndim:
        raise RuntimeError(f"{argument} {describe(part)} must have the same number of dimensions as {describe(x)}")
    return part


def _lengthwise(x: Tensor, ndim: int, dim: int) -> Tensor:
    """Reshape a 1-dimensional Tensor to lie along ``dim``; return others unchanged."""
    return x.reshape([-1 if axis == dim else 1 for axis in range(ndim)]) if x.ndim == 1 else x


def _areas(y: Operand, x: Operand | None, dx: Number | Tensor | None, dim: Dim) -> tuple[Tensor, int]:
    """Return twice the areas of the trapezoids between neighbors, and the dimension as a nonnegative index."""
    values = operand(y, "y")
    if values.array.ndim == 0:
        raise IndexError("expected y with at least one dimension, got a 0-d Tensor")
    if values.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(values)}")
    dim = dimension(dim, values.array.ndim)
    if x is not None and dx is not None:
        raise TypeError("pass x or dx, got both")
    step: Any = dx
    if x is not None:
        points = _lengthwise(operand(x, "x"), values.ndim, dim)
        place = dim - values.ndim + points.ndim
        if place < 0 or points.shape[place] != values.shape[dim]:
            raise RuntimeError(f"y {describe(values)} and x {describe(x)} must have the same length")
        step = diff(points, dim=place)
    later, earlier = values[along(dim, slice(1, None))], values[along(dim, slice(0, -1))]
    return later + earlier if step is None else (later + earlier) * step, dim


@operator(method=False, aliases=("trapz",), dtype="not bool")
def trapezoid(y: Operand, x: Operand | None = None, *, dx: Number | Tensor | None = None, dim: Dim = -1) -> Tensor:
    """``sum_i (y_i + y_(i+1)) / 2 (x_(i+1) - x_i)`` along ``dim``: the integral by the trapezoidal rule.

    Derivative: y: ``g`` times half the distance between the neighbors; x: ``g (y_(i-1) - y_(i+1)) / 2`` at inner
    points.
    Shape: y has at least one dimension, x is a vector of y's length or broadcasts with y; ``dim`` is removed.

    Args:
        y: the values.
        x: the points; by default points at distance ``dx``.
        dx: the distance between points, 1 by default.

    Raises:
        IndexError: ``dim`` is out of range, or y is 0-d.
        RuntimeError: the lengths of y and x differ, or y holds bools.
        TypeError: both x and dx are given.

    >>> rg.trapezoid(rg.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    areas, dim = _areas(y, x, dx, dim)
    return areas.sum(dim) / 2


@operator(method=False, like=trapezoid)
def cumulative_trapezoid(
    y: Operand, x: Operand | None = None, *, dx: Number | Tensor | None = None, dim: Dim = -1
) -> Tensor:
    """``z_k = sum_(i <= k) (y_i + y_(i+1)) / 2 (x_(i+1) - x_i)`` along ``dim``: the running integral.

    Derivative: that of ``trapezoid``, summed over the ``g_k`` that contain an area.
    Shape: as in ``trapezoid``, but the result keeps ``dim``, which is one shorter.

    >>> rg.cumulative_trapezoid(rg.tensor([1.0, 2.0, 3.0]))
    tensor([1.5, 4. ])
    """
    areas, dim = _areas(y, x, dx, dim)
    return cumsum(areas, dim) / 2


@operator(method=False, dtype="not bool")
def gradient(
    input: Operand,
    *,
    spacing: Number | Tensor | Sequence[Number | Tensor] | None = None,
    dim: Dims | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """``(f(x + h) - f(x - h)) / (2 h)``: the derivative of a sampled function along each dimension.

    For unequal distances h1 and h2, ``(h1^2 f(x + h2) - h2^2 f(x - h1) + (h2^2 - h1^2) f(x)) / (h1 h2 (h1 + h2))``.
    These differences are of second order; at the edges, one-sided differences of first or second order are used.

    Derivative: input: the transpose of this linear map; spacing: the derivative of the formulas.
    Shape: any; for each dimension a result of the input's shape.

    Args:
        input: the values of the function.
        spacing: the distance between points (default 1), or one per dimension, or a Tensor of coordinates per
            dimension.
        edge_order: the order of the differences at the edges, 1 or 2.

    Returns:
        A tuple, with a Tensor per dimension.

    Raises:
        RuntimeError: there are too few points, the number of spacings or ``edge_order`` is wrong, or the input is bool.

    >>> rg.gradient(rg.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    x = operand(input)
    if edge_order not in (1, 2):
        raise RuntimeError(f"edge_order must be 1 or 2, got {edge_order}")
    dims = tuple(range(x.ndim)) if dim is None else dimensions(dim, x.ndim)
    if dim is not None and dims and not x.ndim:
        raise IndexError(f"dim={dim} is out of range for a 0-d input")
    spacing = 1 if spacing is None else spacing
    spacings: list[object] = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(f"expected {len(dims)} spacings for the dimensions {dims}, got {len(spacings)}")
    if x.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if x.dtype.kind in "iu":
        x = converted(x, get_default_dtype())
    return tuple(_derivative(x, h, axis, edge_order) for axis, h in zip(dims, spacings, strict=True))


def _derivative(x: Tensor, spacing: Any, dim: int, edge_order: int) -> Tensor:
    length = x.array.shape[dim] if x.ndim else 0
    if length <= edge_order:
        raise RuntimeError(f"dimension {dim} of {describe(x)} must have at least {edge_order + 1} elements")

    def at(start: int | None, stop: int | None) -> Tensor:
        return x[along(dim, slice(start, stop))]

    if np.ndim(getattr(spacing, "array", spacing)):
        points = operand(spacing, "spacing")
        if points.shape != (length,):
            raise RuntimeError(f"expected {length} coordinates for dimension {dim}, got {describe(points)}")
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
    """Return the derivative at the first of three points, by a difference of second order."""
    return (-(2 * h1 + h2) / (h1 * (h1 + h2))) * f0 + ((h1 + h2) / (h1 * h2)) * f1 - (h1 / (h2 * (h1 + h2))) * f2
