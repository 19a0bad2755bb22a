"""Example calls of ``retrograd.scipy.interpolate``: interpolants of points and values, evaluated at other points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ..case import Call, Case
from . import Draw, Function, case

X = np.array([0.0, 0.7, 1.5, 2.1, 3.0, 3.6])
TUPLE = tuple(X.tolist())  # a tuple, which is a constant also in the checks of vmap
INSIDE = np.array([[0.2, 1.2, 1.9], [2.4, 3.4, 0.5]])
KNOTS = (0.0, 0.0, 0.0, 1.8, 3.6, 3.6, 3.6)
WEIGHTS = (1.0, 2.0, 0.5, 1.0, 1.5, 1.0)
OUTSIDE = np.array([-0.3, 0.4, 4.1])


def at(kind: Function) -> Function:
    """Return values of an interpolant as a function of its arguments, the points first."""
    return lambda points, *args, **options: kind(*args, **options)(points)


def grown(kind: Function) -> Function:
    """Return the values of an interpolant's first derivative, and an integral of the interpolant."""

    def call(points: object, *args: object, **options: object) -> object:
        f = kind(*args, **options)
        return f(points, 1), f.derivative()(points), f.antiderivative()(points), f.integrate(0.3, 2.8)

    return call


def one(name: str, *calls: Callable[..., Call], wrap: object = at, **options: object) -> Case:
    return case(f"interpolate.{name}", *calls, wrap=wrap, dtypes=(), **options)


def periodic(kind: Function) -> Function:
    """Return the values of a periodic spline; the first value is repeated as the last."""
    return lambda points, x, y: kind(x, np.concatenate([y, y[:1]]), bc_type="periodic")(points)


def closed(n: int, u: Draw) -> Call:
    return Call(OUTSIDE, X[:n], u(-1, 1, n - 1))


def through(k: int, bc: object, u: Draw) -> Call:
    return Call(INSIDE, TUPLE, u(-1, 1, 6, 2) if bc is None else u(-1, 1, 6), k=k, bc_type=bc)


def solved_exactly(points: object, values: object, method: str = "linear", **options: object) -> object:
    """Return SciPy's interpolator with an exact solver; its default is an iteration accurate to a few digits."""
    from scipy.interpolate import RegularGridInterpolator
    from scipy.sparse.linalg import spsolve

    if method == "cubic":
        options["solver"] = spsolve
    return RegularGridInterpolator(points, values, method, **options)


def of_class(kind: Function) -> Function:
    """Return the results of the methods of a FITPACK class."""

    def call(points: object, *args: object, **options: object) -> object:
        f = kind(*args, **options)
        return f.derivative()(points), f.antiderivative()(2.4), f.integral(0.3, 2.8), f.derivatives(1.1)

    return call


def univariate(k: int, u: Draw) -> Call:
    return Call((0.2, 2.4), TUPLE, u(-1, 1, 6), k=k, s=0)


def looked_up(kind: str, u: Draw) -> Call:
    return Call(INSIDE, TUPLE, u(-1, 1, 6), kind=kind)


