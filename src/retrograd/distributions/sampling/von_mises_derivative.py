"""The implicit derivative of von Mises samples with respect to the concentration.

A sample z of mean direction 0 and concentration k has dz/dk = -(dF/dk) / p(z), where p is the density and F(z) its
integral from -pi to z (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018).
"""

from __future__ import annotations

from functools import cache
from typing import NoReturn

import numpy as np

from ...core.arrays import Array
from ...ops.math.special.libraries import library_for
from ...ops.table.elementwise import elementwise

_END = 40.0  # the integrals end where the density has fallen by the factor e^-40


@cache
def unit_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of the Gauss-Legendre rule of 32 points on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (nodes + 1) / 2, weights / 2


def _circular_variance(k: Array) -> Array:
    """Return 1 - I_1(k) / I_0(k), by its asymptotic series where the quotient is near 1."""
    library = library_for(k, "i0e")
    large = np.maximum(k, 1e3)
    series = (1 + (1 + (1 + 25 / (16 * large)) / large) / (4 * large)) / (2 * large)
    return np.where(k > 1e3, series, 1 - library.i1e(k) / library.i0e(k))


def _slope(k: Array, z: Array) -> Array:
    """Return dz/dk, elementwise and in the dtype of k.

    dF/dk is the integral of (cos t - A) p(t) with A = I_1(k) / I_0(k), over [0, z] or, with the other sign, over
    [z, pi]: the interval in which cos t - A has one sign is chosen, which avoids cancellation.
    """
    concentration, angle = k.astype("float64"), abs(z.astype("float64"))
    variance = _circular_variance(concentration)
    here = np.sin(angle / 2) ** 2
    inner = 2 * here < variance
    far = 2 * np.arcsin(np.sqrt(np.minimum(here + _END / (2 * concentration), 1)))
    begin, end = np.where(inner, 0, angle), np.where(inner, angle, far)
    total = np.zeros_like(angle)
    for node, weight in zip(*unit_nodes(), strict=True):
        t = begin + (end - begin) * node
        density = np.exp(2 * concentration * np.sin((angle - t) / 2) * np.sin((angle + t) / 2))  # p(t) / p(z)
        total = total + weight * abs(variance - 2 * np.sin(t / 2) ** 2) * density
    return (-np.sign(z) * total * (end - begin)).astype(k.dtype)


def _no_second_order(g: object) -> NoReturn:
    raise NotImplementedError("the derivative of von Mises samples cannot be differentiated again")


SLOPE = elementwise("von_mises_slope", _slope, "k z", [_no_second_order, _no_second_order])

VON_MISES = elementwise("standard_von_mises", lambda k, drawn: drawn, "k", [lambda g, k, ans: g * SLOPE(k, ans)])
