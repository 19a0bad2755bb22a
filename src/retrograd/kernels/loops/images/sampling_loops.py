"""The compiled loops of sampling at the points of a grid.

``x (N, C, L)`` has its two or three spatial axes flattened, ``grid (N, P, axes)`` contains the points and ``y (N, C,
P)`` the samples. ``size``, ``mode``, ``padding`` and ``align`` are the options. Points are processed in blocks: their
positions and weights are computed once for all channels. A position of -1 is outside of x and reads as 0.
"""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared

BLOCK = 256  # number of points in a block, whose positions and weights fit in a core's cache
NEAREST, BILINEAR, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)

_loop = shared("contract")
_part = njit(error_model="numpy", fastmath={"contract"})


@_part
def _brought_inside(x: float, length: int, axes: int, padding: int, align: bool) -> tuple[float, float]:
    """Apply the padding mode to a coordinate; return the result and its derivative: 1, -1 (reflected), 0 (clipped)."""
    one = type(x)(1)
    turned = one
    if padding == REFLECTION:
        low = type(x)(0 if align else -0.5)
        span = type(x)(max(length - 1, 1) if align else length)
        away = abs(x - low)
        turns = np.floor(away / span)
        odd = turns - 2 * np.floor(turns / 2) == 1
        turned = -one if odd != (x < low) else one
        away -= turns * span
        x = (span - away if odd else away) + low
    last = type(x)(length - 1)
    if not (x > 0 and x < last):
        turned = type(x)(0)
        x = last if x >= last or x != x and axes == 3 else type(x)(0)
    return x, turned


@_part
def _place(x: float, length: int) -> np.int32:
    inside = x >= 0 and x < length
    return np.int32(x if inside else -1)


@_part
def _along(
    where: np.ndarray,
    length: int,
    axes: int,
    mode: int,
    padding: int,
    align: bool,
    place: np.ndarray,
    weight: np.ndarray,
    slope: np.ndarray,
) -> None:
    """Compute for each term and point along one axis the position, its weight, and the weight's derivative."""
    kind = weight.dtype.type
    one, half, whole_scale = kind(1), kind(0.5), kind(length - 1 if align else length) * kind(0.5)
    for p in range(len(where)):
        x = (where[p] + one) * whole_scale
        scale = whole_scale
        if not align:
            x -= half
        if padding != ZEROS and mode != BICUBIC:
            x, turned = _brought_inside(x, length, axes, padding, align)
            scale *= turned
        if mode == NEAREST:
            place[0, p] = _place(np.rint(x), length)
            weight[0, p] = one
            continue
        low = np.floor(x)
        t = x - low
        if mode == BILINEAR:
            place[0, p], place[1, p] = _place(low, length), _place(low + one, length)
            weight[0, p], weight[1, p] = one - t, t
            slope[0, p], slope[1, p] = -scale, scale
            continue
        a, three = kind(-0.75), kind(3)
        for k in range(4):
            at = low + kind(k - 1)
            if padding != ZEROS:
                at = np.rint(_brought_inside(at, length, axes, padding, align)[0])
            place[k, p] = _place(at, length)
            d = abs(t - kind(k - 1))  # the cubic kernel at this distance, and its derivative with respect to t
            if k == 1 or k == 2:
                weight[k, p] = ((a + kind(2)) * d - (a + three)) * d * d + one
                rise = (three * (a + kind(2)) * d - kind(2) * (a + three)) * d
            else:
                weight[k, p] = (((d - kind(5)) * d + kind(8)) * d - kind(4)) * a
                rise = ((three * d - kind(10)) * d + kind(8)) * a
            slope[k, p] = rise * scale if k < 2 else -rise * scale


@_part
def _terms(
    points: np.ndarray,
    size: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    place: np.ndarray,
    weight: np.ndarray,
    slope: np.ndarray,
) -> None:
    """``_along`` for all axes; with three axes, positions outside have weight 0, even where the weight is NaN."""
    axes = len(size)
    for axis in range(axes):
        where = points[:, axes - 1 - axis]
        _along(where, size[axis], axes, mode, padding, align, place[axis], weight[axis], slope[axis])
        if axes == 3:
            for k in range(place.shape[1]):
                for p in range(len(where)):
                    if place[axis, k, p] < 0:
                        weight[axis, k, p] = 0


