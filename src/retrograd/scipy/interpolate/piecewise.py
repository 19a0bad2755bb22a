"""Piecewise polynomials, and cubic interpolants: Hermite, natural and clamped, PCHIP, Akima.

Everything is composed of operators, so values, slopes, evaluation points and breakpoints have derivatives of any order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, is_mapped, located
from ..linalg import solve_banded

MODULE = "scipy.interpolate"

Extrapolate = bool | Literal["periodic"] | None
Condition = str | tuple[int, ArrayLike]


def breakpoints(x: Tensor, count: int, name: str) -> None:
    """Check breakpoints.

    Raises:
        ValueError: ``x`` is not a vector of ``count`` elements that are strictly increasing.
    """
    if x.ndim != 1:
        raise ValueError(f"scipy.interpolate.{name}: `x` must be 1-dimensional, got shape {tuple(x.shape)}")
    if x.shape[0] != count:
        raise ValueError(f"scipy.interpolate.{name}: {x.shape[0]} points `x`, but {count} values `y` along the axis")
    if x.shape[0] < 2:
        raise ValueError(f"scipy.interpolate.{name}: `x` must contain at least 2 elements")
    if not is_mapped([x]) and not bool((x.detach()[1:] > x.detach()[:-1]).all()):
        raise ValueError(f"scipy.interpolate.{name}: `x` must be strictly increasing sequence.")


def prepared(x: ArrayLike, y: ArrayLike, axis: int, name: str) -> tuple[Tensor, Tensor, int]:
    """Return points, values with the axis of interpolation first, and the axis as a nonnegative number."""
    points, values = located(MODULE, [x], y)
    if not -values.ndim <= axis < values.ndim:
        raise ValueError(f"scipy.interpolate.{name}: axis {axis} is out of bounds for {values.ndim} dimensions")
    axis %= values.ndim
    values = ops.moveaxis(values, axis, 0)
    breakpoints(points, values.shape[0], name)
    return points, values, axis


def beside(x: Tensor, ndim: int) -> Tensor:
    """Append axes of length 1 to a vector."""
    return x.reshape(tuple(x.shape) + (1,) * (ndim - x.ndim))


class PPoly:
    """A piecewise polynomial with coefficients of descending powers of ``x - x[i]``.

    Args:
        c: the coefficients, of shape ``(k, m, ...)`` for ``m`` intervals, with k and m at ``axis`` and ``axis + 1``.
        x: the ``m + 1`` breakpoints, increasing.
        extrapolate: whether to extrapolate (None: yes) or to return NaN; ``"periodic"`` repeats the interval.
        axis: the position of the axis of interpolation in the results.

    >>> rg.scipy.interpolate.PPoly(rg.tensor([[1.0], [0.0], [0.0]]), [0.0, 1.0])(rg.tensor([0.5]))
    tensor([0.25])
    """

    def __init__(self, c: ArrayLike, x: ArrayLike, extrapolate: Extrapolate = None, axis: int = 0) -> None:
        points, coefficients = located(MODULE, [x], c)
        self._set(ops.moveaxis(coefficients, (axis, axis + 1), (0, 1)), points, extrapolate, axis)

    def _set(self, c: Tensor, x: Tensor, extrapolate: Extrapolate, axis: int) -> None:
        self.c, self.x, self.axis = c, x, axis
        self.extrapolate: Extrapolate = True if extrapolate is None else extrapolate
        breakpoints(self.x, self.c.shape[1] + 1, type(self).__name__)

    def _wrapped(self, points: Tensor) -> Tensor:
        start = self.x[0]
        return start + ops.remainder(points - start, self.x[-1] - start)

    def _evaluate(self, points: Tensor, nu: int) -> Tensor:
        """Return the derivative of order ``nu``, with the axes of the points before the axes of the values."""
        places = ops.searchsorted(self.x[1:-1].detach(), points.detach(), right=True)
        coefficients = self.c[:, places]
        ndim = coefficients.ndim - 1
        distance = beside(points - self.x[places], ndim)
        degree = self.c.shape[0] - 1
        result = ops.zeros_like(coefficients[0] * distance)
        for power in range(degree, nu - 1, -1):
            factor = math.perm(power, nu)
            result = result * distance + factor * coefficients[degree - power]
        return result

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: Extrapolate = None) -> Tensor:
        """Return the values, or the derivatives of order ``nu``, at points of any shape."""
        how = self.extrapolate if extrapolate is None else extrapolate
        points, _ = located(MODULE, [x, self.x])
        result = self._evaluate(self._wrapped(points) if how == "periodic" else points, nu)
        if not how:
            outside = (points.detach() < self.x[0].detach()) | (points.detach() > self.x[-1].detach())
            result = ops.where(beside(outside, result.ndim), math.nan, result)
        count = points.ndim
        return ops.moveaxis(result, list(range(count)), list(range(self.axis, self.axis + count)))

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the piecewise polynomial that is the derivative of order ``nu``."""
        if nu < 0:
            return self.antiderivative(-nu)
        degree = self.c.shape[0] - 1
        kept = max(degree - nu + 1, 0)
        factors = [float(math.perm(degree - i, nu)) for i in range(kept)] or [0.0]
        c = self.c[: max(kept, 1)] * beside(tensor(np.array(factors)).astype(self.c.dtype), self.c.ndim)
        return _piecewise(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the continuous antiderivative of order ``nu``, which is 0 at the first breakpoint."""
        if nu <= 0:
            return self.derivative(-nu)
        result: PPoly = self
        for _ in range(nu):
            degree = result.c.shape[0]
            factors = tensor(1.0 / np.arange(degree, 0, -1)).astype(self.c.dtype)
            c = result.c * beside(factors, result.c.ndim)
            lengths = beside(self.x[1:] - self.x[:-1], c.ndim - 1)
            parts = ops.zeros_like(c[0])
            for row in range(degree):
                parts = (parts + c[row]) * lengths
            starts = ops.cumsum(parts, 0)
            starts = ops.cat([ops.zeros_like(starts[:1]), starts[:-1]])
            how = False if self.extrapolate == "periodic" else self.extrapolate
            result = _piecewise(ops.cat([c, starts[None]]), self.x, how, self.axis)
        return result

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate = None) -> Tensor:
        """Return the integral from ``a`` to ``b``."""
        how = self.extrapolate if extrapolate is None else extrapolate
        whole = _piecewise(self.c, self.x, self.extrapolate, 0).antiderivative()
        if how != "periodic":
            return whole(b, extrapolate=how) - whole(a, extrapolate=how)
        period = self.x[-1] - self.x[0]
        over_period = whole(self.x[-1], extrapolate=True)

        def up_to(end: ArrayLike) -> Tensor:
            point, _ = located(MODULE, [end, self.x])
            turns = ops.floor((point - self.x[0]) / period)
            return whole(point - turns * period, extrapolate=True) + turns.detach() * over_period

        return up_to(b) - up_to(a)


def _piecewise(c: Tensor, x: Tensor, extrapolate: Extrapolate, axis: int) -> PPoly:
    result = PPoly.__new__(PPoly)
    result._set(c, x, extrapolate, axis)
    return result


class CubicHermiteSpline(PPoly):
    """The piecewise cubic polynomial with the values ``y`` and the slopes ``dydx`` at the points ``x``.

    >>> spline = rg.scipy.interpolate.CubicHermiteSpline([0.0, 1.0], rg.tensor([0.0, 1.0]), [0.0, 0.0])
    >>> spline(0.5)
    tensor(0.5)
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, dydx: ArrayLike, axis: int = 0, extrapolate: Extrapolate = None
    ) -> None:
        points, values, slopes = located(MODULE, [x], y, dydx)
        points, values, axis = prepared(points, values, axis, type(self).__name__)
        self._through(points, values, ops.moveaxis(slopes, axis, 0), axis, extrapolate)

    def _through(self, x: Tensor, y: Tensor, slopes: Tensor, axis: int, extrapolate: Extrapolate) -> None:
        lengths = beside(x[1:] - x[:-1], y.ndim)
        rise = (y[1:] - y[:-1]) / lengths
        t = (slopes[:-1] + slopes[1:] - 2 * rise) / lengths
        c = ops.stack([t / lengths, (rise - slopes[:-1]) / lengths - t, slopes[:-1], y[:-1]])
        self._set(c, x, extrapolate, axis)


