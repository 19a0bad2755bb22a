"""The implicit derivative of beta and Dirichlet samples with respect to the concentrations.

A component x of a Dirichlet sample is beta distributed, with its concentration a and the sum b of the other
concentrations. It is reparameterized implicitly: dx/da = -(dF/da) / p, where F is the distribution function at x and p
the density (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018). The other components
share the remainder in the same proportions, so that

    dx_i / da_j = D_j (delta_ij - x_i),  with  D_j = -(dF/da_j) / ((1 - x_j) p(x_j)).

Let u be the log-odds of a number t, z the log-odds of x, and s the sigmoid. As a function of u, the logarithm of the
density is f(u) = a log s(u) + b log s(-u), which is concave. So D = x * integral of e^(f(u) - f(z)) |log s(u) - c|,
from -infinity to z where log x < c = digamma(a) - digamma(a + b), else from z to infinity. In this interval
log s(u) - c does not change sign, which avoids cancellation.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...core.graph.primitive import Primitive
from ...ops.math.special.libraries import library_for
from ...ops.table.batching import given
from ...ops.table.elementwise_primitives import elementwise

Array = Any

_END = 40.0  # the integral ends where the integrand is e^-40 times its value at the sample
_FAR = 36.0  # log-odds beyond which log s(u) is u or 0 to working precision, and the integral has a closed form
_CUTS = (-np.inf, -_FAR, -10.0, 0.0, 10.0, _FAR, np.inf)  # intervals on which the integrand is smooth


@cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return (nodes + 1) / 2, weights / 2


def _log_sigmoid(u: Array) -> Array:
    return np.minimum(u, 0) - np.log1p(np.exp(-np.abs(u)))


def _digamma_growth(a: Array, b: Array) -> Array:
    """Return digamma(a + b) - digamma(a), by the asymptotic series where the two are close."""
    digamma, total = library_for(a).digamma, a + b
    large = np.maximum(a, 16.0)
    end = large + b
    series = np.log1p(b / large) + b / (2 * large * end)
    for power, factor in ((2, 1 / 12), (4, -1 / 120), (6, 1 / 252), (8, -1 / 240)):
        series = series + factor * (large**-power - end**-power)
    return np.where(a >= 16, series, digamma(total) - digamma(a))


def _scaled_slope(x: Array, a: Array, b: Array) -> Array:
    """Return D, elementwise in the dtype of x, computed in cache-sized blocks."""
    shape = np.broadcast_shapes(x.shape, a.shape, b.shape)
    flat = [part.astype("float64").reshape(-1) for part in np.broadcast_arrays(x, a, b)]
    result = np.empty_like(flat[0])
    size = 1 << 13
    with np.errstate(all="ignore"):
        for start in range(0, len(result), size):
            result[start : start + size] = _slope_of_block(*[part[start : start + size] for part in flat])
    return result.reshape(shape).astype(x.dtype)


def _slope_of_block(x: Array, a: Array, b: Array) -> Array:
    tiny, eps = np.finfo(np.float64).tiny, np.finfo(np.float64).eps
    x = np.clip(x, tiny, 1 - eps / 2)
    z = np.log(x) - np.log1p(-x)
    c = -_digamma_growth(a, b)
    down = np.log(x) < c
    sign = np.where(down, -1.0, 1.0)
    here = _log_sigmoid(z)

    def log_weight(u: Array, up: Array) -> Array:
        """f(u) - f(z), with ``up`` the logarithm of s(u)."""
        return a * (up - here) + b * (up - u - here + z)

    # Find the end by Newton's method, from an upper bound: f(u) is below a u and -b u.
    height = a * here + b * (here - z)
    end = -sign * z + (_END - height) / np.where(down, a, b)
    for _ in range(16):
        u = z + sign * end
        up = _log_sigmoid(u)
        slope = sign * (a * np.exp(up - u) - b * np.exp(up))
        step = (log_weight(u, up) + _END) / slope
        step = np.where(np.isfinite(step), np.maximum(step, 0), 0)
        end = end - step
        if not bool((step > 0.01 * end).any()):
            break
    low = np.maximum(np.where(down, z - end, z), np.where(down, -_FAR, -np.inf))
    high = np.minimum(np.where(down, z, z + end), np.where(down, np.inf, _FAR))
    beyond = np.where(down, np.minimum(z, -_FAR), np.maximum(z, _FAR))
    tail = np.where(down, (c - beyond) / a + 1 / (a * a), -c / b)
    total = np.exp(log_weight(beyond, _log_sigmoid(beyond))) * tail
    for left, right in zip(_CUTS, _CUTS[1:]):
        begin = np.clip(low, left, right)
        width = np.clip(high, left, right) - begin
        inside = width > 0
        if bool(inside.any()):
            parts = [part[inside] for part in (begin, width, a, b, c, z, here)]
            total[inside] += _between(*parts)
    return x * total


def _between(begin: Array, width: Array, a: Array, b: Array, c: Array, z: Array, here: Array) -> Array:
    total = np.zeros_like(begin)
    height = b * z - (a + b) * here
    for node, weight in zip(*_nodes()):
        u = begin + width * node
        up = _log_sigmoid(u)
        total = total + weight * np.exp((a + b) * up - b * u + height) * np.abs(up - c)
    return total * width


def _no_second_order(g: object) -> Array:
    raise NotImplementedError("the derivative of Dirichlet samples cannot be differentiated again")


SCALED_SLOPE = elementwise("dirichlet_slope", _scaled_slope, "x a b", [_no_second_order] * 3)


def _slope_of(a: Array, x: Array) -> Array:
    return SCALED_SLOPE(x, a, a.sum(axis=-1, keepdims=True) - a)


def _dirichlet_rule(g: Array, a: Array, ans: Array) -> Array:
    return _slope_of(a, ans) * (g - (g * ans).sum(axis=-1, keepdims=True))


def _dirichlet_tangent(t: object, a: object, ans: object) -> Array:
    moved = _slope_of(a, ans) * t
    return moved - ans * moved.sum(axis=-1, keepdims=True)


DIRICHLET = Primitive(
    "dirichlet", lambda a, drawn: drawn, "a", [_dirichlet_rule], jvps=[_dirichlet_tangent], batch=given("drawn")
)
