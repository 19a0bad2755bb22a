"""What the loops over sequences have in common: functions of one number in both precisions, arrays at an address."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic, overload

from ..loops import _clip, _exp, _inlined, _loop, _tanh
from ..machine.objects import njit

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUNDS = 1.5 * 2.0**52  # added to a number below 2^51, it leaves that rounded in the lowest bits
_BITS_OF_ROUNDS = int(np.float64(_ROUNDS).view(np.int64))
_TAYLOR = tuple([1 / math.factorial(n) for n in range(13, -1, -1)])  # its rest is below 2^-57 up to log(2) / 2


@_inlined
def _exp_in_double(x):
    """2^n e^r with x = n log 2 + r, down to the last denormal."""
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
    half = k >> 1  # 2^n in two factors, since it may lie outside the normal numbers
    low = np.int64((half + 1023) << 52).view(np.float64)
    high = np.int64((k - half + 1023) << 52).view(np.float64)
    return p * low * high


@_inlined
def _tanh_in_double(x):
    """Near 0 by the quotient of Cephes' tanh, beyond by 1 - 2 / (e^2x + 1)."""
    z = x * x
    p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
    q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3
    near = x + x * z * (p / q)
    far = 1.0 - 2.0 / (_exp_in_double(2.0 * abs(x)) + 1.0)
    far = far if x > 0.0 else -far
    return near if abs(x) < 0.625 else far


_OPTIONS: dict[str, Any] = {"forceinline": True, "fastmath": {"contract"}, "error_model": "numpy"}


def exp(x):
    """``e^x`` in the precision of x, for compiled loops."""


def tanh(x):
    """``tanh(x)`` in the precision of x, for compiled loops."""


@overload(exp, jit_options=_OPTIONS)
def _exp_of(x):
    return _exp.py_func if x == types.float32 else _exp_in_double.py_func


@overload(tanh, jit_options=_OPTIONS)
def _tanh_of(x):
    return _tanh.py_func if x == types.float32 else _tanh_in_double.py_func


@njit(**_OPTIONS)
def sigmoid(x):
    """``1 / (1 + e^-x)`` in the precision of x, for compiled loops."""
    one = type(x)(1)
    return one / (one + exp(-x))


@intrinsic
def _pointer(typing_context, address, number):
    """The address as that of numbers like ``number``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(number)(types.int64, number), generate


@njit
def matrix_at(address, rows, columns, number):
    """The row-major matrix of numbers like ``number`` at an address, for compiled loops."""
    return carray(_pointer(address, number), (rows, columns))


@_loop
def copy(row, out):
    """Fill a vector from one that may be longer."""
    for j in range(out.size):
        out[j] = row[j]