CASES = [
    one(
        "PPoly", lambda u: Call(INSIDE, u(-1, 1, 3, 5), X), lambda u: Call(OUTSIDE, u(-1, 1, 2, 3, 5), X, "periodic", 1)
    ),
    one("CubicHermiteSpline", lambda u: Call(INSIDE, X, u(-1, 1, 6), u(-1, 1, 6))),
    one(
        "CubicSpline",
        lambda u: Call(INSIDE, X, u(-1, 1, 2, 6), axis=1),
        lambda u: Call(OUTSIDE, TUPLE, u(-1, 1, 6), bc_type="natural", extrapolate=True),
        lambda u: Call(OUTSIDE, X, u(-1, 1, 6), bc_type=((1, 0.5), (2, -0.3))),
        lambda u: Call(OUTSIDE, TUPLE[:3], u(-1, 1, 3), bc_type=("clamped", "not-a-knot")),
        lambda u: Call(INSIDE, X[:3], u(-1, 1, 3)),
        lambda u: Call(INSIDE, X[:2], u(-1, 1, 2)),
    ),
    one("CubicSpline", lambda u: Call(INSIDE, X, u(-1, 1, 6)), wrap=grown),
    *(one("CubicSpline", partial(closed, n), wrap=periodic) for n in (3, 4, 5, 6)),
    one(
        "PchipInterpolator", lambda u: Call(INSIDE, X, u(-1, 1, 6)), lambda u: Call(INSIDE, X, np.cumsum(u(0.5, 1, 6)))
    ),
    one("pchip_interpolate", lambda u: Call(X, u(-1, 1, 6), INSIDE, der=1), wrap=lambda f: f),
    one(
        "Akima1DInterpolator",
        lambda u: Call(INSIDE, X, u(-1, 1, 6)),
        lambda u: Call(INSIDE, X, u(-1, 1, 6, 2), method="makima"),
    ),
    one(
        "BSpline",
        lambda u: Call(INSIDE, np.arange(9.0) / 2 - 0.5, u(-1, 1, 5), 3),
        lambda u: Call(INSIDE, tuple((np.arange(8.0) * 1.3 - 2.6).tolist()), u(-1, 1, 2, 5), 2, False, 1),
    ),
    one("BSpline", lambda u: Call(INSIDE, tuple((np.arange(9.0) / 2 - 0.5).tolist()), u(-1, 1, 5), 3), wrap=grown),
    one(
        "splev", lambda u: Call(INSIDE, (tuple((np.arange(9.0) / 2).tolist()), u(-1, 1, 5), 3), ext=3), wrap=lambda f: f
    ),
    one(
        "make_interp_spline",
        *(
            partial(through, k, bc)
            for k, bc in ((3, None), (1, None), (0, None), (5, None), (3, "natural"), (3, ([(1, 0.5)], [(2, 0.1)])))
        ),
    ),
    one("make_interp_spline", lambda u: Call(INSIDE, TUPLE, u(-1, 1, 5)), wrap=periodic),
    one(
        "make_smoothing_spline",
        lambda u: Call(OUTSIDE, TUPLE, u(-1, 1, 6), u(0.5, 2, 6), u(0.1, 1)),
        lambda u: Call(INSIDE, TUPLE, u(-1, 1, 2, 6), lam=0.3, axis=1),
        wrap=at,
    ),
    one(
        "make_lsq_spline",
        lambda u: Call(INSIDE, TUPLE, u(-1, 1, 6, 2), KNOTS, 2),
        lambda u: Call(OUTSIDE, TUPLE, u(-1, 1, 6), KNOTS, 2, WEIGHTS),
    ),
    *(one("UnivariateSpline", partial(univariate, k), wrap=wrap) for k, wrap in ((2, at), (3, of_class))),
    one("InterpolatedUnivariateSpline", lambda u: Call(OUTSIDE, TUPLE, u(-1, 1, 6), bbox=(-0.5, 4.0), ext=3)),
    one("LSQUnivariateSpline", lambda u: Call(OUTSIDE, TUPLE, u(-1, 1, 6), (1.8,), WEIGHTS, ext="zeros")),
    one(
        "interp1d",
        lambda u: Call(INSIDE, X[::-1].copy(), u(-1, 1, 2, 6)),
        lambda u: Call(OUTSIDE, X, u(-1, 1, 6, 2), axis=0, fill_value="extrapolate"),
        lambda u: Call(OUTSIDE, X, u(-1, 1, 6), bounds_error=False, fill_value=(0.5, 2.0)),
        *(
            partial(looked_up, kind)
            for kind in ("nearest", "nearest-up", "previous", "next", "zero", "quadratic", "cubic")
        ),
    ),
    one(
        "RegularGridInterpolator",
        lambda u: Call(u(0.1, 1.4, 3, 2), (X[:4], X[:3][::-1].copy()), u(-1, 1, 4, 3, 2)),
        lambda u: Call(
            u(0.1, 1.4, 3, 2) * 3, (TUPLE[:4], TUPLE[:3]), u(-1, 1, 4, 3), bounds_error=False, fill_value=None
        ),
        lambda u: Call(u(0.1, 1.4, 3, 2), (TUPLE[:4], TUPLE[:3]), u(-1, 1, 4, 3), "nearest"),
        lambda u: Call(u(0.1, 2, 3, 2), (TUPLE, TUPLE[:5]), u(-1, 1, 6, 5), "cubic"),
        reference=solved_exactly,
    ),
    one(
        "interpn",
        lambda u: Call((TUPLE, TUPLE[:4]), u(-1, 1, 6, 4), u(0.1, 2, 3, 2), method="linear"),
        wrap=lambda f: f,
    ),
]
