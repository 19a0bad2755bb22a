"""The basic compiled loops: single precision, on contiguous memory, without the GIL.

Scalar functions have no branches and no library calls, so that the compiler can vectorize them, and propagate NaN. Sums
over a row use double precision.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, call-arg"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....elements.activations import activations
from ....elements.arithmetic import Functions
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from .coefficients import ERF_BOUND, ERF_P, ERF_Q

f = np.float32
i = np.int32
_P = tuple([f(c) for c in ERF_P])
_Q = tuple([f(c) for c in ERF_Q])
_BOUND = f(ERF_BOUND)
_ONE = f(1.0)
_BITS = ir.IntType(32)


def _compiled(*fastmath: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of functions that are inlined into loops."""
    found: Callable[[Callable[..., Any]], Callable[..., Any]] = njit(fastmath=set(fastmath), error_model="numpy")
    return found


_loop = _compiled("contract")
# Inlined by LLVM: Numba's own inlining would copy and type the function for each call, a third of compilation time.
_inlined = njit(fastmath={"contract"}, error_model="numpy", forceinline=True)


# Conversions of bfloat16 numbers, which are stored in arrays of uint16


@intrinsic
def _widened(typing_context, number):

    def generate(context, builder, signature, arguments):
        if number != types.uint16:
            return arguments[0]
        bits = builder.shl(builder.zext(arguments[0], _BITS), _BITS(16))
        return builder.bitcast(bits, ir.FloatType())

    return (types.float32 if number == types.uint16 else number)(number), generate


@intrinsic
def _rounded(typing_context, number, target):

    def generate(context, builder, signature, arguments):
        number = arguments[0]
        if target.dtype != types.uint16:
            return number
        bits = builder.bitcast(number, _BITS)
        upper = builder.lshr(bits, _BITS(16))
        even = builder.add(builder.add(bits, _BITS(0x7FFF)), builder.and_(upper, _BITS(1)))
        nan = builder.or_(builder.and_(upper, _BITS(0x8000)), _BITS(0x7FC0))
        is_nan = builder.fcmp_unordered("uno", number, number)
        return builder.trunc(builder.select(is_nan, nan, builder.lshr(even, _BITS(16))), ir.IntType(16))

    return (types.uint16 if target.dtype == types.uint16 else number)(number, target), generate


@_inlined
def wide(number):
    """Convert a bfloat16, given as uint16, to float32; return any other number unchanged."""
    return _widened(number)


@_inlined
def like(number, target):
    """Round a float32 by ``copy_loops.to_bfloat16`` if the target is an array of uint16, else return it unchanged."""
    return _rounded(number, target)


# Scalar functions


@_inlined
def _clip(x, low, high):
    y = low if x < low else x
    return high if y > high else y


@_inlined
def _exp(x):
    """e^x = 2^n e^r for x = n log 2 + r, with the polynomial of Cephes' expf; results may be subnormal."""
    x = _clip(x, f(-105.0), f(89.0))
    t = x * f(1.44269504088896341) + f(12582912.0)  # rounded: the lowest bits of t are n
    n = t - f(12582912.0)
    r = x - n * f(0.693359375) + n * f(2.12194440e-4)
    p = f(1.9875691500e-4)
    p = p * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    p = p * r * r + r + _ONE
    k = i(np.float32(t).view(np.int32) - 0x4B400000)
    half = i(k >> 1)  # 2^n in two factors, since 2^n itself may be out of range
    low = np.int32(i(half + 127) << 23).view(np.float32)
    high = np.int32(i(i(k - half) + 127) << 23).view(np.float32)
    return p * low * high


@_inlined
def _exp_down(x):
    """e^x for x <= 0; exactly 0 instead of subnormal numbers, which would slow down later operations."""
    y = _clip(x, f(-87.3), f(0.0))
    t = y * f(1.44269504088896341) + f(12582912.0)
    n = t - f(12582912.0)
    r = y - n * f(0.693359375) + n * f(2.12194440e-4)
    p = f(1.9875691500e-4)
    p = p * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    p = p * r * r + r + _ONE
    scale = np.int32(i(np.float32(t).view(np.int32) - 0x4B400000 + 127) << 23).view(np.float32)
    return f(0.0) if x < f(-87.3) else p * scale


