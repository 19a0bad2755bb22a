"""The compiled loops: single precision, over contiguous memory, without Python's lock.

The functions of one number are written so that the compiler makes vector instructions of them: no branch, no call into
a library; NaN passes through them. Sums over a row run in double precision.
"""
# mypy: disable-error-code="no-untyped-def, type-arg"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .cache import keep_on_disk
from .coefficients import ERF_BOUND, ERF_P, ERF_Q

f = np.float32
i = np.int32
_P = tuple([f(c) for c in ERF_P])
_Q = tuple([f(c) for c in ERF_Q])
_BOUND = f(ERF_BOUND)
_SQRT_HALF = f(np.sqrt(0.5))
_NORMAL_PEAK = f(1 / np.sqrt(2 * np.pi))
_TANH_SCALE = f(np.sqrt(2 / np.pi))
_TANH_CUBIC = f(np.sqrt(2 / np.pi) * 0.044715)
_ONE, _HALF = f(1.0), f(0.5)
_SMALL = 1e-30  # 1 / a standard deviation, below which differences may overflow single precision


def _compiled(*fastmath: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiled at the first call, and kept on disk where a folder can be written."""

    def compile(loop: Callable[..., Any]) -> Callable[..., Any]:
        dispatcher = njit(nogil=True, fastmath=set(fastmath), error_model="numpy")(loop)
        keep_on_disk(dispatcher)
        return dispatcher

    return compile


_loop = _compiled("contract")
_inlined = njit(inline="always")


# Functions of one number


@_inlined
def _clip(x, low, high):
    y = low if x < low else x
    return high if y > high else y


@_inlined
def _exp(x):
    """2^n e^r with x = n log 2 + r and the polynomial of Cephes' expf, down to the last denormal."""
    x = _clip(x, f(-105.0), f(89.0))
    t = x * f(1.44269504088896341) + f(12582912.0)  # rounds to n, which stands in the lowest bits of t
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
    half = i(k >> 1)  # 2^n in two factors, since it may lie outside the normal numbers
    low = np.int32(i(half + 127) << 23).view(np.float32)
    high = np.int32(i(i(k - half) + 127) << 23).view(np.float32)
    return p * low * high


@_inlined
def _tanh(x):
    """Near 0 by the polynomial of Cephes' tanhf, beyond by 1 - 2 / (e^2x + 1)."""
    z = x * x
    p = f(-5.70498872745e-3)
    p = p * z + f(2.06390887954e-2)
    p = p * z + f(-5.37397155531e-2)
    p = p * z + f(1.33314422036e-1)
    p = p * z + f(-3.33332819422e-1)
    near = x * (p * z + _ONE)
    far = _ONE - f(2.0) / (_exp(f(2.0) * abs(x)) + _ONE)
    far = far if x > f(0.0) else -far
    return near if abs(x) < f(0.625) else far


@_inlined
def _erf(x):
    x = _clip(x, -_BOUND, _BOUND)
    z = x * x
    p = ((((_P[0] * z + _P[1]) * z + _P[2]) * z + _P[3]) * z + _P[4]) * z + _P[5]
    q = ((((_Q[0] * z + _Q[1]) * z + _Q[2]) * z + _Q[3]) * z + _Q[4]) * z + _Q[5]
    return _clip(x * p / q, -_ONE, _ONE)


@_inlined
def _sigmoid(x):
    return _ONE / (_ONE + _exp(-x))


@_loop
def outer(x, y, out):
    for b in range(x.shape[0]):
        for row in range(x.shape[1]):
            for column in range(y.shape[1]):
                out[b, row, column] = x[b, row] * y[b, column]


# Maps of vectors


@_loop
def exp(x, out):
    for j in range(x.size):
        out[j] = _exp(x[j])


@_loop
def tanh(x, out):
    for j in range(x.size):
        out[j] = _tanh(x[j])


@_loop
def sigmoid(x, out):
    for j in range(x.size):
        out[j] = _sigmoid(x[j])


@_loop
def relu(x, out):
    for j in range(x.size):
        out[j] = f(0.0) if x[j] <= f(0.0) else x[j]


@_loop
def silu(x, out):
    for j in range(x.size):
        out[j] = x[j] / (_ONE + _exp(-x[j]))


@_loop
def silu_slope(x, out):
    for j in range(x.size):
        s = _sigmoid(x[j])
        out[j] = s * (_ONE + x[j] * (_ONE - s))


@_loop
def gelu(x, out):
    for j in range(x.size):
        out[j] = x[j] * (_HALF + _HALF * _erf(x[j] * _SQRT_HALF))


@_loop
def gelu_slope(x, out):
    for j in range(x.size):
        v = x[j]
        out[j] = _HALF + _HALF * _erf(v * _SQRT_HALF) + v * (_NORMAL_PEAK * _exp(-_HALF * (v * v)))


@_loop
def gelu_tanh(x, out):
    for j in range(x.size):
        v = x[j]
        out[j] = v * (_HALF + _HALF * _tanh(v * (_TANH_SCALE + _TANH_CUBIC * (v * v))))


@_loop
def gelu_tanh_slope(x, out):
    for j in range(x.size):
        v = _clip(x[j], f(-12.0), f(12.0))  # beyond, the slope is 0 or 1, and squares would overflow
        t = _tanh(v * (_TANH_SCALE + _TANH_CUBIC * (v * v)))
        out[j] = _HALF + _HALF * t + _HALF * v * (_ONE - t * t) * (_TANH_SCALE + f(3.0) * _TANH_CUBIC * (v * v))


# Along rows. Where the order of a sum is free, it too becomes vector instructions.


@_compiled("reassoc", "nnan", "nsz")
def _largest(row):
    """The maximum; any number where there is a NaN."""
    top = row[0]
    for j in range(row.size):
        top = row[j] if row[j] > top else top
    return top


@_compiled("reassoc", "contract")
def _sum(row):
    total = 0.0
    for j in range(row.size):
        total += row[j]
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
        total += (x[j] - x_mean) * (y[j] - y_mean)
    return total


@_compiled("reassoc", "contract")
def _sum_of_squares(row, mean):
    total = 0.0
    for j in range(row.size):
        away = row[j] - mean
        total += away * away
    return total


@_loop
def softmax(x, out):
    for row in range(len(x)):
        top = _largest(x[row])
        for j in range(x.shape[1]):
            out[row, j] = _exp(x[row, j] - top)
        total = f(_sum(out[row]))
        for j in range(x.shape[1]):
            out[row, j] /= total


@_loop
def softmax_backward(g, y, out):
    for row in range(len(y)):
        total = f(_dot(g[row], y[row]))
        for j in range(y.shape[1]):
            out[row, j] = y[row, j] * (g[row, j] - total)


@_loop
def log_softmax(x, out):
    for row in range(len(x)):
        top = _largest(x[row])
        for j in range(x.shape[1]):
            out[row, j] = _exp(x[row, j] - top)
        log_total = f(np.log(_sum(out[row])))
        for j in range(x.shape[1]):
            out[row, j] = x[row, j] - top - log_total


@_loop
def log_softmax_backward(g, y, out):
    for row in range(len(y)):
        total = f(_sum(g[row]))
        for j in range(y.shape[1]):
            out[row, j] = g[row, j] - _exp(y[row, j]) * total


@_loop
def cumsum(x, out):
    for row in range(len(x)):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[row, j]
            out[row, j] = total


@_loop
def cumsum_from_behind(x, out):
    for row in range(len(x)):
        total = 0.0
        for j in range(x.shape[1] - 1, -1, -1):
            total += x[row, j]
            out[row, j] = total


@_loop
def layer_norm(x, w, b, eps, out, mean, rstd):
    for row in range(len(x)):
        m = _sum(x[row]) / x.shape[1]
        r = 1.0 / np.sqrt(_sum_of_squares(x[row], m) / x.shape[1] + eps)
        mean[row, 0] = m
        rstd[row, 0] = r
        m32, r32 = f(m), f(r)
        if r > _SMALL:
            for j in range(x.shape[1]):
                out[row, j] = (x[row, j] - m32) * r32 * w[j] + b[j]
        else:
            for j in range(x.shape[1]):
                out[row, j] = f((x[row, j] - m) * r) * w[j] + b[j]


@_loop
def layer_norm_backward(dy, x, w, mean, rstd, dx, dw, db):
    """Adds to dw and db, in double precision."""
    width = x.shape[1]
    xhat = np.empty(width, np.float32)
    u = np.empty(width, np.float32)
    for row in range(len(x)):
        m, r = mean[row, 0], rstd[row, 0]
        if r > _SMALL:
            for j in range(width):
                xhat[j] = (x[row, j] - m) * r
        else:
            for j in range(width):
                xhat[j] = (np.float64(x[row, j]) - m) * r
        for j in range(width):
            u[j] = dy[row, j] * w[j]
            dw[j] += dy[row, j] * xhat[j]
            db[j] += dy[row, j]
        along = f(_dot(u, xhat) / width)
        level = f(_sum(u) / width)
        for j in range(width):
            dx[row, j] = r * (u[j] - level - xhat[j] * along)


@_inlined
def _allowed(row, period, first, width):
    return width if first < 0 else min(width, first + row % period + 1)


@_loop
def exponentials(s, start, stop, period, first, top, total):
    for row in range(start, stop):
        allowed = _allowed(row, period, first, s.shape[1])
        largest = _largest(s[row, :allowed])
        largest = f(0.0) if largest == f(-np.inf) else largest
        for j in range(allowed):
            s[row, j] = _exp(s[row, j] - largest)
        s[row, allowed:] = f(0.0)
        whole = f(_sum(s[row, :allowed]))
        top[row, 0] = largest
        total[row, 0] = _ONE if whole == f(0.0) else whole


@_loop
def exponentials_again(s, start, stop, period, first, top):
    for row in range(start, stop):
        allowed = _allowed(row, period, first, s.shape[1])
        for j in range(allowed):
            s[row, j] = _exp(s[row, j] - top[row, 0])
        s[row, allowed:] = f(0.0)


# Channels of (N, C, M)


@_loop
def channel_moments(x, first, last, mean, squares):
    for c in range(first, last):
        total = 0.0
        for n in range(len(x)):
            total += _sum(x[n, c])
        m = total / (x.shape[0] * x.shape[2])
        total = 0.0
        for n in range(len(x)):
            total += _sum_of_squares(x[n, c], m)
        mean[c] = m
        squares[c] = total


@_loop
def channel_norm(x, first, last, mean, scale, b, out):
    for n in range(len(x)):
        for c in range(first, last):
            m, s, shift = f(mean[c]), f(scale[c]), f(b[c])
            if abs(scale[c]) > _SMALL:
                for j in range(x.shape[2]):
                    out[n, c, j] = (x[n, c, j] - m) * s + shift
            else:
                for j in range(x.shape[2]):
                    out[n, c, j] = (x[n, c, j] - mean[c]) * scale[c] + shift


@_loop
def channel_norm_backward(first, last, dy, x, mean, rstd, w, dx, dw, db):
    for c in range(first, last):
        m, r = mean[c], rstd[c]
        count = x.shape[0] * x.shape[2]
        of_dy = 0.0
        for n in range(len(x)):
            of_dy += _sum(dy[n, c])
        of_products = 0.0
        for n in range(len(x)):  # of deviations, so that the rounding of m does not count
            of_products += _dot_centred(dy[n, c], of_dy / count, x[n, c], np.float64(m))
        dw[c] = of_products * r
        db[c] = of_dy
        factor, level, along = f(w[c] * r), f(of_dy / count), f(dw[c] / count * r)
        if r > _SMALL:
            for n in range(len(x)):
                for j in range(x.shape[2]):
                    dx[n, c, j] = factor * (dy[n, c, j] - level - (x[n, c, j] - m) * along)
        else:
            slope = dw[c] / count * r
            for n in range(len(x)):
                for j in range(x.shape[2]):
                    dx[n, c, j] = factor * (dy[n, c, j] - level - (np.float64(x[n, c, j]) - m) * slope)


# Windows over planes (P, H, W). ``places`` has the rows kernel, stride, padding and dilation, each for H and W.


@_loop
def max_pool(x, places, out, winners):
    kernel_h, kernel_w = places[0]
    stride_h, stride_w = places[1]
    padding_h, padding_w = places[2]
    dilation_h, dilation_w = places[3]
    for p in range(len(x)):
        for row in range(out.shape[1]):
            top = row * stride_h - padding_h
            for column in range(out.shape[2]):
                left = column * stride_w - padding_w
                best = f(-np.inf)
                winner = -1
                for i in range(kernel_h):
                    h = top + i * dilation_h
                    if 0 <= h < x.shape[1]:
                        for j in range(kernel_w):
                            v = left + j * dilation_w
                            if 0 <= v < x.shape[2]:
                                new = x[p, h, v]
                                if new > best or new != new or winner < 0:
                                    best = new
                                    winner = i * kernel_w + j
                out[p, row, column] = best
                winners[p, row, column] = max(winner, 0)


@_loop
def max_pool_by_two(x, places, out, winners):
    """For the commonest windows, 2 by 2, side by side: without a branch, so of vector instructions."""
    for p in range(len(x)):
        for row in range(out.shape[1]):
            upper, lower = x[p, 2 * row], x[p, 2 * row + 1]
            for column in range(out.shape[2]):
                best, winner = upper[2 * column], np.uint8(0)
                new = upper[2 * column + 1]
                better = (new > best) | (new != new)
                best, winner = new if better else best, np.uint8(1) if better else winner
                new = lower[2 * column]
                better = (new > best) | (new != new)
                best, winner = new if better else best, np.uint8(2) if better else winner
                new = lower[2 * column + 1]
                better = (new > best) | (new != new)
                out[p, row, column] = new if better else best
                winners[p, row, column] = np.uint8(3) if better else winner


@_loop
def max_pool_backward(g, winners, places, dx):
    kernel_w = places[0, 1]
    stride_h, stride_w = places[1]
    padding_h, padding_w = places[2]
    dilation_h, dilation_w = places[3]
    for p in range(len(g)):
        for row in range(g.shape[1]):
            for column in range(g.shape[2]):
                number = np.int64(winners[p, row, column])
                h = row * stride_h - padding_h + number // kernel_w * dilation_h
                v = column * stride_w - padding_w + number % kernel_w * dilation_w
                if 0 <= h < dx.shape[1] and 0 <= v < dx.shape[2]:  # a window may lie between all elements
                    dx[p, h, v] += g[p, row, column]