class CubicSpline(CubicHermiteSpline):
    """The twice continuously differentiable piecewise cubic polynomial through the values ``y`` at the points ``x``.

    Args:
        x: the points, increasing.
        y: the values.
        axis: the axis of ``y`` along which to interpolate.
        bc_type: ``"not-a-knot"``, ``"natural"``, ``"clamped"``, ``"periodic"``, or for each end one of these or
            ``(order, value)`` of a first or second derivative.
        extrapolate: as for ``PPoly``; None is ``"periodic"`` for a periodic spline, else True.

    >>> rg.scipy.interpolate.CubicSpline([0.0, 1.0, 2.0], rg.tensor([0.0, 1.0, 4.0]))(1.5)
    tensor(2.25)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        bc_type: Condition | Sequence[Condition] = "not-a-knot",
        extrapolate: Extrapolate = None,
    ) -> None:
        points, values, axis = prepared(x, y, axis, "CubicSpline")
        ends = _conditions(bc_type)
        periodic = ends[0] == "periodic"
        if (
            periodic
            and not is_mapped([values])
            and not np.allclose(values.detach()[0], values.detach()[-1], rtol=1e-15, atol=1e-15)
        ):
            raise ValueError("scipy.interpolate.CubicSpline: the first and last `y` must be equal for 'periodic'.")
        if extrapolate is None:
            extrapolate = "periodic" if periodic else True
        slopes = _periodic_slopes(points, values) if periodic else _spline_slopes(points, values, ends)
        self._through(points, values, slopes, axis, extrapolate)


def _conditions(bc_type: Any) -> list[Condition]:
    """Return the condition of each end: ``"not-a-knot"``, ``"periodic"``, or the order and value of a derivative."""
    known: dict[str, Condition] = {"natural": (2, 0.0), "clamped": (1, 0.0)}
    both = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    if len(both) != 2:
        raise ValueError("`bc_type` must contain 2 elements to specify start and end conditions.")
    found: list[Condition] = []
    for condition in both:
        value = known.get(condition, condition) if isinstance(condition, str) else condition
        if isinstance(value, str) and value not in ("not-a-knot", "periodic"):
            raise ValueError(f"bc_type={value} is not allowed.")
        if not isinstance(value, str) and (len(value) != 2 or value[0] not in (1, 2)):
            raise ValueError("The specified derivative order must be 1 or 2.")
        found.append(value)
    if (found[0] == "periodic") != (found[1] == "periodic"):
        raise ValueError("'periodic' `bc_type` is defined for both curve ends and cannot be used with other types.")
    return found


def _spline_slopes(x: Tensor, y: Tensor, ends: list[Condition]) -> Tensor:
    """Return the slopes that make the second derivative continuous: the solution of a tridiagonal system."""
    n = x.shape[0]
    h = x[1:] - x[:-1]
    steps = beside(h, y.ndim)
    rise = (y[1:] - y[:-1]) / steps
    if n == 2:
        ends = [(1, rise[0]) if end == "not-a-knot" else end for end in ends]
    if n == 3 and ends[0] == ends[1] == "not-a-knot":  # the parabola through three points
        bend = (rise[1] - rise[0]) / (steps[0] + steps[1])
        return ops.stack([rise[0] - bend * steps[0], rise[0] + bend * steps[0], rise[1] + bend * steps[1]])
    zero = ops.zeros_like(h[:1])
    first, above, right = _end_row(x, y, h, steps, rise, ends[0], 0)
    last, below, left = _end_row(x, y, h, steps, rise, ends[1], -1)
    diagonal = ops.cat([first[None], 2 * (h[:-1] + h[1:]), last[None]])
    upper = ops.cat([zero, above[None], h[:-1]])
    lower = ops.cat([h[1:], below[None], zero])
    inner = 3 * (steps[1:] * rise[:-1] + steps[:-1] * rise[1:])
    sides = ops.cat([right[None], inner, left[None]])
    return _solved(ops.stack([upper, diagonal, lower]), sides)


def _end_row(
    x: Tensor, y: Tensor, h: Tensor, steps: Tensor, rise: Tensor, end: Condition, place: Literal[0, -1]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the diagonal element, the off-diagonal element and the right-hand side of the first or last equation."""
    near, next_ = (0, 1) if place == 0 else (-1, -2)
    if end == "not-a-knot":
        d = ops.abs(x[2] - x[0]) if place == 0 else x[-1] - x[-3]
        side = ((steps[near] + 2 * d) * steps[next_] * rise[near] + steps[near] ** 2 * rise[next_]) / d
        return h[next_], d, side
    assert not isinstance(end, str), "_conditions rejects other strings"
    order, value = end
    given = ops.broadcast_to(tensor(value).astype(y.dtype), tuple(y.shape[1:]))
    if order == 1:
        return ops.ones_like(h[near]), ops.zeros_like(h[near]), given
    sign = -0.5 if place == 0 else 0.5
    return 2 * h[near], h[near], sign * given * steps[near] ** 2 + 3 * rise[near] * steps[near]


