"""B-splines: evaluation by de Boor's recursion, derivatives and integrals by their coefficients."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, detached, is_mapped, located, scipys
from ..linalg import solve_banded
from .piecewise import MODULE, Extrapolate, beside, prepared, refuse_complex


class BSpline:
    """A spline of degree ``k`` with the knots ``t`` and the coefficients ``c``.

    Args:
        t: the knots, not decreasing.
        c: the coefficients, along ``axis``.
        k: the degree.
        extrapolate: whether to extrapolate by the first and last polynomial; ``"periodic"`` repeats the interval.
        axis: the axis of interpolation.

    >>> rg.scipy.interpolate.BSpline([0.0, 0.0, 1.0, 1.0], rg.tensor([1.0, 3.0]), 1)(0.5)
    tensor(2.)
    """

    def __init__(
        self, t: ArrayLike, c: ArrayLike, k: int, extrapolate: bool | Literal["periodic"] = True, axis: int = 0
    ) -> None:
        self.t, coefficients = located(MODULE, [t], c)
        self.axis = axis % coefficients.ndim
        self.c = ops.moveaxis(coefficients, self.axis, 0)
        self.k = int(k)
        self.extrapolate: Extrapolate = extrapolate
        n = self.t.shape[0] - self.k - 1
        if self.k < 0 or self.t.ndim != 1 or n < self.k + 1 or self.c.shape[0] < n:
            raise ValueError(
                f"scipy.interpolate.BSpline: {self.t.shape[0]} knots and degree {k} do not fit {self.c.shape[0]} "
                "coefficients; pass n + k + 1 knots for n coefficients, where n is at least k + 1"
            )
        if not is_mapped([self.t]) and bool((self.t.detach()[1:] < self.t.detach()[:-1]).any()):
            raise ValueError("Knots must be in a non-decreasing order.")

    @property
    def tck(self) -> tuple[Tensor, Tensor, int]:
        """The knots, the coefficients and the degree."""
        return self.t, ops.moveaxis(self.c, 0, self.axis), self.k

    def _span(self) -> tuple[Tensor, Tensor]:
        return self.t[self.k], self.t[self.t.shape[0] - self.k - 1]

    def _evaluate(self, points: Tensor) -> Tensor:
        n = self.t.shape[0] - self.k - 1
        places = ops.searchsorted(self.t[self.k + 1 : n].detach(), points.detach(), right=True) + self.k
        ndim = points.ndim + self.c.ndim - 1
        rows = [self.c[places - self.k + j] for j in range(self.k + 1)]
        if not self.k:
            return rows[0] + 0 * beside(points, ndim)
        for r in range(1, self.k + 1):
            for j in range(self.k, r - 1, -1):
                low, high = self.t[places + j - self.k], self.t[places + j + 1 - r]
                alpha = beside((points - low) / (high - low), ndim)
                rows[j] = (1 - alpha) * rows[j - 1] + alpha * rows[j]
        return rows[self.k]

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate = None) -> Tensor:
        """Return the spline, or its derivative of order ``nu``, at points of any shape."""
        if nu:
            return self.derivative(nu)(x, extrapolate=self.extrapolate if extrapolate is None else extrapolate)
        how = self.extrapolate if extrapolate is None else extrapolate
        points, _ = located(MODULE, [x, self.t])
        start, end = self._span()
        if how == "periodic":
            points = start + ops.remainder(points - start, end - start)
        result = self._evaluate(points)
        if not how:
            outside = (points.detach() < start.detach()) | (points.detach() > end.detach())
            result = ops.where(beside(outside, result.ndim), math.nan, result)
        count = points.ndim
        return ops.moveaxis(result, list(range(count)), list(range(self.axis, self.axis + count)))

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the derivative of order ``nu``."""
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            if k == 0:
                c = ops.zeros_like(c)
                continue
            lengths = t[k + 1 : -1] - t[1 : -k - 1]
            empty = lengths.detach() == 0
            steps = beside(ops.where(empty, 1.0, lengths), c.ndim)
            c = ops.where(beside(empty, c.ndim), 0.0, k * (c[1:] - c[:-1]) / steps)
            t, k = t[1:-1], k - 1
        return BSpline(t, ops.moveaxis(c, 0, self.axis), k, self.extrapolate or False, self.axis)

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the spline that is the antiderivative of order ``nu``, which is 0 at the first knot."""
        t, c, k = self.t, self.c[: self.t.shape[0] - self.k - 1], self.k
        for _ in range(nu):
            lengths = beside(t[k + 1 :] - t[: -k - 1], c.ndim)
            total = ops.cumsum(c * lengths, 0) / (k + 1)
            c = ops.cat([ops.zeros_like(total[:1]), total])
            t, k = ops.cat([t[:1], t, t[-1:]]), k + 1
        how = False if self.extrapolate == "periodic" else self.extrapolate or False
        return BSpline(t, ops.moveaxis(c, 0, self.axis), k, how, self.axis)

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate = None) -> Tensor:
        """Return the integral from ``a`` to ``b``; beyond the base interval, of the extrapolated spline."""
        how = self.extrapolate if extrapolate is None else extrapolate
        if how == "periodic":
            raise NotImplementedError("scipy.interpolate.BSpline.integrate: 'periodic' is not supported with Tensors")
        whole = BSpline(self.t, self.c, self.k, True, 0).antiderivative()
        low, high = [located(MODULE, [end, self.t])[0] for end in (a, b)]
        if not how:
            start, stop = self._span()
            low, high = [ops.minimum(ops.maximum(end, start), stop) for end in (low, high)]
        return whole(high) - whole(low)


def make_interp_spline(
    x: ArrayLike,
    y: ArrayLike,
    k: int = 3,
    t: ArrayLike | None = None,
    bc_type: object = None,
    axis: int = 0,
    check_finite: bool = True,
) -> BSpline:
    """Return the spline of degree ``k`` through the values ``y``, differentiable with respect to ``y``.

    >>> rg.scipy.interpolate.make_interp_spline([0.0, 1.0], rg.tensor([1.0, 3.0]), k=1)(0.5)
    tensor(2.)
    """
    if is_mapped([x, t]) or any(isinstance(value, Tensor) and value.requires_grad for value in (x, t)):
        raise NotImplementedError(
            "scipy.interpolate.make_interp_spline: points and knots have no derivative here; use CubicSpline, or "
            "detach() them"
        )
    points, values, axis = prepared(detached(x) if isinstance(x, Tensor) else x, y, axis, "make_interp_spline")
    nodes = points.detach().numpy().astype(np.float64)
    interpolate = scipys("scipy.interpolate")
    n = nodes.shape[0]
    zeros = np.zeros(values.shape)
    base = interpolate.make_interp_spline(nodes, zeros, k, detached(t), bc_type, 0, check_finite)
    knots = base.t
    if bc_type is None and k > 0:  # a band system with one row for each point
        bands = np.zeros((2 * k + 1, n))
        matrix = interpolate.BSpline.design_matrix(nodes, knots, k).tocoo()
        bands[k + matrix.row - matrix.col, matrix.col] = matrix.data
        columns = values.reshape(n, -1)
        c = solve_banded((k, k), tensor(bands).astype(values.dtype), columns, check_finite=False)
    else:  # coefficients are an affine function of the values
        unit = np.eye(n) if bc_type != "periodic" else np.eye(n)[:, :-1] + np.eye(n, n - 1, 1 - n)
        moved = interpolate.make_interp_spline(
            nodes, unit, k, detached(t), _zeroed(bc_type, unit.shape[1]), 0, check_finite
        ).c
        rows = values.reshape(n, -1)[: unit.shape[1]]
        constant = tensor(base.c.reshape(base.c.shape[0], -1))
        c = ours.matmul(tensor(moved).astype(values.dtype), rows) + constant.astype(values.dtype)
    how: Any = "periodic" if bc_type == "periodic" else True
    coefficients = c.reshape(c.shape[0], *values.shape[1:])
    return BSpline(tensor(knots).astype(points.dtype), ops.moveaxis(coefficients, 0, axis), k, how, axis)


def _zeroed(bc_type: Any, columns: int) -> Any:
    if bc_type is None or isinstance(bc_type, str):
        return bc_type
    return tuple([
        end if end is None or isinstance(end, str) else [(order, np.zeros(columns)) for order, _ in end]
        for end in bc_type
    ])  # fmt: skip


def splev(x: ArrayLike, tck: tuple[ArrayLike, ArrayLike, int] | BSpline, der: int = 0, ext: int = 0) -> Tensor:
    """Return the values at ``x`` of a spline, given as knots, coefficients and degree, or of its derivative.

    Args:
        x: the points.
        tck: the knots, the coefficients and the degree, or a BSpline.
        der: the order of the derivative.
        ext: outside of the knots: 0 extrapolates, 1 returns 0, 3 the value at the end (but derivatives extrapolate, as
            in SciPy); 2 raises a ValueError.

    >>> rg.scipy.interpolate.splev(0.5, ([0.0, 0.0, 1.0, 1.0], rg.tensor([1.0, 3.0]), 1))
    tensor(2.)
    """
    spline = tck if isinstance(tck, BSpline) else BSpline(*tck)
    if not isinstance(tck, BSpline):
        refuse_complex("splev", spline.c)
    points, _ = located(MODULE, [x, spline.t])
    start, end = spline._span()
    outside = (points.detach() < start.detach()) | (points.detach() > end.detach())
    if ext == 2 and bool(outside.any()):
        raise ValueError("scipy.interpolate.splev: a value is outside of the knots, and ext=2")
    if ext == 3 and der == 0:
        points = ops.minimum(ops.maximum(points, start), end)
    elif ext not in (0, 1, 2, 3):
        raise ValueError(f"ext = {ext} not in (0, 1, 2, 3) ")
    result = spline(points, nu=der, extrapolate=True)
    return ops.where(outside, 0.0, result) if ext == 1 else result
