"""Functions of scipy.special on Tensors. SciPy's ufuncs accept Tensors; this module exports them unchanged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .._generated import special
from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.graph.plan import Rule
from ..core.graph.primitive import Primitive, apply
from ..ops.numpy.arguments import axes_of, floating, tensor, tensors
from ..ops.numpy.scipy_bessel import SPHERICAL
from ..ops.numpy.scipy_special import JACOBI, RULES
from ..ops.table.elementwise_primitives import elementwise
from .decorators import ArrayLike, differentiable, is_mapped, other_names, scipys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.tensor.tensor import Tensor

__all__ = [
    "assoc_legendre_p", "comb", "diric", "factorial", "legendre_p", "log_softmax", "logsumexp", "multigammaln", "perm",
    "polygamma", "softmax", "sph_harm_y", "sph_legendre_p", "spherical_in", "spherical_jn", "spherical_kn",
    "spherical_yn",
]  # fmt: skip

Axes = int | tuple[int, ...] | None

__getattr__ = other_names(__name__)

# Sums of exponentials


@differentiable("scipy.special")
def logsumexp(
    a: ArrayLike, axis: Axes = None, b: ArrayLike | None = None, keepdims: bool = False, return_sign: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return ``log(sum(b * exp(a)))`` without overflow.

    The derivative with respect to ``a`` is ``b * exp(a - result)``, with respect to ``b`` it is ``exp(a - result)``.
    With ``return_sign``, return the logarithm of the absolute value, and the sign, which has no gradient.

    >>> rg.scipy.special.logsumexp(rg.tensor([1000.0, 1000.0]))
    tensor(1000.6932)
    """
    values = floating(tensor(a))
    if b is None and not return_sign:
        return ops.logsumexp(values, axes_of(values, axis), keepdim=keepdims)
    values, factors = tensors(values, 1.0 if b is None else b)
    values, factors = ops.broadcast_tensors(floating(values), floating(factors))
    dims = axes_of(values, axis)
    largest = ops.amax(ops.where(factors == 0, -math.inf, values.detach()), dims, keepdim=True)
    largest = ops.where(ops.isfinite(largest), largest, 0.0)
    total = (factors * ops.exp(ops.where(factors == 0, -math.inf, values) - largest)).sum(dims, keepdim=True)
    sign = ops.sign(total.detach())
    result = ops.log(total * sign if return_sign else total) + largest
    if not keepdims:
        result, sign = result.squeeze(dims), sign.squeeze(dims)
    return (result, sign) if return_sign else result


@differentiable("scipy.special")
def log_softmax(x: ArrayLike, axis: Axes = None) -> Tensor:
    """Return the logarithm of ``softmax``, computed without overflow.

    >>> rg.scipy.special.log_softmax(rg.tensor([0.0, 1000.0]))
    tensor([-1000.,     0.])
    """
    values = floating(tensor(x))
    return values - ops.logsumexp(values, axes_of(values, axis), keepdim=True)


