"""The compiled loops over elements that take NumPy several passes: masks with a factor, losses of differences."""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

from math import factorial

import numpy as np

from .elementwise import ABSOLUTE, BLOCK, LOGITS, SOFT_MARGIN, SQUARE
from .machine.native import shared
from .machine.objects import njit


@shared()
def kept(x, keep, scale, out, start, stop):
    """``x * scale`` where the mask is true, else 0."""
    x, keep, out = x[start:stop], keep[start:stop], out[start:stop]
    zero = x.dtype.type(0) * scale
    for j in range(x.size):
        out[j] = x[j] * scale if keep[j] else zero


@shared()
def chosen(condition, x, y, out, start, stop):
    """``x`` where the condition is true, else ``y``."""
    condition, x, y, out = condition[start:stop], x[start:stop], y[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] else y[j]


@shared()
def chosen_or_number(condition, wanted, x, number, out, start, stop):
    """``x`` where the condition is as wanted, else the number."""
    condition, x, out = condition[start:stop], x[start:stop], out[start:stop]
    for j in range(x.size):
        out[j] = x[j] if condition[j] == wanted else number


@shared()
def filled(out, condition, number, start, stop):
    """The number written over the elements where the condition is true."""
    out, condition = out[start:stop], condition[start:stop]
    for j in range(out.size):
        out[j] = number if condition[j] else out[j]


@njit(inline="always")
def _quadratic_then_linear(d, half, bound):
    a = abs(d)
    return half * d * d if a < bound else bound * (a - half * bound)


# Losses of scores, in double precision for both dtypes

_E = tuple([1.0 / factorial(k) for k in range(14)])
_L = tuple([1.0 / (2 * k + 1) for k in range(11)])


@njit(inline="always")
def _exp_down(x):
    """e^x of x up to 0: 2^n e^r with x = n log 2 + r and Taylor's polynomial; 0 where it would be a denormal number."""
    y = -708.0 if x < -708.0 else x
    t = y * 1.4426950408889634 + 6755399441055744.0  # rounds to n, which stands in the lowest bits of t
    n = t - 6755399441055744.0
    r = y - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10
    p = ((_E[13] * r + _E[12]) * r + _E[11]) * r + _E[10]
    p = (((p * r + _E[9]) * r + _E[8]) * r + _E[7]) * r + _E[6]
    p = (((p * r + _E[5]) * r + _E[4]) * r + _E[3]) * r + _E[2]
    p = p * r * r + r + 1.0
    scale = np.int64((np.float64(t).view(np.int64) - 0x4338000000000000 + 1023) << 52).view(np.float64)
    return 0.0 if x < -708.0 else p * scale


@njit(inline="always")
def _log1p_down(t):
    """log(1 + t) for t in [0, 1]: 2 artanh of ``t / (2 + t)``; where that is large, of (1 + t) / 2 and log 2."""
    far = t > 0.41421356237309503
    s = (t - 1.0 if far else t) / (3.0 + t if far else 2.0 + t)
    z = s * s
    p = ((_L[10] * z + _L[9]) * z + _L[8]) * z + _L[7]
    p = (((p * z + _L[6]) * z + _L[5]) * z + _L[4]) * z + _L[3]
    p = ((p * z + _L[2]) * z + _L[1]) * z + 1.0
    return 2.0 * s * p + (0.6931471805599453 if far else 0.0)


@njit(inline="always")
def _softplus(x):
    """log(1 + e^x)."""
    return (x if x > 0.0 else 0.0) + _log1p_down(_exp_down(-abs(x)))


@njit(inline="always")
def _sigmoid(x):
    t = _exp_down(-abs(x))
    return (1.0 if x >= 0.0 else t) / (1.0 + t)


@njit(inline="always")
def _logits_loss(x, y):
    size = abs(x)
    return size * (1.0 - y if x > 0.0 else y) + _log1p_down(_exp_down(-size))


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
            total += _softplus(-np.float64(x[j]) * np.float64(y[j]))
    else:
        for j in range(x.size):
            total += _quadratic_then_linear(x[j] - y[j], half, bound) / divisor
    return total


@shared()
def losses(x, y, kind, half, bound, divisor, out, start, stop):
    """Of each block the sum, in double precision."""
    for block in range(start, stop):
        low, high = block * BLOCK, min(x.size, (block + 1) * BLOCK)
        out[block] = _loss(x[low:high], y[low:high], kind, half, bound, divisor)


@shared()
def slopes(x, y, kind, share, bound, divisor, out, start, stop):
    x, y, out = x[start:stop], y[start:stop], out[start:stop]
    one = x.dtype.type(1)
    if kind == SQUARE:
        for j in range(x.size):
            d = x[j] - y[j]
            out[j] = share * (d + d)
    elif kind == ABSOLUTE:
        for j in range(x.size):
            d = x[j] - y[j]
            out[j] = share * (one if d > 0 else -one if d < 0 else d)
    elif kind == LOGITS:
        for j in range(x.size):
            out[j] = share * (_sigmoid(np.float64(x[j])) - y[j])
    elif kind == SOFT_MARGIN:
        for j in range(x.size):
            out[j] = -share * y[j] * _sigmoid(-np.float64(x[j]) * np.float64(y[j]))
    else:
        for j in range(x.size):
            d = x[j] - y[j]
            d = -bound if d < -bound else d
            d = bound if d > bound else d
            out[j] = share * (d / divisor)
