"""Scalar functions for use in loops, without branches and calls so that the compiler can vectorize the loops."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from ....elements.activations import activations
from ....elements.arithmetic import Functions
from ...runtime.numba_functions import njit
from .basic_loops import _clip, _exp, _exp_down, _inlined, _sigmoid, _tanh


@njit(inline="always")
def horner(coefficients, x):
    """Evaluate a polynomial, highest power first, inside a loop."""
    p = coefficients[0]
    for k in range(1, len(coefficients)):
        p = p * x + coefficients[k]
    return p


# Functions in the precision of their argument

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUNDS = 1.5 * 2.0**52  # adding this to a number below 2^51 leaves the rounded number in the lowest bits
_BITS_OF_ROUNDS = int(np.float64(_ROUNDS).view(np.int64))
# Coefficients of e^r; the error is below 2^-57 for r <= log(2) / 2.
_TAYLOR = tuple([1 / factorial(n) for n in range(13, -1, -1)])


@_inlined
def _exp_in_double(x):
    """e^x = 2^n e^r for x = n log 2 + r; results may be subnormal."""
    x = _clip(x, -746.0, 710.0)
    t = x * _LOG2_E + _ROUNDS
    n = t - _ROUNDS
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = _TAYLOR[0] * r + _TAYLOR[1]
    p = p * r + _TAYLOR[2]
    p = p * r + _TAYLOR[3]
    p = p * r + _TAYLOR[4]
    p = p * r + _TAYLOR[5]
    p = p * r + _TAYLOR[6]
    p = p * r + _TAYLOR[7]
    p = p * r + _TAYLOR[8]
    p = p * r + _TAYLOR[9]
    p = p * r + _TAYLOR[10]
    p = p * r + _TAYLOR[11]
    p = p * r * r + r + 1.0
    k = np.float64(t).view(np.int64) - _BITS_OF_ROUNDS
    half = k >> 1  # 2^n in two factors, since 2^n itself may be out of range
    low = np.int64((half + 1023) << 52).view(np.float64)
    high = np.int64((k - half + 1023) << 52).view(np.float64)
    return p * low * high


@_inlined
def _tanh_in_double(x):
    """tanh(x): near 0 by the rational function of Cephes' tanh, otherwise by 1 - 2 / (e^2x + 1)."""
    z = x * x
    p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
    q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3
    near = x + x * z * (p / q)
    far = 1.0 - 2.0 / (_exp_in_double(2.0 * abs(x)) + 1.0)
    far = far if x > 0.0 else -far
    return near if abs(x) < 0.625 else far


_SERIES = tuple([1.0 / factorial(k) for k in range(13, 0, -1)])
_SERIES_OF_SINGLES = tuple([np.float32(number) for number in _SERIES[5:]])


@_inlined
def _expm1(x):
    """e^x - 1: near 0 by its series."""
    return horner(_SERIES_OF_SINGLES, x) * x if abs(x) < np.float32(0.35) else _exp(x) - np.float32(1)


@_inlined
def _expm1_in_double(x):
    return horner(_SERIES, x) * x if abs(x) < 0.35 else _exp_in_double(x) - 1.0


_sigmoid_in_double = activations(
    Functions(one_plus_exp=_inlined(lambda x: 1.0 + _exp_in_double(x)), compiled=_inlined)
)["sigmoid"]


_OPTIONS: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}


def exp(x):
    """``e^x`` in the precision of x, for compiled loops."""


def exp_negative(x):
    """``e^x`` for x <= 0 in the precision of x, 0 instead of subnormal results, for compiled loops."""


def expm1(x):
    """``e^x - 1`` in the precision of x, for compiled loops."""


def tanh(x):
    """``tanh(x)`` in the precision of x, for compiled loops."""


def sigmoid(x):
    """``1 / (1 + e^-x)`` in the precision of x, for compiled loops."""


@overload(exp, jit_options=_OPTIONS)
def _exp_of(x):
    return _exp.py_func if x == types.float32 else _exp_in_double.py_func


@overload(exp_negative, jit_options=_OPTIONS)
def _exp_negative_of(x):
    return _exp_down.py_func if x == types.float32 else exp_down.py_func


@overload(expm1, jit_options=_OPTIONS)
def _expm1_of(x):
    return _expm1.py_func if x == types.float32 else _expm1_in_double.py_func


@overload(tanh, jit_options=_OPTIONS)
def _tanh_of(x):
    return _tanh.py_func if x == types.float32 else _tanh_in_double.py_func


@overload(sigmoid, jit_options=_OPTIONS, strict=False)  # not strict: the returned function has annotations
def _sigmoid_of(x):
    return _sigmoid.py_func if x == types.float32 else _sigmoid_in_double.py_func


# Functions in double precision

_E = tuple([1.0 / factorial(k) for k in range(14)])
_L = tuple([1.0 / (2 * k + 1) for k in range(11)])


@njit(inline="always")
def exp_down(x):
    """e^x = 2^n e^r for x = n log 2 + r <= 0, with Taylor's polynomial; 0 instead of subnormal results."""
    y = -708.0 if x < -708.0 else x
    t = y * 1.4426950408889634 + 6755399441055744.0  # rounded: the lowest bits of t are n
    n = t - 6755399441055744.0
    r = y - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10
    p = ((_E[13] * r + _E[12]) * r + _E[11]) * r + _E[10]
    p = (((p * r + _E[9]) * r + _E[8]) * r + _E[7]) * r + _E[6]
    p = (((p * r + _E[5]) * r + _E[4]) * r + _E[3]) * r + _E[2]
    p = p * r * r + r + 1.0
    scale = np.int64((np.float64(t).view(np.int64) - 0x4338000000000000 + 1023) << 52).view(np.float64)
    return 0.0 if x < -708.0 else p * scale


@njit(inline="always")
def log1p_down(t):
    """log(1 + t) for t in [0, 1]: 2 artanh(t / (2 + t)), or for large t log 2 plus the logarithm of (1 + t) / 2."""
    far = t > 0.41421356237309503
    s = (t - 1.0 if far else t) / (3.0 + t if far else 2.0 + t)
    z = s * s
    p = ((_L[10] * z + _L[9]) * z + _L[8]) * z + _L[7]
    p = (((p * z + _L[6]) * z + _L[5]) * z + _L[4]) * z + _L[3]
    p = ((p * z + _L[2]) * z + _L[1]) * z + 1.0
    return 2.0 * s * p + (0.6931471805599453 if far else 0.0)


@njit(inline="always")
def softplus(x):
    """log(1 + e^x)."""
    return (x if x > 0.0 else 0.0) + log1p_down(exp_down(-abs(x)))


@njit(inline="always")
def log(x):
    """The logarithm of positive normal numbers x = 2^n m: n log 2 + 2 artanh((m - 1) / (m + 1))."""
    bits = np.float64(x).view(np.int64)
    n = (bits - 0x3FE6A09E667F3BCD) >> 52  # so that sqrt(1/2) <= m <= sqrt(2)
    m = np.int64(bits - (n << 52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = (((_L[8] * z + _L[7]) * z + _L[6]) * z + _L[5]) * z + _L[4]
    p = (((p * z + _L[3]) * z + _L[2]) * z + _L[1]) * z + 1.0
    return 0.6931471805599453 * np.float64(np.int32(n)) + 2.0 * s * p