def _solved(bands: Tensor, sides: Tensor) -> Tensor:
    columns = sides.reshape(sides.shape[0], -1)
    result: Tensor = solve_banded((1, 1), bands, columns, check_finite=False)
    return result.reshape(tuple(sides.shape))


def _periodic_slopes(x: Tensor, y: Tensor) -> Tensor:
    """Return the slopes of a periodic spline; solve for the last unknown first, to remove the corner elements."""
    n = x.shape[0]
    h = x[1:] - x[:-1]
    steps = beside(h, y.ndim)
    rise = (y[1:] - y[:-1]) / steps
    if n == 2:
        return ops.cat([rise, rise])
    if n == 3:
        mean = (rise / steps).sum(0) / (1 / steps).sum(0)
        return ops.broadcast_to(mean[None], tuple(y.shape))
    before = ops.cat([h[-1:], h[:-1]])  # the length of the interval before each point
    diagonal = 2 * (h + before)
    sides = 3 * (beside(before, y.ndim) * rise + steps * ops.cat([rise[-1:], rise[:-1]]))
    zero = ops.zeros_like(h[:1])
    bands = ops.stack([ops.cat([zero, before[:-2]]), diagonal[:-1], ops.cat([h[1:-1], zero])])
    corner = ops.cat([-h[:1], ops.zeros_like(h[1:-2]), -before[-2:-1]])
    if n == 4:
        corner = ops.stack([-h[0], -before[1]])
    both = _solved(bands, ops.cat([sides[:-1].reshape(n - 2, -1), corner[:, None]], 1))
    known, change = both[:, :-1].reshape(n - 2, *y.shape[1:]), beside(both[:, -1], y.ndim)
    last = (sides[-1] - _corner(h, before, known)) / (diagonal[-1] + _corner(h, before, change))
    inner = known + change * last
    return ops.cat([inner, last[None], inner[:1]])