@differentiable("scipy.special")
def softmax(x: ArrayLike, axis: Axes = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))``, over all elements for ``axis=None``.

    >>> rg.scipy.special.softmax(rg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    values = floating(tensor(x))
    if isinstance(axis, tuple) or values.is_complex():
        return ops.exp(log_softmax(values, axis))
    if axis is None:
        return ops.softmax(values.reshape(-1), 0).reshape(values.shape)
    return ops.softmax(values, axis)


# Gamma functions and combinatorics


@differentiable("scipy.special")
def multigammaln(a: ArrayLike, d: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension ``d``.

    >>> rg.scipy.special.multigammaln(rg.tensor([3.0]), 2)
    tensor([1.5502])
    """
    values = floating(tensor(a))
    if not is_mapped((values,)) and bool((values.detach() <= 0.5 * (d - 1)).any()):
        raise ValueError(f"scipy.special.multigammaln: a must be greater than (d - 1) / 2 = {0.5 * (d - 1)}")
    return special.multigammaln(values, d)


@differentiable("scipy.special")
def polygamma(n: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the derivative of order ``n``, an integer or an array of integers, of ``digamma`` at ``x``.

    >>> rg.scipy.special.polygamma(1, rg.tensor([1.0]))
    tensor([1.6449])
    """
    values = floating(tensor(x))
    orders = np.asarray(n)
    if bool((orders != np.trunc(orders)).any()):
        raise ValueError("scipy.special.polygamma: the orders must be integers")
    if orders.ndim == 0:
        return special.polygamma(int(orders), values)
    chosen = [(orders == k, special.polygamma(int(k), values)) for k in np.unique(orders)]
    result = ops.zeros_like(chosen[0][1])
    for mask, value in chosen:
        result = ops.where(mask, value, result)
    return result


def _counted(n: Tensor, k: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return a function of ``n`` and ``k`` where ``0 <= k <= n``, else 0."""
    inside = (k <= n) & (n >= 0) & (k >= 0)
    # The function is evaluated at (1, 0) where its result is not used: its derivative can be NaN there.
    return ops.where(inside, function(ops.where(inside, n, 1.0), ops.where(inside, k, 0.0)), 0.0)


@differentiable("scipy.special")
def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Tensor:
    """Return the number of combinations ``binom(N, k)``, differentiable; 0 outside of ``0 <= k <= N``.

    >>> rg.scipy.special.comb(rg.tensor(5.0), 2)
    tensor(10.)
    """
    if exact:
        raise ValueError("scipy.special.comb: exact=True computes with Python integers; pass numbers, or exact=False")
    n, count = [floating(x) for x in tensors(N, k)]
    if repetition:
        return ops.where((count == 0) & (n >= 0), 1.0, _counted(n + count - 1, count, RULES["binom"]))
    return _counted(n, count, RULES["binom"])


@differentiable("scipy.special")
def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Tensor:
    """Return the number of permutations ``N! / (N - k)!``, differentiable; 0 outside of ``0 <= k <= N``.

    >>> rg.scipy.special.perm(rg.tensor(5.0), 2)
    tensor(20.)
    """
    if exact:
        raise ValueError("scipy.special.perm: exact=True computes with Python integers; pass numbers, or exact=False")
    n, count = [floating(x) for x in tensors(N, k)]
    return _counted(n, count, lambda n, k: RULES["poch"](n - k + 1, k))


@differentiable("scipy.special")
def factorial(n: ArrayLike, exact: bool = False, extend: str = "zero") -> Tensor:
    """Return ``gamma(n + 1)``, 0 for negative numbers.

    >>> rg.scipy.special.factorial(rg.tensor([3.0, -1.0]))
    tensor([6., 0.])
    """
    if exact or extend != "zero":
        raise ValueError("scipy.special.factorial of Tensors: only exact=False and extend='zero' are supported")
    values = floating(tensor(n))
    kept = ops.where(values < 0, 0.0, values)
    return ops.where(values < 0, 0.0, RULES["gamma"](kept + 1))


@differentiable("scipy.special", real=True)
def diric(x: ArrayLike, n: int) -> Tensor:
    """Return Dirichlet's kernel ``sin(n x / 2) / (n sin(x / 2))``, elementwise.

    The kernel is computed as a sum of cosines, which has derivatives at multiples of ``2 pi``, too.

    >>> rg.scipy.special.diric(rg.tensor([0.0, 1.0]), 3)
    tensor([1.    , 0.6935])
    """
    if n != int(n) or n <= 0:
        return floating(tensor(x)) * math.nan
    values = floating(tensor(x))[..., None]
    frequencies = np.arange((1 - n) / 2, (n + 1) / 2).astype(values.array.real.dtype)
    return ops.cos(values * frequencies).mean(-1)


# Spherical Bessel functions


def _spherical(name: str, n: ArrayLike, z: ArrayLike, derivative: bool) -> Tensor:
    return SPHERICAL[name][derivative](n, floating(tensor(z)))


@differentiable("scipy.special")
def spherical_jn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """Return the spherical Bessel function of the first kind of the integer order ``n``, or its derivative.

    >>> rg.scipy.special.spherical_jn(0, rg.tensor([1.0]))
    tensor([0.8415])
    """
    return _spherical("spherical_jn", n, z, derivative)


@differentiable("scipy.special")
def spherical_yn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """Return the spherical Bessel function of the second kind of the integer order ``n``, or its derivative.

    >>> rg.scipy.special.spherical_yn(0, rg.tensor([1.0]))
    tensor([-0.5403])
    """
    return _spherical("spherical_yn", n, z, derivative)


@differentiable("scipy.special")
def spherical_in(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """Return the modified spherical Bessel function of the first kind of the integer order ``n``, or its derivative.

    >>> rg.scipy.special.spherical_in(0, rg.tensor([1.0]))
    tensor([1.1752])
    """
    return _spherical("spherical_in", n, z, derivative)


@differentiable("scipy.special")
def spherical_kn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """Return the modified spherical Bessel function of the second kind of the integer order ``n``, or its derivative.

    >>> rg.scipy.special.spherical_kn(0, rg.tensor([1.0]))
    tensor([0.5779])
    """
    return _spherical("spherical_kn", n, z, derivative)


# Legendre functions and spherical harmonics, of integer degrees and orders


def _of_integers(name: str) -> Rule:

    def forward(n: Array, m: Array, x: Array) -> Array:
        degree, order = np.asarray(n).astype(np.int64), np.asarray(m).astype(np.int64)
        return getattr(scipys("scipy.special"), name)(degree, order, x)[0].astype(x.dtype)

    return forward


def _sph_legendre_slope(g: Array, n: Array, m: Array, x: Array) -> Array:
    """Return g times the derivative by theta, the mean of both ladder operators (Edmonds, Angular Momentum, 2.5.24).

    SciPy's functions of odd order contain ``|sin(theta)|``, so that the operators change their sign outside of [0, pi].
    """
    side = np.where(np.sin(x) < 0, -1.0, 1.0)
    up, down = np.sqrt(np.maximum((n - m) * (n + m + 1), 0.0)), np.sqrt(np.maximum((n + m) * (n - m + 1), 0.0))
    return g * side * (up * _SPH_LEGENDRE(n, m + 1, x) - down * _SPH_LEGENDRE(n, m - 1, x)) / 2


def _assoc_legendre_slope(g: Array, n: Array, m: Array, x: Array, ans: Array) -> Array:
    """Return g times the derivative by x (DLMF 14.10.5); a function whose order exceeds its degree is 0."""
    exists = np.abs(m) <= n
    above = np.where(exists, _ASSOC_LEGENDRE(np.where(exists, n + 1, 0), np.where(exists, m, 0), x), 0.0)
    return g * ((m - n - 1) * above + (n + 1) * x * ans) / (1 - x * x)


def _legendre(name: str, slope: Rule) -> Primitive:
    return elementwise(f"scipy.special.{name}", _of_integers(name), "n m x", [None, None, slope], signals=True)


_SPH_LEGENDRE: Primitive = _legendre("sph_legendre_p", _sph_legendre_slope)
_ASSOC_LEGENDRE: Primitive = _legendre("assoc_legendre_p", _assoc_legendre_slope)


def _at(primitive: Primitive, n: ArrayLike, m: ArrayLike, x: ArrayLike) -> Tensor:
    """Return a Legendre function of integer degrees and orders.

    Raises:
        ValueError: the degrees or orders are not integers.
    """
    points = floating(tensor(x))
    return apply(primitive, (*_integers(primitive.name, points, n, m), points), {})


def _integers(name: str, beside: Tensor, *values: ArrayLike) -> list[Array]:
    found = [np.asarray(value) for value in values]
    for value in found:
        if value.dtype.kind not in "iu":
            raise ValueError(f"{name}: degrees and orders must be integers, got {value.dtype}")
    return [value.astype(beside.array.dtype) for value in found]


def _only_values(name: str, diff_n: int) -> None:
    if diff_n != 0:
        raise NotImplementedError(f"scipy.special.{name} of Tensors: diff_n must be 0; differentiate the result")


@differentiable("scipy.special")
def legendre_p(n: ArrayLike, z: ArrayLike, *, diff_n: int = 0) -> Tensor:
    """Return Legendre's polynomial of degree ``n`` and its first ``diff_n`` derivatives, along a new first axis.

    >>> rg.scipy.special.legendre_p(2, rg.tensor([0.5]), diff_n=1)
    tensor([[-0.125],
            [ 1.5  ]])
    """
    points = floating(tensor(z))
    (degree,) = _integers("scipy.special.legendre_p", points, n)
    results: list[Tensor] = []
    factor: Array | float = 1.0
    for k in range(diff_n + 1):
        exists = degree >= k
        order = np.where(exists, degree - k, 0)
        value = apply(JACOBI, (order, float(k), float(k), points), {})
        results.append(ops.where(exists, factor * value, 0.0))
        factor = factor * (degree + k + 1) / 2
    return ops.stack(results)


@differentiable("scipy.special")
def assoc_legendre_p(
    n: ArrayLike, m: ArrayLike, z: ArrayLike, *, branch_cut: int = 2, norm: bool = False, diff_n: int = 0
) -> Tensor:
    """Return the associated Legendre function of degree ``n`` and order ``m``, along a new first axis of length 1.

    >>> rg.scipy.special.assoc_legendre_p(2, 1, rg.tensor([0.5]))
    tensor([[-1.299]])
    """
    _only_values("assoc_legendre_p", diff_n)
    if branch_cut != 2 or norm:
        raise NotImplementedError("scipy.special.assoc_legendre_p of Tensors: branch_cut must be 2 and norm False")
    return _at(_ASSOC_LEGENDRE, n, m, z)[None]


@differentiable("scipy.special")
def sph_legendre_p(n: ArrayLike, m: ArrayLike, theta: ArrayLike, *, diff_n: int = 0) -> Tensor:
    """Return the spherical Legendre function of the polar angle ``theta``, along a new first axis of length 1.

    >>> rg.scipy.special.sph_legendre_p(1, 0, rg.tensor([0.0]))
    tensor([[0.4886]])
    """
    _only_values("sph_legendre_p", diff_n)
    return _at(_SPH_LEGENDRE, n, m, theta)[None]


@differentiable("scipy.special", real=True)
def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0) -> Tensor:
    """Return the spherical harmonic of the polar angle ``theta`` and the azimuth ``phi``, a complex number.

    >>> rg.scipy.special.sph_harm_y(1, 1, rg.tensor([1.0]), rg.tensor([0.0])).abs()
    tensor([0.2907])
    """
    _only_values("sph_harm_y", diff_n)
    polar, azimuth = [floating(x) for x in tensors(theta, phi)]
    (order,) = _integers("scipy.special.sph_harm_y", azimuth, m)
    return _at(_SPH_LEGENDRE, n, m, polar) * ops.exp(azimuth * order * 1j)