@_inlined
def _one_plus_exp(x):
    """1 + e^x for x >= -30 with the bits of ``_exp``, whose subnormal results need more operations."""
    y = f(89.0) if x > f(89.0) else x
    t = y * f(1.44269504088896341) + f(12582912.0)
    n = t - f(12582912.0)
    r = y - n * f(0.693359375) + n * f(2.12194440e-4)
    p = f(1.9875691500e-4)
    p = p * r + f(1.3981999507e-3)
    p = p * r + f(8.3334519073e-3)
    p = p * r + f(4.1665795894e-2)
    p = p * r + f(1.6666665459e-1)
    p = p * r + f(5.0000001201e-1)
    p = p * r * r + r + _ONE
    half = np.int32(i(np.float32(t).view(np.int32) - 0x4B400000 + 126) << 23).view(np.float32)  # 2^n / 2: n may be 128
    return _ONE + (p + p) * half


@_inlined
def _tanh(x):
    """tanh(x): near 0 by the polynomial of Cephes' tanhf, otherwise by 1 - 2 / (e^2x + 1)."""
    z = x * x
    p = f(-5.70498872745e-3)
    p = p * z + f(2.06390887954e-2)
    p = p * z + f(-5.37397155531e-2)
    p = p * z + f(1.33314422036e-1)
    p = p * z + f(-3.33332819422e-1)
    near = x * (p * z + _ONE)
    far = _ONE - f(2.0) / _one_plus_exp(f(2.0) * abs(x))
    far = far if x > f(0.0) else -far
    return near if abs(x) < f(0.625) else far


@_inlined
def _log1p_exp(x):
    """max(x, 0) + log(1 + t) with t = e^-|x|: 2 artanh(t / (2 + t)), or for large t log 2 + log((1 + t) / 2)."""
    t = _exp(-abs(x))
    far = t > f(0.41421356237309503)
    s = (t - _ONE if far else t) / (f(3.0) + t if far else f(2.0) + t)
    z = s * s
    p = (((f(1 / 9) * z + f(1 / 7)) * z + f(1 / 5)) * z + f(1 / 3)) * z + _ONE
    return (x if x > f(0.0) else f(0.0)) + (f(2.0) * s * p + (f(0.6931471805599453) if far else f(0.0)))


@njit(inline="always")  # inlined by Numba: the loop is slower with LLVM's inlining
def _erf(x):
    x = _clip(x, -_BOUND, _BOUND)
    z = x * x
    p = ((((_P[0] * z + _P[1]) * z + _P[2]) * z + _P[3]) * z + _P[4]) * z + _P[5]
    q = ((((_Q[0] * z + _Q[1]) * z + _Q[2]) * z + _Q[3]) * z + _Q[4]) * z + _Q[5]
    return _clip(x * p / q, -_ONE, _ONE)


@_inlined
def _one_plus_exp_from_below(x):
    return _one_plus_exp(f(-30.0) if x < f(-30.0) else x)  # 1 + e^-30 rounds to 1


_ACTIVATIONS = activations(
    Functions(
        exp=_exp_down,
        one_plus_exp=_one_plus_exp_from_below,
        tanh=_tanh,
        erf=_erf,
        clip=_clip,
        number=f,
        compiled=_inlined,
    )
)
_sigmoid = _ACTIVATIONS["sigmoid"]


@shared("contract")
def outer(x, y, out, start, stop):
    for b in range(start, stop):
        for row in range(x.shape[1]):
            for column in range(y.shape[1]):
                out[b, row, column] = x[b, row] * y[b, column]


# Elementwise loops

BY_ELEMENT: dict[str, Callable[..., Any]] = {}  # scalar functions by the names of their loops


def _map(function):
    """``out[j] = function(x[j])``; arrays of uint16 are bfloat16."""

    def body(x, out, start, stop):
        x, out = x[start:stop], out[start:stop]  # slices, so that the compiler knows that no index is negative
        for j in range(x.size):
            out[j] = like(function(wide(x[j])), out)

    body.__name__ = function.py_func.__name__.strip("_")
    BY_ELEMENT[body.__name__] = njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function.py_func)
    return shared("contract")(body)


