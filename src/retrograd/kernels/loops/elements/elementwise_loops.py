"""The compiled elementwise loops that replace several NumPy passes: dropout, selections, losses of differences."""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from ....elements.activations import activations
from ....elements.arithmetic import Functions, arithmetic
from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from .basic_loops import _ACTIVATIONS, _clip
from .elementwise import ABSOLUTE, BLOCK, LOGITS, SOFT_MARGIN, SQUARE, parameters
from .scalar_functions import exp, exp_down, expm1, log1p_down, sigmoid, softplus


@shared()
def kept(x, keep, scale, out, start, stop):
    """``x * scale`` where the mask is True, otherwise 0."""
    x, keep, out = x[start:stop], keep[start:stop], out[start:stop]
    zero = x.dtype.type(0) * scale
    for j in range(x.size):
        out[j] = x[j] * scale if keep[j] else zero


@shared()
def chosen(condition, x, y, out, start, stop):
    """``x`` where the condition is True, otherwise ``y``."""
    condition, x, y, out = condition[start:stop], x[start:stop], y[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] else y[j]


@shared()
def chosen_or_number(condition, wanted, x, number, out, start, stop):
    """``x`` where the condition equals ``wanted``, otherwise the number."""
    condition, x, out = condition[start:stop], x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] == wanted else number


@shared()
def filled(out, condition, number, start, stop):
    """Write the number to the elements where the condition is True."""
    out, condition = out[start:stop], condition[start:stop]
    for j in range(out.size):
        out[j] = number if condition[j] else out[j]


@njit(inline="always")
def _quadratic_then_linear(d, half, bound, divisor):
    a = abs(d)
    return half * d * (d / divisor) if a < bound else bound / divisor * (a - half * bound)


@njit(inline="always")
def _logits_loss(x, y):
    size = abs(x)
    return size * (1.0 - y if x > 0.0 else y) + log1p_down(exp_down(-size))


@njit(fastmath={"reassoc"}, error_model="numpy")
def _loss(x, y, kind, half, bound, divisor):
    total = 0.0
    if kind == SQUARE:
        for j in range(x.size):
            d = x[j] - y[j]
            total += d * d
    elif kind == ABSOLUTE:
        for j in range(x.size):
            total += abs(x[j] - y[j])
    elif kind == LOGITS:
        for j in range(x.size):
            total += _logits_loss(np.float64(x[j]), np.float64(y[j]))
    elif kind == SOFT_MARGIN:
        for j in range(x.size):
            total += softplus(-np.float64(x[j]) * np.float64(y[j]))
    else:
        for j in range(x.size):
            total += _quadratic_then_linear(x[j] - y[j], half, bound, divisor)
    return total


@shared()
def losses(x, y, kind, half, bound, divisor, out, start, stop):
    """Sum the losses of each block in double precision."""
    for block in range(start, stop):
        low, high = block * BLOCK, min(x.size, (block + 1) * BLOCK)
        out[block] = _loss(x[low:high], y[low:high], kind, half, bound, divisor)


@shared()
def slopes(x, y, kind, share, bound, divisor, out, start, stop):
    x, y, out = x[start:stop], y[start:stop], out[start:stop]
    one = x.dtype.type(1)
    if kind == SQUARE:
        for j in range(x.size):
            out[j] = (share + share) * (x[j] - y[j])
    elif kind == ABSOLUTE:
        for j in range(x.size):
            d = x[j] - y[j]
            out[j] = share * (one if d > 0 else -one if d < 0 else d)
    elif kind == LOGITS:
        for j in range(x.size):
            out[j] = share * (sigmoid(np.float64(x[j])) - y[j])
    elif kind == SOFT_MARGIN:
        for j in range(x.size):
            out[j] = -share * y[j] * sigmoid(-np.float64(x[j]) * np.float64(y[j]))
    else:
        for j in range(x.size):
            d = x[j] - y[j]
            d = -bound if d < -bound else d
            d = bound if d > bound else d
            out[j] = share * (d / divisor)


# The functions of ``elements/`` that run in one pass


def _in_precision(number):
    """Return the functions by name, with their constants in the given precision."""
    zero = number(0.0)
    f = Functions(
        exp=exp,
        expm1=expm1,
        sqrt=np.sqrt,
        absolute=np.abs,
        where=_inlined(lambda condition, x, y: x if condition else y),
        keep=_inlined(lambda x, mask: x if mask else zero),
        drop=_inlined(lambda x, mask: zero if mask else x),
        maximum=_inlined(lambda x, y: x if x >= y or x != x else y),
        minimum=_inlined(lambda x, y: x if x <= y or x != x else y),
        clip=_clip,
        neutral=_inlined(lambda number: False),
        number=number,
        compiled=_inlined,
    )
    return {**arithmetic(f), **activations(f)}


_inlined = njit(forceinline=True, error_model="numpy")
_SINGLE, _DOUBLE = _in_precision(np.float32), _in_precision(np.float64)


def _function(name):
    """``out[j] = function(x[j], *numbers)``, for one or several arrays x."""
    single, double = _SINGLE[name], _DOUBLE[name]

    def function(*args):
        """The function, with constants in the precision of its arguments."""

    @overload(function, jit_options={"forceinline": True, "error_model": "numpy"}, strict=False)
    def chosen(x, *others):
        return single.py_func if x == types.float32 else double.py_func

    def of_one(x, numbers, out, start, stop):
        x, out = x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j], *numbers)

    def of_two(x, y, numbers, out, start, stop):
        x, y, out = x[start:stop], y[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j], y[j], *numbers)

    def of_three(x, y, z, numbers, out, start, stop):
        x, y, z, out = x[start:stop], y[start:stop], z[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j], y[j], z[j], *numbers)

    count, _ = parameters(single.py_func)
    body = (of_one, of_two, of_three)[count - 1]
    body.__name__ = name
    return shared()(body)


bounded = _function("bounded")
clamp_backward = _function("clamp_backward")
hardtanh_backward = _function("hardtanh_backward")
hardsigmoid = _function("hardsigmoid")
hardsigmoid_backward = _function("hardsigmoid_backward")
hardswish = _function("hardswish")
hardswish_backward = _function("hardswish_backward")
shrinkage_backward = _function("shrinkage_backward")
hardshrink = _function("hardshrink")
softshrink = _function("softshrink")
threshold = _function("threshold")
threshold_backward = _function("threshold_backward")
leaky_relu = _function("leaky_relu")
leaky_relu_backward = _function("leaky_relu_backward")
elu = _function("elu")
elu_backward = _function("elu_backward")
logit_backward = _function("logit_backward")
lerp_number = _function("lerp_number")
lerp = _function("lerp")
square_backward = _function("square_backward")
sqrt_backward = _function("sqrt_backward")
rsqrt = _function("rsqrt")
rsqrt_backward = _function("rsqrt_backward")
reciprocal_backward = _function("reciprocal_backward")
sign = _function("sign")
abs_backward = _function("abs_backward")


def _with_value(name):
    """``y = f(x)`` and ``g *= slope(x)`` for an activation function f in single precision, which share operations."""
    value, slope = _ACTIVATIONS[name], _ACTIVATIONS[f"{name}_slope"]

    def body(g, x, y, start, stop):
        g, x, y = g[start:stop], x[start:stop], y[start:stop]
        for j in range(x.size):
            y[j] = value(x[j])
            g[j] *= slope(x[j])

    body.__name__ = f"{name}_with_value"
    return shared("contract", noalias=True)(body)


silu_with_value, gelu_with_value, gelu_tanh_with_value = map(_with_value, ("silu", "gelu", "gelu_tanh"))
