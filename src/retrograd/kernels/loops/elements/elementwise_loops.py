"""The compiled elementwise loops that replace several NumPy passes: masks with a factor, losses of differences."""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from .elementwise import ABSOLUTE, BLOCK, LOGITS, SOFT_MARGIN, SQUARE
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


# Functions of x, and derivatives, functions of g and of x or the result. They have the parameters of their references,
# propagate NaN in the same way, and use constants in the dtype of the arrays.


def _function(function):
    """``out[j] = function(x[j], *numbers)``."""

    def body(x, numbers, out, start, stop):
        x, out = x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(x[j], *numbers)

    body.__name__, body.__module__ = function.__name__, function.__module__
    function = _inlined(function)
    return shared()(body)


def _derivative(function):
    """``out[j] = function(g[j], x[j], *numbers)``."""

    def body(g, x, numbers, out, start, stop):
        g, x, out = g[start:stop], x[start:stop], out[start:stop]
        for j in range(x.size):
            out[j] = function(g[j], x[j], *numbers)

    body.__name__, body.__module__ = function.__name__, function.__module__
    function = _inlined(function)
    return shared()(body)


_inlined = njit(forceinline=True, error_model="numpy")


@_function
def bounded(x, low, high):
    """Clip x to the bounds; a bound that is NaN gives NaN."""
    y = x if (x >= low) | (x != x) else low
    return y if (y <= high) | (y != y) else high


@_derivative
def clamp_backward(g, x, low, high, zero):
    return g if (x >= low) & (x <= high) else zero


@_derivative
def hardtanh_backward(g, x, low, high, zero):
    return zero if (x <= low) | (x >= high) else g


@_function
def hardsigmoid(x, three, six, zero, sixth):
    y = x + three
    y = zero if y < zero else y
    return (six if y > six else y) * sixth


@_derivative
def hardsigmoid_backward(g, x, three, zero, sixth):
    return g * sixth if (x > -three) & (x < three) else zero


@_function
def hardswish(x, three, six, zero, sixth):
    y = x + three
    y = zero if y < zero else y
    return x * (six if y > six else y) * sixth


@_derivative
def hardswish_backward(g, x, three, zero, third, half):
    inner = zero if x <= -three else g * (x * third + half)
    return g if x >= three else inner


@_derivative
def shrinkage_backward(g, x, bound, zero):
    return zero if (x >= -bound) & (x <= bound) else g


@_function
def hardshrink(x, bound, zero):
    return zero if (x >= -bound) & (x <= bound) else x


@_function
def softshrink(x, bound):
    inner = -bound if x < -bound else x
    return x - (bound if inner > bound else inner)


@_function
def threshold(x, bound, value):
    return value if x <= bound else x


@_derivative
def threshold_backward(g, x, bound, zero):
    return zero if x <= bound else g


@_function
def leaky_relu(x, slope, zero):
    return x if x > zero else slope * x


@_derivative
def leaky_relu_backward(g, x, slope, zero):
    return g if x > zero else slope * g


@_function
def elu(x, scale, alpha, width, zero):
    below = scale * alpha * expm1((x if x < 0 else zero) / width)
    return scale * x if (x > 0) | (x != x) else below


@_derivative
def elu_backward(g, x, scale, alpha, width, zero, one):
    slope = alpha / width * exp((x if x < 0 else zero) / width)
    return g * (scale * (slope if x <= 0 else one))


@_derivative
def logit_backward(g, x, eps, zero, one):
    """The gradient of logit; if eps is NaN there are no bounds."""
    low, high, outside = (eps, one - eps, zero) if eps == eps else (zero, one, eps)
    return g / (x * (one - x)) if (x >= low) & (x <= high) else outside


@_inlined
def _between(x, y, weight, one, half):
    return x + weight * (y - x) if abs(weight) < half else y - (y - x) * (one - weight)


@_derivative
def lerp_number(x, y, weight, one, half):
    """Interpolate with a number as weight, written as a function of two arrays like a derivative."""
    return _between(x, y, weight, one, half)


@shared()
def lerp(x, y, weight, numbers, out, start, stop):
    """Interpolate between ``x`` and ``y``, computed from the nearer end."""
    x, y, weight, out = x[start:stop], y[start:stop], weight[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = _between(x[j], y[j], weight[j], *numbers)


@_function
def sign(x, zero, one):
    return one if x > zero else -one if x < zero else zero if x == zero else x


@_derivative
def abs_backward(g, x, zero, one):
    return g * (one if x > zero else -one if x < zero else zero if x == zero else x)


@_derivative
def square_backward(g, x, two):
    return g * (two * x)


@_derivative
def sqrt_backward(g, y, two):
    return g / (two * y)


@_function
def rsqrt(x, one):
    return one / np.sqrt(x)


@_derivative
def rsqrt_backward(g, y, minus_half):
    return g * (minus_half * y * y * y)


@_derivative
def reciprocal_backward(g, y):
    return -g * y * y
