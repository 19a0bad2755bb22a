"""Interpolation in tables: ``interp1d`` and regular grids of any number of dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensors
from ..decorators import ArrayLike, is_mapped, located
from .piecewise import MODULE, beside
from .splines import make_interp_spline

_DEGREES = {"zero": 0, "slinear": 1, "quadratic": 2, "cubic": 3, "quintic": 5}


class interp1d:
    """Interpolation in a table, by SciPy's kinds: linear, nearest, nearest-up, previous, next, and splines.

    Args:
        x: the points; they are sorted unless ``assume_sorted``.
        y: the values along ``axis``.
        kind: the kind of interpolation, or the degree of a spline.
        axis: the axis of ``y`` that belongs to ``x``.
        copy: accepted for compatibility; the arguments are never written to.
        bounds_error: whether to raise a ValueError for points outside; None means True, even with a ``fill_value``,
            unless that is ``"extrapolate"``.
        fill_value: the value for points outside, a pair of values for points below and above, or ``"extrapolate"``.
        assume_sorted: whether ``x`` is increasing.

    >>> rg.scipy.interpolate.interp1d([0.0, 1.0], rg.tensor([1.0, 3.0]))(0.5)
    tensor(2.)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: str | int = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: ArrayLike | None = math.nan,
        assume_sorted: bool = False,
    ) -> None:
        points, values = located(MODULE, [x], y)
        if points.ndim != 1:
            raise ValueError("the x array must have exactly one dimension.")
        self.axis = axis % values.ndim
        values = ops.moveaxis(values, self.axis, 0)
        if points.shape[0] != values.shape[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = ops.argsort(points.detach(), stable=True)
            points, values = points[order], values[order]
        self.x, self._values = points, values
        self.kind = kind
        self._extrapolate = isinstance(fill_value, str)
        if self._extrapolate and fill_value != "extrapolate":
            raise ValueError(f"fill_value must be numbers or 'extrapolate', got {fill_value!r}")
        if self._extrapolate and bounds_error:
            raise ValueError("Cannot extrapolate and raise at the same time.")
        self.bounds_error = not self._extrapolate if bounds_error is None else bounds_error
        self.fill_value = fill_value
        degree = _DEGREES.get(kind) if isinstance(kind, str) else kind
        self._spline = None
        if degree is not None:
            self._spline = make_interp_spline(points.detach(), values, degree)
        elif kind not in ("linear", "nearest", "nearest-up", "previous", "next"):
            raise NotImplementedError(f"{kind} is unsupported: Use fitpack routines for other types.")

    @property
    def y(self) -> Tensor:
        """The values."""
        return ops.moveaxis(self._values, 0, self.axis)

    def _inside(self, points: Tensor) -> Tensor:
        if self._spline is not None:
            return self._spline(points)
        x, at = self.x.detach(), points.detach()
        last = self.x.shape[0] - 1
        ndim = points.ndim + self._values.ndim - 1
        if self.kind == "linear":
            place = ops.clamp(ops.searchsorted(x, at) - 1, 0, max(last - 1, 0))
            weight = beside((points - self.x[place]) / (self.x[place + 1] - self.x[place]), ndim)
            return self._values[place] + weight * (self._values[place + 1] - self._values[place])
        if self.kind in ("nearest", "nearest-up"):
            middles = x[1:] / 2 + x[:-1] / 2
            place = ops.searchsorted(middles, at, right=self.kind == "nearest-up")
        elif self.kind == "previous":
            place = ops.searchsorted(x, at, right=True) - 1
        else:
            place = ops.searchsorted(x, at)
        return self._values[ops.clamp(place, 0, last)] + 0 * beside(points, ndim)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Return the values at points of any shape.

        Raises:
            ValueError: a point is outside of the table, and ``bounds_error`` is set.
        """
        points, _ = located(MODULE, [x, self.x])
        result = self._inside(points)
        below, above = points.detach() < self.x[0].detach(), points.detach() > self.x[-1].detach()
        if self.bounds_error and not self._extrapolate and not is_mapped([points]):
            for outside, word, end in ((below, "below", self.x[0]), (above, "above", self.x[-1])):
                if bool(outside.any()):
                    limit = "minimum" if word == "below" else "maximum"
                    raise ValueError(
                        f"A value ({points.detach()[outside][0].item()}) in x_new is {word} the interpolation range's "
                        f"{limit} value ({end.item()})."
                    )
        if not self._extrapolate:
            low, high = self.fill_value if isinstance(self.fill_value, tuple) else (self.fill_value, self.fill_value)
            low, high = [value.astype(result.dtype) for value in tensors(low, high)]
            result = ops.where(beside(below, result.ndim), low, result)
            result = ops.where(beside(above, result.ndim), high, result)
        elif self.kind == "previous":
            result = ops.where(beside(below, result.ndim), math.nan, result)
        elif self.kind == "next":
            result = ops.where(beside(above, result.ndim), math.nan, result)
        count = points.ndim
        return ops.moveaxis(result, list(range(count)), list(range(self.axis, self.axis + count)))


class RegularGridInterpolator:
    """Interpolation on a rectangular grid, whose points along each axis are increasing or decreasing.

    Args:
        points: the points of each axis, constants.
        values: the values on the grid; further axes appear in the result.
        method: ``"linear"``, ``"nearest"``, or splines: ``"slinear"``, ``"cubic"``, ``"quintic"``.
        bounds_error: whether a point outside raises a ValueError.
        fill_value: the value for points outside; None extrapolates.

    >>> table = rg.tensor([[0.0, 1.0], [1.0, 2.0]])
    >>> rg.scipy.interpolate.RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0]), table)([[0.5, 0.5]])
    tensor([1.])
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: float | None = math.nan,
    ) -> None:
        if method not in ("linear", "nearest", "slinear", "cubic", "quintic"):
            raise ValueError(f"Method '{method}' is not defined for Tensors")
        *coordinates, table = located(MODULE, points, values)
        if len(points) > table.ndim:
            raise ValueError(f"There are {len(points)} point arrays, but values has {table.ndim} dimensions")
        grid: list[Tensor] = []
        for axis, x in enumerate(coordinates):
            if x.ndim != 1 or x.shape[0] != table.shape[axis]:
                raise ValueError(
                    f"There are points of shape {tuple(x.shape)}, but {table.shape[axis]} values on dimension {axis}"
                )
            steps = x.detach()[1:] - x.detach()[:-1]
            if not is_mapped([x]) and bool((steps < 0).all()) and x.shape[0] > 1:
                x, table = ops.flip(x, (0,)), ops.flip(table, (axis,))
            elif not is_mapped([x]) and not bool((steps > 0).all()):
                raise ValueError(f"The points in dimension {axis} must be strictly ascending or descending")
            grid.append(x)
        self.grid, self.values, self.method = tuple(grid), table, method
        self.bounds_error, self.fill_value = bounds_error, fill_value
        self._check_lengths(method)

    def _check_lengths(self, method: str) -> None:
        least = _DEGREES.get(method, 0) + 1
        for axis, x in enumerate(self.grid):
            if x.shape[0] < least:
                raise ValueError(
                    f"There are {x.shape[0]} points in dimension {axis}, but method {method} requires at least {least} "
                    "points per dimension."
                )

    def __call__(self, xi: ArrayLike, method: str | None = None) -> Tensor:
        """Return the values at points, given along the last axis, or as a tuple of one array for each dimension."""
        method = self.method if method is None else method
        self._check_lengths(method)
        if isinstance(xi, tuple):
            points = ops.stack(list(ops.broadcast_tensors(*located(MODULE, xi, self.values)[:-1])), -1)
        else:
            points, _ = located(MODULE, [xi], self.values)
            if points.ndim == 0:
                points = points[None]
        count = len(self.grid)
        if points.shape[-1] != count:
            if count != 1:
                raise ValueError(
                    f"The requested sample points xi have dimension {points.shape[-1]} but this "
                    f"RegularGridInterpolator has dimension {count}"
                )
            points = points[..., None]
        if points.ndim == 1:
            points = points[None]
        axes = [points[..., axis] for axis in range(count)]
        outside = ops.zeros_like(axes[0].detach()) != 0
        for axis, (x, at) in enumerate(zip(self.grid, axes, strict=True)):
            beyond = (at.detach() < x[0].detach()) | (at.detach() > x[-1].detach())
            if self.bounds_error and not is_mapped([at]) and bool(beyond.any()):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {axis}")
            outside = outside | beyond
        result = self._spline(axes, method) if method in _DEGREES else self._corners(axes, method == "nearest")
        if self.fill_value is not None and not self.bounds_error:
            result = ops.where(beside(outside, result.ndim), float(self.fill_value), result)
        missing = ops.isnan(points.detach()).any(-1)
        return ops.where(beside(missing, result.ndim), math.nan, result)

    def _corners(self, axes: list[Tensor], nearest: bool) -> Tensor:
        places, weights = [], []
        for x, at in zip(self.grid, axes, strict=True):
            if x.shape[0] == 1:
                places.append(ops.zeros_like(at.detach()).long())
                weights.append(ops.zeros_like(at))
                continue
            place = ops.searchsorted(x[1:-1].detach(), at.detach(), right=True)
            places.append(place)
            weights.append((at - x[place]) / (x[place + 1] - x[place]))
        ndim = axes[0].ndim + self.values.ndim - len(axes)
        if nearest:
            chosen = [ops.where(w.detach() <= 0.5, place, place + 1) for place, w in zip(places, weights, strict=True)]
            return self.values[tuple(chosen)] + 0 * sum([beside(at, ndim) for at in axes])
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(axes)):
            if any(step and x.shape[0] == 1 for step, x in zip(corner, self.grid, strict=True)):
                continue
            factor: Any = 1.0
            for step, weight in zip(corner, weights, strict=True):
                factor = factor * (weight if step else 1 - weight)
            index = tuple([place + step for place, step in zip(places, corner, strict=True)])
            total = total + self.values[index] * beside(factor, ndim)
        return total

    def _spline(self, axes: list[Tensor], method: str) -> Tensor:
        """Interpolate by a product of splines: the coefficients along each axis, then the splines at each point."""
        degree = _DEGREES[method]
        bases, starts, coefficients = [], [], self.values
        for axis, (x, at) in enumerate(zip(self.grid, axes, strict=True)):
            if x.shape[0] <= degree:
                raise ValueError(
                    f"There are {x.shape[0]} points in dimension {axis}, but method {method} requires at least "
                    f"{degree + 1} points per dimension."
                )
            spline = make_interp_spline(x, coefficients, degree, axis=axis)
            coefficients = spline.tck[1]
            start, basis = _basis(spline.t, degree, at)
            starts.append(start)
            bases.append(basis)
        ndim = axes[0].ndim + self.values.ndim - len(axes)
        total: Any = 0.0
        for corner in itertools.product(range(degree + 1), repeat=len(axes)):
            factor: Any = 1.0
            for step, basis in zip(corner, bases, strict=True):
                factor = factor * basis[step]
            index = tuple([start + step for start, step in zip(starts, corner, strict=True)])
            total = total + coefficients[index] * beside(factor, ndim)
        return total


def _basis(t: Tensor, k: int, points: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return the first of the ``k + 1`` B-splines that are not zero at the points, and the values of all (de Boor)."""
    t, points = located(MODULE, [t, points])
    n = t.shape[0] - k - 1
    place = ops.searchsorted(t[k + 1 : n].detach(), points.detach(), right=True) + k
    basis = [ops.ones_like(points)]
    for degree in range(1, k + 1):
        following = [ops.zeros_like(points) for _ in range(degree + 1)]
        for j, value in enumerate(basis):
            low, high = t[place + 1 + j - degree], t[place + 1 + j]
            part = value / (high - low)
            following[j] = following[j] + (high - points) * part
            following[j + 1] = following[j + 1] + (points - low) * part
        basis = following
    return place - k, basis


def interpn(
    points: Sequence[ArrayLike],
    values: ArrayLike,
    xi: ArrayLike,
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: float | None = math.nan,
) -> Tensor:
    """Return the values at ``xi`` of ``RegularGridInterpolator(points, values, method)``.

    >>> rg.scipy.interpolate.interpn(([0.0, 1.0],), rg.tensor([1.0, 3.0]), rg.tensor([[0.5]]))
    tensor([2.])
    """
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
