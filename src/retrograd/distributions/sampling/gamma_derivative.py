"""The regularized incomplete gamma function P(a, x), and the implicit derivative of gamma samples.

A gamma sample x of shape a is reparameterized implicitly: its derivative is dx/da = -(dP/da) / p, where P is the
distribution function at x and p = dP/dx the density (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization
gradients", 2018).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated.toplevel import broadcast_tensors
from ...core.graph.primitive import apply
from ...core.tensor.tensor import Tensor
from ...ops.math.special.libraries import library_for
from ...ops.table.elementwise_primitives import elementwise
from .von_mises_derivative import unit_nodes

Array = Any


def _relative_slope(a: Array, log_x: Array) -> Array:
    """Return d log(x) / da = -(dP/da) / (x p), elementwise and in the dtype of a."""
    flat_a, flat_log_x = (part.astype("float64").reshape(-1) for part in np.broadcast_arrays(a, log_x))
    digamma = library_for(flat_a).digamma
    result = np.empty_like(flat_a)
    size = 1 << 15  # so that the quadrature nodes of a block fit in the cache
    for start in range(0, len(flat_a), size):
        block = slice(start, start + size)
        result[block] = _slope_of_block(flat_a[block], flat_log_x[block], digamma)
    return result.reshape(np.broadcast_shapes(a.shape, log_x.shape)).astype(a.dtype)


def _slope_of_block(a: Array, log_x: Array, digamma: Callable[[Array], Array]) -> Array:
    lead = log_x - digamma(a)
    result = np.empty_like(a)
    with np.errstate(all="ignore"):
        near_zero = log_x < 0
        lower, upper = ~near_zero & (lead < 0), ~near_zero & (lead >= 0)
        result[near_zero] = _by_series(a[near_zero], log_x[near_zero], digamma)
        result[lower] = _by_lower_integral(a[lower], np.exp(log_x[lower]), lead[lower])
        result[upper] = _by_upper_integral(a[upper], np.exp(log_x[upper]), lead[upper])
        result[~(near_zero | lower | upper)] = np.nan
    return result


def _by_series(a: Array, log_x: Array, digamma: Callable[[Array], Array]) -> Array:
    """Return d log(x) / da for x < 1.

    It follows from P = x^a e^-x / gamma(a + 1) * sum of c_n with c_n = x^n / ((a + 1) ... (a + n)), DLMF 8.11.4.
    """
    x = np.exp(log_x)
    term, harmonic = np.ones_like(a), np.zeros_like(a)
    total, derivative = np.ones_like(a), np.zeros_like(a)
    for n in range(1, 19):  # 1 / 19! is below the precision of float64
        term = term * x / (a + n)
        harmonic = harmonic + 1 / (a + n)
        total = total + term
        derivative = derivative - term * harmonic
    return -((log_x - digamma(a + 1)) * total + derivative) / a


# For larger x, dP/da = integral of p(t) (log(t) - digamma(a)) dt is computed by quadrature, from 0 to x or, with the
# other sign, from x to infinity. In the chosen interval log(t) - digamma(a) has one sign, which avoids cancellation.
# With t = x e^-u below x and t = x e^u above, p(t) t / (p(x) x) = e^f(u), where f is concave. The integral ends where
# f reaches -40.
_END = 40.0


def _newton(f: Callable[[Array], Array], slope: Callable[[Array], Array], u: Array) -> Array:
    """Return the root of f(u) = -_END for a concave f, by Newton's method from above."""
    for _ in range(4):
        u = u - (f(u) + _END) / slope(u)
    return u


def _integral(f: Callable[[Array], Array], lead: Array, end: Array) -> Array:
    """Return the integral of e^f(u) (lead + u) from 0 to the end."""
    total = np.zeros_like(end)
    for node, weight in zip(*unit_nodes()):
        u = end * node
        total = total + weight * np.exp(f(u)) * (lead + u)
    return total * end


def _by_lower_integral(a: Array, x: Array, lead: Array) -> Array:
    def f(u: Array) -> Array:
        return -a * u - x * np.expm1(-u)

    gap = a - x
    start = 2 * _END / (gap + np.sqrt(gap * gap + 2 * _END * x))
    return _integral(f, -lead, _newton(f, lambda u: x * np.exp(-u) - a, start))


def _by_upper_integral(a: Array, x: Array, lead: Array) -> Array:
    def f(u: Array) -> Array:
        return a * u - x * np.expm1(u)

    gap = x - a
    root = np.sqrt(gap * gap + 2 * _END * x)
    start = np.where(gap > 0, 2 * _END / (gap + root), (root - gap) / x)
    for _ in range(2):  # For x much smaller than a, the end is where x e^u is about a u.
        start = np.minimum(start, np.log1p((_END + a * start) / x))
    return _integral(f, lead, _newton(f, lambda u: a - x * np.exp(u), start))


def _no_second_order(g: object) -> Array:
    raise NotImplementedError("the derivative of gamma samples cannot be differentiated again")


RELATIVE_SLOPE = elementwise("gamma_relative_slope", _relative_slope, "a log_x", [_no_second_order, _no_second_order])


def _density(a: Array, x: Array) -> Array:
    library = library_for(x)
    return np.exp(library.xlogy(a - 1, x) - x - library.gammaln(a)).astype(x.dtype)


_DENSITY = elementwise(
    "gamma_density", _density, "a x", [_no_second_order, lambda g, a, x, ans: g * ans * ((a - 1) / x - 1)]
)
_INCOMPLETE_GAMMA = elementwise(
    "incomplete_gamma",
    lambda a, x: library_for(x).gammainc(a, x).astype(x.dtype),
    "a x",
    [
        lambda g, a, x: -g * x * _DENSITY(a, x) * RELATIVE_SLOPE(a, np.log(x)),
        lambda g, a, x: g * _DENSITY(a, x),
    ],
    promote="same",
)


def incomplete_gamma(a: Tensor, x: Tensor) -> Tensor:
    """Return P(a, x), the distribution function of gamma samples of shape a and rate 1, differentiable in a and x.

    Raises:
        RuntimeError: SciPy is not installed.
    """
    return apply(_INCOMPLETE_GAMMA, broadcast_tensors(a, x), {})
