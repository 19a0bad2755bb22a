"""The implicit derivative of von Mises samples with respect to the concentration.

A sample z of mean direction 0 and concentration k has dz/dk = -(dF/dk) / p(z), where p is the density and F(z) its
integral from -pi to z (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NoReturn

import numpy as np

from ...core.arrays import Array
from ...ops.math.special.libraries import library_for
from ...ops.table.elementwise_primitives import elementwise

_END = 40.0  # the integrals end where the density has fallen by the factor e^-40


@cache
def unit_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of the Gauss-Legendre rule of 32 points on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (nodes + 1) / 2, weights / 2


def _circular_variance(k: Array) -> Array:
    """Return 1 - I_1(k) / I_0(k), by its asymptotic series where the quotient is near 1."""
    library = library_for(k)
    large = np.maximum(k, 1e3)
    series = (1 + (1 + (1 + 25 / (16 * large)) / large) / (4 * large)) / (2 * large)
    return np.where(k > 1e3, series, 1 - library.i1e(k) / library.i0e(k))


def _integral(k: Array, z: Array, factor: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """Return the integral of ``factor(t) p(t) / p(z)`` over [0, |z|] or [|z|, pi], and a mask of the first case."""
    variance = _circular_variance(k)
    angle = abs(z)
    here = np.sin(angle / 2) ** 2
    inner = 2 * here < variance
    far = 2 * np.arcsin(np.sqrt(np.minimum(here + _END / (2 * k), 1)))
    begin, end = np.where(inner, 0, angle), np.where(inner, angle, far)
    total = np.zeros_like(angle)
    for node, weight in zip(*unit_nodes(), strict=True):
        t = begin + (end - begin) * node
        density = np.exp(2 * k * np.sin((angle - t) / 2) * np.sin((angle + t) / 2))  # p(t) / p(z)
        total = total + weight * factor(variance, t) * density
    return total * (end - begin), inner


def _slope(k: Array, z: Array) -> Array:
    """Return dz/dk, elementwise and in the dtype of k.

    dF/dk is the integral of (cos t - A) p(t) with A = I_1(k) / I_0(k), over [0, z] or, with the other sign, over
    [z, pi]: the interval in which cos t - A has one sign is chosen, which avoids cancellation.
    """
    total, _ = _integral(k.astype("float64"), z.astype("float64"), lambda v, t: abs(v - 2 * np.sin(t / 2) ** 2))
    return (-np.sign(z) * total).astype(k.dtype)


def _slope_by_k(k: Array, z: Array, slope: Array) -> Array:
    """Return the derivative of dz/dk by k at a fixed z.

    The derivative is -(d^2F/dk^2) / p(z) - (cos z - A) dz/dk, where d^2F/dk^2 is the integral of
    ((cos t - A)^2 - dA/dk) p(t), and dA/dk = 1 - A / k - A^2.
    """
    concentration, angle = k.astype("float64"), z.astype("float64")
    v = _circular_variance(concentration)
    variation = 2 * v - v * v - (1 - v) / concentration
    total, inner = _integral(concentration, angle, lambda v, t: (v - 2 * np.sin(t / 2) ** 2) ** 2 - variation)
    curvature = -np.sign(z) * np.where(inner, total, -total) - (v - 2 * np.sin(angle / 2) ** 2) * slope
    return curvature.astype(k.dtype)


def _slope_by_z(k: Array, z: Array, slope: Array) -> Array:
    """Return the derivative of dz/dk by z: A - cos z + k sin z dz/dk."""
    v = _circular_variance(k.astype("float64"))
    return (2 * np.sin(z / 2) ** 2 - v + k * np.sin(z) * slope).astype(k.dtype)


def _no_third_order(g: object) -> NoReturn:
    raise NotImplementedError("the second derivative of von Mises samples cannot be differentiated again")


SLOPE_BY_K, SLOPE_BY_Z = (
    elementwise(
        f"von_mises_slope_by_{name}", function, "k z slope", [_no_third_order, _no_third_order, _no_third_order]
    )
    for name, function in (("k", _slope_by_k), ("z", _slope_by_z))
)
SLOPE = elementwise(
    "von_mises_slope",
    _slope,
    "k z",
    [lambda g, k, z, ans: g * SLOPE_BY_K(k, z, ans), lambda g, k, z, ans: g * SLOPE_BY_Z(k, z, ans)],
)

VON_MISES = elementwise("standard_von_mises", lambda k, drawn: drawn, "k", [lambda g, k, ans: g * SLOPE(k, ans)])
