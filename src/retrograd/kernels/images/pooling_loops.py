"""The compiled loops of pooling, over contiguous ``(planes, D, H, W)``, row by row of the windows.

``window`` holds kernel, stride, padding, dilation and the number of windows, each for three axes. A window's winner is
the number of its element in the kernel.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ..machine.native import shared
from ..machine.objects import njit

_loop = shared("contract")
_part = njit(error_model="numpy")
_inlined = njit(inline="always", error_model="numpy")


@_inlined
def _inside(start, stride, count, size):
    """For which of ``count`` windows ``start + number * stride`` lies in ``range(size)``, as a range of numbers."""
    first = max(0, -(start // stride))
    return first, max(first, min(count, (size - 1 - start) // stride + 1))


@_inlined
def _better(new, number, best, won):
    """The larger of two, and its number: the old one of equals; the last NaN."""
    better = (new > best) | (new != new) | (won < 0)
    return new if better else best, number if better else won


@_loop
def max_at(x, corner, offsets, index, start, stop):
    """Of ``x (planes, L)``: the place of the maximum at ``offsets`` from each corner, the first one or the last NaN."""
    for p in range(start, stop):
        for window in range(corner.shape[1]):
            at = corner[p, window]
            won = at + offsets[0]
            best = x[p, won]
            for k in range(1, len(offsets)):
                new = x[p, at + offsets[k]]
                if new > best or new != new:
                    best, won = new, at + offsets[k]
            index[p, window] = won


@_loop
def max_pool(x, out, winners, window, start, stop):
    kernel, stride, padding, dilation, count = window
    won = np.empty(count[2], np.int32)
    in_pairs = (kernel[2], stride[2], padding[2], dilation[2]) == (2, 2, 0, 1) and 2 * count[2] <= x.shape[3]
    for p in range(start, stop):
        for plane in range(count[0]):
            for row in range(count[1]):
                best = out[p, plane, row]
                best[:] = -np.inf
                won[:] = -1
                for u in range(kernel[0]):
                    d = plane * stride[0] - padding[0] + u * dilation[0]
                    for v in range(kernel[1]):
                        h = row * stride[1] - padding[1] + v * dilation[1]
                        if d < 0 or d >= x.shape[1] or h < 0 or h >= x.shape[2]:
                            continue
                        number = np.int32((u * kernel[1] + v) * kernel[2])
                        if in_pairs:
                            source = x[p, d, h, : 2 * len(best)]
                            for j in range(len(best)):
                                one, which = _better(source[2 * j], number, best[j], won[j])
                                best[j], won[j] = _better(source[2 * j + 1], np.int32(number + 1), one, which)
                            continue
                        for w in range(kernel[2]):
                            at = w * dilation[2] - padding[2]
                            first, last = _inside(at, stride[2], count[2], x.shape[3])
                            source = x[p, d, h, at + first * stride[2] :]
                            some, numbers = best[first:last], won[first:last]
                            for j in range(len(some)):
                                new = source[stride[2] * j]
                                some[j], numbers[j] = _better(new, np.int32(number + w), some[j], numbers[j])
                line = winners[p, plane, row]
                for j in range(len(line)):
                    line[j] = max(won[j], 0)


@_part
def _max_pool_backward_in_pairs(g, winners, dx):
    """That of windows of 2 x 2 side by side: every element is written once, whether a window chose it or not."""
    zero, width = g.dtype.type(0), 2 * g.shape[1]
    for row in range(len(g)):
        new, chosen = g[row], winners[row]
        for v in range(2):
            line = dx[2 * row + v]
            for j in range(len(new)):
                line[2 * j] = new[j] if chosen[j] == 2 * v else zero
                line[2 * j + 1] = new[j] if chosen[j] == 2 * v + 1 else zero
            line[width:] = zero
    dx[2 * len(g) :] = zero


@_loop
def max_pool_backward(g, winners, dx, window, start, stop):
    kernel, stride, padding, dilation, count = window
    in_pairs = kernel == (1, 2, 2) and stride == (1, 2, 2) and max(padding) == 0 and max(dilation) == 1
    if in_pairs and 2 * count[1] <= dx.shape[2] and 2 * count[2] <= dx.shape[3]:
        for p in range(start, stop):
            for plane in range(count[0]):
                _max_pool_backward_in_pairs(g[p, plane], winners[p, plane], dx[p, plane])
        return
    size = kernel[0] * kernel[1] * kernel[2]
    offsets = np.empty((3, size), np.int64)
    for number in range(size):
        offsets[0, number] = number // (kernel[1] * kernel[2]) * dilation[0] - padding[0]
        offsets[1, number] = number // kernel[2] % kernel[1] * dilation[1] - padding[1]
        offsets[2, number] = number % kernel[2] * dilation[2] - padding[2]
    for p in range(start, stop):
        dx[p] = 0
        for plane in range(count[0]):
            for row in range(count[1]):
                for column in range(count[2]):
                    number = winners[p, plane, row, column]
                    d = plane * stride[0] + offsets[0, number]
                    h = row * stride[1] + offsets[1, number]
                    w = column * stride[2] + offsets[2, number]
                    # A window may lie between all elements.
                    if 0 <= d < dx.shape[1] and 0 <= h < dx.shape[2] and 0 <= w < dx.shape[3]:
                        dx[p, d, h, w] += g[p, plane, row, column]


@_loop
def average_pool(x, out, window, divisor, start, stop):
    """``divisor`` holds that of each window, ``(D', H', W')``."""
    kernel, stride, padding, dilation, count = window
    for p in range(start, stop):
        for plane in range(count[0]):
            for row in range(count[1]):
                total = out[p, plane, row]
                total[:] = 0
                for u in range(kernel[0]):
                    d = plane * stride[0] - padding[0] + u * dilation[0]
                    for v in range(kernel[1]):
                        h = row * stride[1] - padding[1] + v * dilation[1]
                        if d < 0 or d >= x.shape[1] or h < 0 or h >= x.shape[2]:
                            continue
                        for w in range(kernel[2]):
                            at = w * dilation[2] - padding[2]
                            first, last = _inside(at, stride[2], count[2], x.shape[3])
                            source, some = x[p, d, h, at + first * stride[2] :], total[first:last]
                            for j in range(len(some)):
                                some[j] += source[stride[2] * j]
                line = divisor[plane, row]
                for j in range(len(total)):
                    total[j] /= line[j]


@_loop
def average_pool_backward(g, dx, window, divisor, start, stop):
    kernel, stride, padding, dilation, count = window
    part = np.empty(count[2], g.dtype)
    for p in range(start, stop):
        dx[p] = 0
        for plane in range(count[0]):
            for row in range(count[1]):
                for j in range(len(part)):
                    part[j] = g[p, plane, row, j] / divisor[plane, row, j]
                for u in range(kernel[0]):
                    d = plane * stride[0] - padding[0] + u * dilation[0]
                    for v in range(kernel[1]):
                        h = row * stride[1] - padding[1] + v * dilation[1]
                        if d < 0 or d >= dx.shape[1] or h < 0 or h >= dx.shape[2]:
                            continue
                        for w in range(kernel[2]):
                            at = w * dilation[2] - padding[2]
                            first, last = _inside(at, stride[2], count[2], dx.shape[3])
                            target, some = dx[p, d, h, at + first * stride[2] :], part[first:last]
                            for j in range(len(some)):
                                target[stride[2] * j] += some[j]