def _corner(h: Tensor, before: Tensor, s: Tensor) -> Tensor:
    """Return the terms of the last equation with the first and the next to last unknown."""
    return before[-1] * s[0] + h[-1] * s[-1]


class PchipInterpolator(CubicHermiteSpline):
    """The monotone piecewise cubic interpolant of Fritsch and Butland (SIAM J. Sci. Comput. 5, 1984).

    Where neighboring slopes differ in sign, the slope is 0, and so is its derivative.

    >>> rg.scipy.interpolate.PchipInterpolator([0.0, 1.0, 2.0], rg.tensor([0.0, 1.0, 1.0]))(1.5)
    tensor(1.)
    """

    def __init__(self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: Extrapolate = None) -> None:
        points, values, axis = prepared(x, y, axis, "PchipInterpolator")
        refuse_complex("PchipInterpolator", values)
        h = beside(points[1:] - points[:-1], values.ndim)
        rise = (values[1:] - values[:-1]) / h
        if values.shape[0] == 2:
            slopes = ops.cat([rise, rise])
        else:
            before, after = rise[:-1], rise[1:]
            flat = (ops.sign(before) != ops.sign(after)) | (before == 0) | (after == 0)
            w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
            inverse = w1 / ops.where(flat, 1.0, before) + w2 / ops.where(flat, 1.0, after)
            inner = ops.where(flat, 0.0, (w1 + w2) / ops.where(flat, 1.0, inverse))
            first = _one_sided(h[0], h[1], rise[0], rise[1])
            last = _one_sided(h[-1], h[-2], rise[-1], rise[-2])
            slopes = ops.cat([first[None], inner, last[None]])
        self._through(points, values, slopes, axis, extrapolate)


