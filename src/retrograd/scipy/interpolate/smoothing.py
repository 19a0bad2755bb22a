"""Splines that approximate values: smoothing splines and least squares on given knots, and FITPACK's classes.

The points, knots and least-squares weights are constants; splines are differentiable with respect to the values,
smoothing splines also with respect to ``lam`` and the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, detached, differentiable, floats, is_mapped, scipys
from ..linalg import solveh_banded
from .piecewise import prepared, refuse_complex
from .splines import BSpline, make_interp_spline, splev

_EXTENSIONS = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}


def _constant(name: str, **values: object) -> list[Array]:
    """Return arguments that have no derivative as arrays of float64."""
    for key, value in values.items():
        if is_mapped([value]) or isinstance(value, Tensor) and value.requires_grad:
            raise NotImplementedError(f"scipy.interpolate.{name}: {key} has no derivative here; detach() it")
    return [np.asarray(detached(value), np.float64) for value in values.values()]


@differentiable("scipy.interpolate")
def make_smoothing_spline(
    x: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, lam: ArrayLike | None = None, *, axis: int = 0
) -> BSpline:
    """Return the cubic spline f that minimizes ``sum(w * (y - f(x))^2) + lam * integral(f''^2)``.

    The spline is differentiable with respect to ``y``, ``w`` and ``lam``. Source: Green and Silverman 1994,
    *Nonparametric Regression and Generalized Linear Models*, section 2.3.

    Raises:
        NotImplementedError: ``lam`` is None, for which SciPy chooses ``lam`` from the values.

    >>> x = [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> rg.scipy.interpolate.make_smoothing_spline(x, rg.tensor([0.0, 1, 0, 1, 0]), lam=1e6)(2.0)
    tensor(0.4)
    """
    (nodes,) = _constant("make_smoothing_spline", x=x)
    if lam is None:
        raise NotImplementedError(
            "scipy.interpolate.make_smoothing_spline of Tensors: lam=None chooses lam by the values; pass lam"
        )
    _, values, axis = prepared(detached(x), y, axis, "make_smoothing_spline")
    refuse_complex("make_smoothing_spline", values)
    n = nodes.shape[0]
    if n < 5:
        raise ValueError(f"``x`` and ``y`` length must be at least 5, got {n}")
    weight, weights, values = floats(lam, [1.0] * n if w is None else w, values)
    if not is_mapped([weight, weights]) and (weight.item() < 0 or bool((weights.detach() <= 0).any())):
        raise ValueError("scipy.interpolate.make_smoothing_spline: lam must not be negative, and w must be positive")
    steps = np.diff(nodes).astype(values.array.real.dtype)
    first, last = 1 / steps[:-1], 1 / steps[1:]
    middle = -first - last
    v = 1 / weights
    main = (steps[:-1] + steps[1:]) / 3 + weight * (v[:-2] * first**2 + v[1:-1] * middle**2 + v[2:] * last**2)
    beside = steps[1:-1] / 6 + weight * (v[1:-2] * (middle[:-1] * first[1:]) + v[2:-1] * (last[:-1] * middle[1:]))
    far = weight * (v[2:-2] * (last[:-2] * first[2:]))
    zero = ops.zeros(1, dtype=main.dtype)
    bands = ops.stack([ops.cat([zero, zero, far]), ops.cat([zero, beside]), main])
    columns = values.reshape(n, -1)
    a, b, c = [tensor(z[:, None]).astype(columns.dtype) for z in (first, middle, last)]
    second = a * columns[:-2] + b * columns[1:-1] + c * columns[2:]
    curvature = solveh_banded(bands, second, check_finite=False)
    edge = ops.zeros((1, columns.shape[1]), dtype=columns.dtype)
    deviation = (
        ops.cat([a * curvature, edge, edge])
        + ops.cat([edge, b * curvature, edge])
        + ops.cat([edge, edge, c * curvature])
    )
    smooth = (columns - weight * v[:, None] * deviation).reshape(values.shape)
    return make_interp_spline(detached(x), ops.moveaxis(smooth, 0, axis), bc_type="natural", axis=axis)


@differentiable("scipy.interpolate")
def make_lsq_spline(
    x: ArrayLike,
    y: ArrayLike,
    t: ArrayLike,
    k: int = 3,
    w: ArrayLike | None = None,
    axis: int = 0,
    check_finite: bool = True,
    *,
    method: str = "qr",
) -> BSpline:
    """Return the spline with the knots ``t`` that minimizes ``sum((w * (y - f(x)))^2)``; only ``y`` is differentiable.

    >>> spline = rg.scipy.interpolate.make_lsq_spline([0.0, 1, 2], rg.tensor([0.0, 1, 2]), [0.0, 0, 2, 2], 1)
    >>> spline(0.5)
    tensor(0.5)
    """
    nodes, knots, weights = _constant("make_lsq_spline", x=x, t=t, w=np.ones(np.shape(x)) if w is None else w)
    points, values, axis = prepared(detached(x), y, axis, "make_lsq_spline")
    design = scipys("scipy.interpolate").BSpline.design_matrix(nodes, knots, k).toarray()
    if np.linalg.matrix_rank(design * weights[:, None]) < design.shape[1]:
        raise ValueError(
            "scipy.interpolate.make_lsq_spline: the points do not determine the spline (Schoenberg-Whitney)"
        )
    solution = np.linalg.lstsq(design * weights[:, None], np.diag(weights), rcond=None)[0]
    columns = values.reshape(nodes.shape[0], -1)
    c = ours.matmul(tensor(solution).astype(columns.dtype), columns).reshape(-1, *values.shape[1:])
    return BSpline(tensor(knots).astype(points.dtype), ops.moveaxis(c, 0, axis), k, True, axis)


class UnivariateSpline:
    """The spline through values (``s=0``), with the methods of FITPACK's classes; differentiable with respect to ``y``.

    Raises:
        NotImplementedError: ``s`` is not 0, for which FITPACK chooses the knots from the values.

    >>> rg.scipy.interpolate.UnivariateSpline([0.0, 1.0], rg.tensor([1.0, 3.0]), k=1, s=0)(0.5)
    tensor(2.)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        s: float | None = None,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        if s != 0:
            raise NotImplementedError(
                f"scipy.interpolate.UnivariateSpline of Tensors: s={s} chooses knots by the values; pass s=0, or use "
                "LSQUnivariateSpline with knots or make_smoothing_spline with lam"
            )
        (nodes,) = _constant("UnivariateSpline", x=x)
        start, end = self._ends(nodes, bbox)
        middle = nodes[(k + 1) // 2 : -(k + 1) // 2] if k % 2 else (nodes[1:] + nodes[:-1])[k // 2 : -(k // 2)] / 2
        knots = np.r_[[start] * (k + 1), middle, [end] * (k + 1)]
        spline = make_interp_spline(detached(x), y, k, knots, check_finite=check_finite)
        refuse_complex(type(self).__name__, spline.c)
        self._set(spline, ext)

    @staticmethod
    def _ends(nodes: Array, bbox: Sequence[float | None]) -> tuple[float, float]:
        start, end = bbox
        return float(nodes[0] if start is None else start), float(nodes[-1] if end is None else end)

    def _set(self, spline: BSpline, ext: int | str) -> None:
        self.spline = spline
        self.ext = _EXTENSIONS.get(ext, ext) if isinstance(ext, str) else ext
        if self.ext not in (0, 1, 2, 3):
            raise ValueError(f"Unknown extrapolation mode {ext}.")

    def __call__(self, x: ArrayLike, nu: int = 0, ext: int | str | None = None) -> Tensor:
        """Return the spline, or its derivative of order ``nu``, at points."""
        how = self.ext if ext is None else _EXTENSIONS.get(ext, ext) if isinstance(ext, str) else ext
        return splev(x, self.spline, nu, int(how))

    def get_knots(self) -> Tensor:
        """Return the knots, without repetitions."""
        k = self.spline.k
        return self.spline.t[k : self.spline.t.shape[0] - k]

    def get_coeffs(self) -> Tensor:
        """Return the coefficients."""
        return self.spline.c

    def integral(self, a: ArrayLike, b: ArrayLike) -> Tensor:
        """Return the integral from ``a`` to ``b``; the spline is 0 outside of the knots."""
        whole = BSpline(self.spline.t, self.spline.c, self.spline.k, False)
        return whole.integrate(a, b)

    def derivatives(self, x: ArrayLike) -> Tensor:
        """Return the spline and all its derivatives at one point."""
        return ops.stack([self(x, nu) for nu in range(self.spline.k + 1)])

    def derivative(self, n: int = 1) -> UnivariateSpline:
        """Return the derivative of order ``n``."""
        return self._like(self.spline.derivative(n))

    def antiderivative(self, n: int = 1) -> UnivariateSpline:
        """Return the antiderivative of order ``n``, which is 0 at the first knot."""
        return self._like(self.spline.antiderivative(n))

    def _like(self, spline: BSpline) -> UnivariateSpline:
        made = UnivariateSpline.__new__(UnivariateSpline)
        made._set(spline, 0 if self.ext == 3 else self.ext)
        return made


class InterpolatedUnivariateSpline(UnivariateSpline):
    """The spline through values, with the methods of FITPACK's classes; differentiable with respect to ``y``.

    >>> rg.scipy.interpolate.InterpolatedUnivariateSpline([0.0, 1.0], rg.tensor([1.0, 3.0]), k=1)(0.5)
    tensor(2.)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        super().__init__(x, y, w, bbox, k, 0, ext, check_finite)


class LSQUnivariateSpline(UnivariateSpline):
    """The least-squares spline with the inner knots ``t``, with the methods of FITPACK's classes.

    >>> x = [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> rg.scipy.interpolate.LSQUnivariateSpline(x, rg.tensor([0.0, 1, 2, 3, 4]), [2.0], k=1)(0.5)
    tensor(0.5)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        t: ArrayLike,
        w: ArrayLike | None = None,
        bbox: Sequence[float | None] = (None, None),
        k: int = 3,
        ext: int | str = 0,
        check_finite: bool = False,
    ) -> None:
        nodes, inner = _constant("LSQUnivariateSpline", x=x, t=t)
        start, end = self._ends(nodes, bbox)
        knots = np.r_[[start] * (k + 1), inner, [end] * (k + 1)]
        self._set(make_lsq_spline(x, y, knots, k, w, check_finite=check_finite), ext)