def _map_pairs(function):
    """``out[j] = function(x[j], y[j])``; a shorter y is repeated. Arrays of uint16 are bfloat16."""

    def body(x, y, out, start, stop):
        while start < stop:
            at = start % y.size
            end = min(stop, start + y.size - at)
            xs, ys, results = x[start:end], y[at : at + end - start], out[start:end]
            for j in range(xs.size):
                results[j] = like(function(wide(xs[j]), wide(ys[j])), results)
            start = end

    body.__name__ = function.py_func.__name__.strip("_")
    BY_ELEMENT[body.__name__] = njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function.py_func)
    return shared("contract")(body)


exp = _map(_exp)
tanh = _map(_tanh)
sigmoid = _map(_sigmoid)
log1p_exp = _map(_log1p_exp)


@_map
@_inlined
def relu(x):
    return f(0.0) if x <= f(0.0) else x


@_map
@_inlined
def erf(x):
    return _erf(x)


silu, gelu, gelu_tanh = (_map(_ACTIVATIONS[name]) for name in ("silu", "gelu", "gelu_tanh"))


# Derivatives: functions of the cotangent and of the input or the result


tanh_backward, sigmoid_backward = (_map_pairs(_ACTIVATIONS[f"{name}_backward"]) for name in ("tanh", "sigmoid"))


def _times_slope(name):
    """``g * slope(x)`` for an activation function."""
    slope = _ACTIVATIONS[f"{name}_slope"]

    def backward(g, x):
        return g * slope(x)

    backward.__name__ = f"{name}_backward"
    return _map_pairs(_inlined(backward))


silu_backward, gelu_backward, gelu_tanh_backward = map(_times_slope, ("silu", "gelu", "gelu_tanh"))


@_map_pairs
@_inlined
def keep_where_not_zero(x, y):
    return f(0.0) if y == f(0.0) else x


# Loops along rows, in which sums are vectorized where their order does not matter.


@intrinsic
def _larger(typing_context, x, y):
    """Return the larger number, ignoring NaN and the sign of 0, so that the comparison can be vectorized."""

    def generate(context, builder, signature, arguments):
        above = builder.fcmp_ordered(">", *arguments, flags=("nnan", "nsz"))
        return builder.select(above, *arguments, flags=("nnan", "nsz"))

    return x(x, y), generate


@_compiled()
def _largest(row):
    """Return the maximum; unspecified if there is a NaN."""
    top = row[0]
    for j in range(row.size):
        top = _larger(row[j], top)
    return top


@_compiled("reassoc", "contract")
def _sum(row):
    total = 0.0
    for j in range(row.size):
        total += wide(row[j])
    return total


@_compiled("reassoc", "contract")
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * y[j]
    return total


@_compiled("reassoc", "contract")
def _dot_centred(x, x_mean, y, y_mean):
    total = 0.0
    for j in range(x.size):
        total += (wide(x[j]) - x_mean) * (wide(y[j]) - y_mean)
    return total


@_compiled("reassoc", "contract")
def _sum_of_squares(row, mean):
    total = 0.0
    for j in range(row.size):
        away = wide(row[j]) - mean
        total += away * away
    return total


@shared("contract")
def softmax(x, out, start, stop):
    x, out = x[start:stop], out[start:stop]
    for row in range(len(x)):
        top = _largest(x[row])
        for j in range(x.shape[1]):
            out[row, j] = _exp_down(x[row, j] - top)
        total = f(_sum(out[row]))
        for j in range(x.shape[1]):
            out[row, j] /= total


@shared("contract")
def softmax_backward(g, y, out, start, stop):
    g, y, out = g[start:stop], y[start:stop], out[start:stop]
    for row in range(len(y)):
        total = f(_dot(g[row], y[row]))
        for j in range(y.shape[1]):
            out[row, j] = y[row, j] * (g[row, j] - total)


@shared("contract")
def log_softmax(x, out, start, stop):
    x, out = x[start:stop], out[start:stop]
    for row in range(len(x)):
        top = _largest(x[row])
        for j in range(x.shape[1]):
            out[row, j] = _exp_down(x[row, j] - top)
        log_total = f(np.log(_sum(out[row])))
        for j in range(x.shape[1]):
            out[row, j] = x[row, j] - top - log_total


@shared("contract")
def log_softmax_backward(g, y, out, start, stop):
    g, y, out = g[start:stop], y[start:stop], out[start:stop]
    for row in range(len(y)):
        total = f(_sum(g[row]))
        for j in range(y.shape[1]):
            out[row, j] = g[row, j] - _exp(y[row, j]) * total