def _one_sided(h0: Tensor, h1: Tensor, m0: Tensor, m1: Tensor) -> Tensor:
    """Return the slope at an end (C. Moler, Numerical Computing with MATLAB, 2004, 3.6)."""
    d = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = (ops.sign(m0) != ops.sign(m1)) & (ops.abs(d) > 3 * ops.abs(m0))
    return ops.where(ops.sign(d) != ops.sign(m0), 0.0, ops.where(steep, 3 * m0, d))


def refuse_complex(name: str, values: Tensor) -> None:
    """Raise a ValueError for complex values, which SciPy rejects, or whose imaginary part it drops."""
    if values.dtype.kind == "c":
        raise ValueError(f"`{name}` only works with real values for `y`; use its real part")


def pchip_interpolate(xi: ArrayLike, yi: ArrayLike, x: ArrayLike, der: int = 0, axis: int = 0) -> Tensor:
    """Return a derivative of order ``der``, by default the value, of ``PchipInterpolator(xi, yi)`` at ``x``.

    >>> rg.scipy.interpolate.pchip_interpolate([0.0, 1.0, 2.0], rg.tensor([0.0, 1.0, 1.0]), 1.5)
    tensor(1.)
    """
    return PchipInterpolator(xi, yi, axis=axis)(x, nu=der)


class Akima1DInterpolator(CubicHermiteSpline):
    """Akima's piecewise cubic interpolant (J. ACM 17, 1970), or with ``method="makima"`` its modified form.

    >>> rg.scipy.interpolate.Akima1DInterpolator([0.0, 1.0, 2.0], rg.tensor([0.0, 1.0, 2.0]))(1.5)
    tensor(1.5)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        *,
        method: Literal["akima", "makima"] = "akima",
        extrapolate: Extrapolate = None,
    ) -> None:
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        points, values, axis = prepared(x, y, axis, "Akima1DInterpolator")
        refuse_complex("Akima1DInterpolator", values)
        rise = (values[1:] - values[:-1]) / beside(points[1:] - points[:-1], values.ndim)
        slopes = ops.cat([rise, rise]) if values.shape[0] == 2 else _akima_slopes(rise, method == "makima")
        self._through(points, values, slopes, axis, False if extrapolate is None else extrapolate)


def _akima_slopes(rise: Tensor, modified: bool) -> Tensor:
    left = 2 * rise[:1] - rise[1:2]
    right = 2 * rise[-1:] - rise[-2:-1]
    m = ops.cat([2 * left - rise[:1], left, rise, right, 2 * right - rise[-1:]])
    weights = ops.abs(m[1:] - m[:-1])
    if modified:
        weights = weights + 0.5 * ops.abs(m[1:] + m[:-1])
    after, before = weights[2:], weights[:-2]
    total = after + before
    defined = total.detach() > 1e-9 * total.detach().max()
    weighted = m[1:-2] + before / ops.where(defined, total, 1.0) * (m[2:-1] - m[1:-2])
    return ops.where(defined, weighted, 0.5 * (m[3:] + m[:-3]))
