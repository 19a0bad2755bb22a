"""The compiled loops of pooling on contiguous ``(planes, D, H, W)``, along rows of windows.

``window`` contains kernel, stride, padding, dilation and the number of windows, each for three axes. A window's winner
is the index of its maximum in the flattened kernel.
"""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import apart, shared
from ...tiles.tiles import BYTES
from ..elements.basic_loops import like, wide
from ..matrices.products import WIDE
from .lines import max_of_pairs, write_pairs

Spatial = tuple[int, int, int]
Window = tuple[Spatial, Spatial, Spatial, Spatial, Spatial]

_loop = shared("contract")
_part = njit(error_model="numpy")
_inlined = njit(inline="always", error_model="numpy")


@_inlined
def _inside(start: int, stride: int, count: int, size: int) -> tuple[int, int]:
    """Return the range of windows, among ``count``, for which ``start + number * stride`` is in ``range(size)``."""
    first = max(0, -(start // stride))
    return first, max(first, min(count, (size - 1 - start) // stride + 1))


@_loop
def max_at(x: np.ndarray, corner: np.ndarray, offsets: np.ndarray, index: np.ndarray, start: int, stop: int) -> None:
    """Find the position of the maximum, or of a NaN, among the elements at ``offsets`` from each corner in a plane."""
    for p in range(start, stop):
        for window in range(corner.shape[1]):
            at = corner[p, window]
            won = at + offsets[0]
            best = x[p, won]
            for k in range(1, len(offsets)):
                new = x[p, at + offsets[k]]
                if not new <= best and (new > best or new != new):  # usually only the first comparison is evaluated
                    best, won = new, at + offsets[k]
            index[p, window] = won


@_loop
def max_among(x: np.ndarray, places: np.ndarray, index: np.ndarray, start: int, stop: int) -> None:
    """Find the position of each window's maximum, or of a NaN, among its elements in a plane of ``x (planes, L)``."""
    for p in range(start, stop):
        plane = x[p]
        for window in range(len(places)):
            reads = places[window]
            best, won = plane[reads[0]], 0
            for k in range(1, len(reads)):
                new = plane[np.uint64(reads[k])]
                if not new <= best and (new > best or new != new):
                    best, won = new, k
            index[p, window] = reads[won]


@_inlined
def _larger(new: float, number: int, best: float, won: int) -> tuple[float, int]:
    """Return the larger of two numbers and its index: for equal numbers the lower index, for NaN the last index."""
    better = (new > best) | (new != new)
    return new if better else best, number if better else won


@_inlined
def _in_pairs(window: Window, shape: tuple[int, ...]) -> bool:
    """Return whether the windows are 2 x 2, adjacent, and all inside."""
    kernel, stride, padding, dilation, count = window
    side_by_side = kernel == (1, 2, 2) and stride == (1, 2, 2) and max(padding) == 0 and max(dilation) == 1
    return side_by_side and 2 * count[1] <= shape[2] and 2 * count[2] <= shape[3]


# Rows of images are short: they are computed by masked vectors if the processor has these, otherwise one by one.


@_part
def max_in_pairs(x: np.ndarray, out: np.ndarray, winners: np.ndarray) -> None:
    """Find the maxima of the windows ``_in_pairs`` of a plane."""
    for row in range(len(out)):
        top, bottom, best, won = x[2 * row], x[2 * row + 1], out[row], winners[row]
        if BYTES == WIDE and x.itemsize >= 4:
            max_of_pairs(top, bottom, best, won, len(best))
            continue
        for j in range(len(best)):
            one, first = _larger(wide(top[2 * j + 1]), np.int32(1), wide(top[2 * j]), np.int32(0))
            two, second = _larger(wide(bottom[2 * j + 1]), np.int32(3), wide(bottom[2 * j]), np.int32(2))
            most, won[j] = _larger(two, second, one, first)
            best[j] = like(most, best)


@_part
def place_in_pairs(g: np.ndarray, winners: np.ndarray, dx: np.ndarray) -> None:
    """Write the elements of g at the winners of the windows ``_in_pairs`` of a plane, and 0 elsewhere."""
    by_vectors = BYTES == WIDE and dx.itemsize >= 4
    if not by_vectors or dx.shape[0] > 2 * g.shape[0] or dx.shape[1] > 2 * g.shape[1]:
        dx[:] = 0
    for row in range(len(g)):
        new, chosen = g[row], winners[row]
        if by_vectors:
            write_pairs(dx[2 * row], dx[2 * row + 1], new, chosen, len(new))
            continue
        for j in range(len(new)):
            dx[2 * row + (chosen[j] >> 1), 2 * j + (chosen[j] & 1)] = new[j]


@apart
def _max_of_columns(
    x: np.ndarray, window: Window, plane: int, row: int, columns: np.ndarray, numbers: np.ndarray
) -> bool:
    """Find the maximum of each column of x in a window's rows, and its index; return False if no row is inside x."""
    kernel, stride, padding, dilation, _ = window
    found = False
    for u in range(kernel[0]):
        d = plane * stride[0] - padding[0] + u * dilation[0]
        for v in range(kernel[1]):
            h = row * stride[1] - padding[1] + v * dilation[1]
            if d < 0 or d >= x.shape[0] or h < 0 or h >= x.shape[1]:
                continue
            source, number = x[d, h], np.int32((u * kernel[1] + v) * kernel[2])
            if found:
                for i in range(len(columns)):
                    columns[i], numbers[i] = _larger(source[i], number, columns[i], numbers[i])
            else:
                for i in range(len(columns)):
                    columns[i], numbers[i] = source[i], number
                found = True
    return found


@_inlined
def _merge_apart(
    new: np.ndarray, numbers: np.ndarray, stride: int, number: int, best: np.ndarray, won: np.ndarray
) -> None:
    for j in range(len(best)):
        value, index, most, where = new[stride * j], numbers[stride * j] + number, best[j], won[j]
        lower = index < where
        better = (value > most) | ((value == most) & lower) | ((value != value) & ((most == most) | (not lower)))
        best[j], won[j] = value if better else most, index if better else where


@apart
def _merge(new: np.ndarray, numbers: np.ndarray, stride: int, number: int, best: np.ndarray, won: np.ndarray) -> None:
    """Replace maxima by larger elements of columns: for equal numbers the lower index, for NaN the higher index."""
    if stride == 1:  # LLVM vectorizes the loop only for constant strides
        _merge_apart(new, numbers, 1, number, best, won)
    elif stride == 2:
        _merge_apart(new, numbers, 2, number, best, won)
    else:
        _merge_apart(new, numbers, stride, number, best, won)


@_loop
def max_pool(x: np.ndarray, out: np.ndarray, winners: np.ndarray, window: Window, start: int, stop: int) -> None:
    kernel, stride, padding, dilation, count = window
    if _in_pairs(window, x.shape):
        for p in range(start, stop):
            for plane in range(count[0]):
                max_in_pairs(x[p, plane], out[p, plane], winners[p, plane])
        return
    size = kernel[0] * kernel[1] * kernel[2]
    columns, numbers = np.empty(x.shape[3], x.dtype), np.empty(x.shape[3], np.int32)
    won = np.empty(count[2], np.int32)
    for p in range(start, stop):
        for plane in range(count[0]):
            for row in range(count[1]):
                best, line = out[p, plane, row], winners[p, plane, row]
                for j in range(len(best)):
                    best[j], won[j] = -np.inf, size
                if _max_of_columns(x[p], window, plane, row, columns, numbers):
                    for w in range(kernel[2]):
                        at = w * dilation[2] - padding[2]
                        first, last = _inside(at, stride[2], count[2], x.shape[3])
                        some, their = columns[at + first * stride[2] :], numbers[at + first * stride[2] :]
                        _merge(some, their, stride[2], np.int32(w), best[first:last], won[first:last])
                for j in range(len(line)):
                    line[j] = won[j] if won[j] < size else 0


@_loop
def max_pool_backward(
    g: np.ndarray, winners: np.ndarray, dx: np.ndarray, window: Window, start: int, stop: int
) -> None:
    kernel, stride, padding, dilation, count = window
    if _in_pairs(window, dx.shape):
        for p in range(start, stop):
            for plane in range(count[0]):
                place_in_pairs(g[p, plane], winners[p, plane], dx[p, plane])
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
                    # A dilated window may contain no element.
                    if 0 <= d < dx.shape[1] and 0 <= h < dx.shape[2] and 0 <= w < dx.shape[3]:
                        dx[p, d, h, w] += g[p, plane, row, column]


@_loop
def average_pool(x: np.ndarray, out: np.ndarray, window: Window, divisor: np.ndarray, start: int, stop: int) -> None:
    """Compute means; ``divisor (D', H', W')`` contains the divisor of each window."""
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
def average_pool_backward(
    g: np.ndarray, dx: np.ndarray, window: Window, divisor: np.ndarray, start: int, stop: int
) -> None:
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
