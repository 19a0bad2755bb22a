"""The error function and related functions, by rational approximations, and the normal distribution.

Double precision uses W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of Computation
23 (1969): erf(x) = x R(x^2) for |x| <= 0.46875, otherwise erfc(x) = e^(-x^2) times one of two rational functions.
For float32 and float16, erf is one rational function of x^2, fitted to a relative error of 2e-8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import backend_of
from ....core.graph.primitive import apply1
from ....core.tensor.tensor import Tensor
from ....kernels import SEVERAL, mapped
from ....kernels.loops.elements.coefficients import ERF_BOUND, ERF_P, ERF_Q
from ....kernels.loops.elements.elementwise import special
from ...table.blocks import in_blocks
from ...table.elementwise_primitives import WHERE, unary
from ...table.registry import operator
from ..exponential import EXP
from .libraries import from_library, library_for

_SMALL = 0.46875
_ERF_P = (
    1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_ERF_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE_P = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
    8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_MIDDLE_Q = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_LARGE_P = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_LARGE_Q = (
    1.0, 2.56852019228982242, 1.87295284992346047, 5.27905102951428412e-1, 6.05183413124413191e-2,
    2.33520497626869185e-3,
)  # fmt: skip

_INVERSE_SQRT_PI = 1 / math.sqrt(math.pi)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_HALF = math.sqrt(0.5)
_NORMAL_PEAK = 1 / math.sqrt(2 * math.pi)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


def _erf_small(x: Array) -> Array:
    square = x * x
    return x * _horner(_ERF_P, square) / _horner(_ERF_Q, square)


def _erfcx_middle(x: Array) -> Array:
    return _horner(_MIDDLE_P, x) / _horner(_MIDDLE_Q, x)


def _erfcx_large(x: Array) -> Array:
    square = 1 / (x * x)
    return (_INVERSE_SQRT_PI - square * _horner(_LARGE_P, square) / _horner(_LARGE_Q, square)) / x


def _erfcx_positive(x: Array) -> Array:
    """e^(x^2) erfc(x) for x > 0.46875."""
    large = x > 4
    value = _erfcx_middle(np.where(large, 1.0, x))
    value[large] = _erfcx_large(x[large])
    return value


def _exp_of_square(x: Array, sign: int) -> Array:
    """Return e^(sign x^2) to full accuracy: x is truncated to a multiple of 1/16, whose square is exact."""
    x = np.minimum(x, 30.0)
    cut = np.trunc(x * 16) * 0.0625
    return np.exp(cut * cut * sign) * np.exp((x - cut) * (x + cut) * sign)


def _by_regions(x: Array, small: Any, tail: Any) -> Any:
    """Return small(x) for |x| <= 0.46875, otherwise tail(|x|, negative), computed in double precision."""
    wide = x.astype("float64").reshape(-1)
    near = np.abs(wide) <= _SMALL
    value = np.empty_like(wide)
    value[near] = small(wide[near])
    far = wide[~near]
    value[~near] = tail(np.abs(far), far < 0)
    return value.reshape(x.shape).astype(x.dtype)


def _erf_single(x: Array) -> Array:
    x = np.clip(x, -ERF_BOUND, ERF_BOUND)  # beyond the bound, the result is exactly 1
    square = x * x
    return np.clip(x * _horner(ERF_P, square) / _horner(ERF_Q, square), -1, 1)


def _erf_tail(x: Array, negative: Array) -> Array:
    value = 1 - _exp_of_square(x, -1) * _erfcx_positive(x)
    return np.where(negative, -value, value)


def _erfc_tail(x: Array, negative: Array) -> Array:
    value = _exp_of_square(x, -1) * _erfcx_positive(x)
    return np.where(negative, 2 - value, value)


def _erfcx_tail(x: Array, negative: Array) -> Array:
    value = _erfcx_positive(x)
    return np.where(negative, 2 * _exp_of_square(np.where(negative, x, 0.0), 1) - value, value)


@mapped("erf", SEVERAL)
@in_blocks
def _erf(x: Array) -> Array:
    if backend_of(x).name == "cupy":
        return library_for(x).erf(x)
    if x.dtype == np.float64:
        return _by_regions(x, _erf_small, _erf_tail)
    return _erf_single(x.astype("float32")).astype(x.dtype)


@special("erfc")
@in_blocks
def _erfc(x: Array) -> Array:
    if backend_of(x).name == "cupy":
        return library_for(x).erfc(x)
    return _by_regions(x, lambda near: 1 - _erf_small(near), _erfc_tail)


@in_blocks
def _erfcx(x: Array) -> Array:
    if backend_of(x).name == "cupy":
        return library_for(x).erfcx(x)
    return _by_regions(x, lambda near: np.exp(near * near) * (1 - _erf_small(near)), _erfcx_tail)


ERF = unary("erf", _erf, lambda g, x: g * (_TWO_OVER_SQRT_PI * EXP(-(x * x))), signals=True)
ERFC = unary("erfc", _erfc, lambda g, x: g * (-_TWO_OVER_SQRT_PI * EXP(-(x * x))), signals=True)
ERFCX = unary("erfcx", _erfcx, lambda g, x, ans: g * (2 * x * ans - _TWO_OVER_SQRT_PI), signals=True)
_erfinv = special("erfinv")(from_library("erfinv"))
ERFINV = unary("erfinv", _erfinv, lambda g, ans: g * (0.5 * math.sqrt(math.pi) * EXP(ans * ans)), signals=True)


@operator(inplace=ERF, real=True, dtype="float")
def erf(input: Tensor) -> Tensor:
    """``2 / sqrt(pi) * integral_0^input e^(-t^2) dt``, elementwise: the error function.

    Derivative: ``g * 2 / sqrt(pi) * e^(-input^2)``.

    Source: Cody, Rational Chebyshev approximations for the error function, Mathematics of Computation 23 (1969).

    >>> rg.erf(rg.tensor([0.0, 0.5, -10.0]))
    tensor([ 0.    ,  0.5205, -1.    ])
    """
    return apply1(ERF, input)


@operator(inplace=ERFC, real=True, like=erf)
def erfc(input: Tensor) -> Tensor:
    """``1 - erf(input)``, elementwise, accurate also where it is tiny.

    Derivative: ``-g * 2 / sqrt(pi) * e^(-input^2)``.

    >>> rg.erfc(rg.tensor([0.0, 0.5]))
    tensor([1.    , 0.4795])
    """
    return apply1(ERFC, input)


@operator(direct=True, inplace=ERFINV, dtype="float", raises="scipy")
def erfinv(input: Tensor) -> Tensor:
    """``erf^-1(input)``, elementwise: infinite at -1 and 1, NaN beyond.

    Derivative: with y the result ``g * sqrt(pi) / 2 * e^(y^2)``; infinite at -1 and 1.

    >>> rg.erfinv(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.4769])
    """
    return apply1(ERFINV, input)


@operator(namespace="special", method=False, real=True, like=erf)
def erfcx(input: Tensor) -> Tensor:
    """``e^(input^2) * erfc(input)``, elementwise: the scaled complementary error function.

    Derivative: with y the result ``g * (2 * input * y - 2 / sqrt(pi))``.

    >>> rg.special.erfcx(rg.tensor([0.0, 10.0]))
    tensor([1.    , 0.0561])
    """
    return apply1(ERFCX, input)


# The normal distribution


def _normal_density(x: Array) -> Array:
    return _NORMAL_PEAK * EXP(-0.5 * (x * x))


def _log_ndtr(x: Array) -> Array:
    low = x < -1
    tail = np.where(low, x, 0)
    body = np.where(low, 0, x)
    return np.where(
        low, np.log(0.5 * ERFCX(-_SQRT_HALF * tail)) - 0.5 * tail * tail, np.log1p(-0.5 * ERFC(_SQRT_HALF * body))
    )


def _log_ndtr_rule(g: Array, x: Array) -> Any:
    # phi(x) / Phi(x); for x < 0 by erfcx, since numerator and denominator underflow.
    negative = x < 0
    below = math.sqrt(2 / math.pi) / ERFCX(-_SQRT_HALF * WHERE(negative, x, 0.0))
    body = WHERE(negative, 0.0, x)
    return g * WHERE(negative, below, _normal_density(body) / NDTR(body))


NDTR = unary("ndtr", lambda x: 0.5 * ERFC(-_SQRT_HALF * x), lambda g, x: g * _normal_density(x), signals=True)
LOG_NDTR = unary("log_ndtr", _log_ndtr, _log_ndtr_rule, signals=True)
NDTRI = unary(
    "ndtri", from_library("ndtri"), lambda g, ans: g * (EXP(0.5 * ans * ans) * (1 / _NORMAL_PEAK)), signals=True
)


@operator(namespace="special", method=False, real=True, dtype="float")
def ndtr(input: Tensor) -> Tensor:
    """``erfc(-input / sqrt(2)) / 2``, elementwise: the distribution function of the standard normal.

    Derivative: ``g * e^(-input^2 / 2) / sqrt(2 pi)``.

    >>> rg.special.ndtr(rg.tensor([0.0, 1.0]))
    tensor([0.5   , 0.8413])
    """
    return apply1(NDTR, input)


@operator(namespace="special", method=False, real=True, dtype="float")
def log_ndtr(input: Tensor) -> Tensor:
    """``log(ndtr(input))``, elementwise, accurate in both tails.

    Derivative: ``g * e^(-input^2 / 2) / (sqrt(2 pi) * ndtr(input))``.

    >>> rg.special.log_ndtr(rg.tensor([0.0, -10.0]))
    tensor([ -0.6931, -53.2313])
    """
    return apply1(LOG_NDTR, input)


@operator(direct=True, namespace="special", method=False, dtype="float", raises="scipy")
def ndtri(input: Tensor) -> Tensor:
    """``ndtr^-1(input)``, elementwise: the quantile of the standard normal; NaN outside ``[0, 1]``.

    Derivative: with y the result ``g * sqrt(2 pi) * e^(y^2 / 2)``; infinite at 0 and 1.

    >>> rg.special.ndtri(rg.tensor([0.5, 0.975]))
    tensor([0.  , 1.96])
    """
    return apply1(NDTRI, input)


for _function in (erf, erfc, erfinv):
    operator(namespace="special", method=False)(_function)