@_part
def _buffers(axes: int, each: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Allocate buffers for positions, weights and slopes of the terms along each axis, and for their products."""
    shape, every = (axes, each, BLOCK), (each**axes, BLOCK)
    along = np.empty(shape, np.int32), np.empty(shape, x.dtype), np.empty(shape, x.dtype)
    return *along, np.empty(every, np.int32), np.empty(every, x.dtype)


@_part
def _multiplied(
    count: int, size: tuple[int, ...], place: np.ndarray, weight: np.ndarray, index: np.ndarray, product: np.ndarray
) -> None:
    """Compute the products of the terms of all axes for ``count`` points."""
    axes, each, _ = place.shape
    for t in range(each**axes):
        rest, stride = t, 1
        for axis in range(axes - 1, -1, -1):
            k = rest % each
            rest //= each
            places, weights = place[axis, k], weight[axis, k]
            if axis == axes - 1:
                for p in range(count):
                    index[t, p] = places[p]
                    product[t, p] = weights[p]
            else:
                for p in range(count):
                    outside = index[t, p] < 0 or places[p] < 0
                    index[t, p] = -1 if outside else index[t, p] + places[p] * stride
                    product[t, p] *= weights[p]
            stride *= size[axis]


@_part
def _read(plane: np.ndarray, at: int) -> float:
    value = plane[max(at, 0)]
    return value if at >= 0 else type(value)(0)


@_loop
def sample(
    x: np.ndarray,
    grid: np.ndarray,
    size: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    y: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Fill the items ``start`` to ``stop`` of y, each a block of points of an image."""
    axes, each = len(size), 4 if mode == BICUBIC else mode + 1
    blocks = -(-grid.shape[1] // BLOCK)
    place, weight, slope, index, product = _buffers(axes, each, x)
    for item in range(start, stop):
        n, first = item // blocks, item % blocks * BLOCK
        points = grid[n, first : first + BLOCK]
        count = len(points)
        _terms(points, size, mode, padding, align, place, weight, slope)
        _multiplied(count, size, place, weight, index, product)
        for c in range(x.shape[1]):
            plane, line = x[n, c], y[n, c, first : first + count]
            if mode == NEAREST:
                for p in range(count):
                    line[p] = _read(plane, index[0, p])
                continue
            for t in range(0, len(index), 4):
                i, j, k, l = index[t], index[t + 1], index[t + 2], index[t + 3]
                a, b, c_, d = product[t], product[t + 1], product[t + 2], product[t + 3]
                if t == 0:
                    line[:] = 0
                for p in range(count):
                    line[p] += (
                        _read(plane, i[p]) * a[p]
                        + _read(plane, j[p]) * b[p]
                        + _read(plane, k[p]) * c_[p]
                        + _read(plane, l[p]) * d[p]
                    )


@_loop
def sample_transpose(
    y: np.ndarray,
    grid: np.ndarray,
    size: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    channels: int,
    x: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Fill the items ``start`` to ``stop`` of x, each some channels of an image, to which each point adds its terms."""
    axes, each = len(size), 4 if mode == BICUBIC else mode + 1
    blocks = -(-y.shape[1] // channels)
    place, weight, slope, index, product = _buffers(axes, each, y)
    for item in range(start, stop):
        n, begin = item // blocks, item % blocks * channels
        end = min(begin + channels, y.shape[1])
        x[n, begin:end] = 0
        for first in range(0, grid.shape[1], BLOCK):
            points = grid[n, first : first + BLOCK]
            count = len(points)
            _terms(points, size, mode, padding, align, place, weight, slope)
            _multiplied(count, size, place, weight, index, product)
            for c in range(begin, end):
                plane, line = x[n, c], y[n, c, first : first + count]
                for p in range(count):
                    for t in range(len(index)):
                        at = index[t, p]
                        if at >= 0:
                            plane[at] += product[t, p] * line[p]


@_loop
def sample_slope(
    y: np.ndarray,
    x: np.ndarray,
    grid: np.ndarray,
    size: tuple[int, ...],
    mode: int,
    padding: int,
    align: bool,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Fill the items ``start`` to ``stop`` of ``out (N, P, axes)``, the derivative of ``<y, sample(x, grid)>``."""
    axes, each = len(size), 4 if mode == BICUBIC else mode + 1
    blocks = -(-grid.shape[1] // BLOCK)
    place, weight, slope, index, product = _buffers(axes, each, x)
    worth, mixed = np.empty_like(product), np.empty_like(weight)
    for item in range(start, stop):
        n, first = item // blocks, item % blocks * BLOCK
        points = grid[n, first : first + BLOCK]
        count = len(points)
        _terms(points, size, mode, padding, align, place, weight, slope)
        _multiplied(count, size, place, weight, index, product)
        worth[:] = 0
        for c in range(x.shape[1]):
            plane, line = x[n, c], y[n, c, first : first + count]
            for t in range(len(index)):
                places, total = index[t], worth[t]
                for p in range(count):
                    total[p] += _read(plane, places[p]) * line[p]
        for axis in range(axes):
            for other in range(axes):
                for k in range(weight.shape[1]):
                    for p in range(weight.shape[2]):
                        mixed[other, k, p] = slope[other, k, p] if other == axis else weight[other, k, p]
            _multiplied(count, size, place, mixed, index, product)
            for p in range(count):
                total_slope = x.dtype.type(0)
                for t in range(len(index)):
                    total_slope += worth[t, p] * product[t, p]
                out[n, first + p, axes - 1 - axis] = total_slope
