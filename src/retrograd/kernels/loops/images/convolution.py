"""Convolution, its transpose and its weight's gradient by compiled loops.

The references are in ops/nn/spatial/convolution_primitives.py. The work is divided into tiles, whose columns fit in a
core's cache, and, if there are few tiles, into blocks of channels. The division depends only on the shapes, not on the
number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.dtypes import float32
from ....core.arrays.layout import cast
from ... import loop, multiplies
from ...runtime.levels import multiplies_bfloat16
from ...runtime.result_arrays import empty
from ...runtime.threads import launch_products
from ..matrices.pairs import paired
from .three_axes import Window3, in_three_axes

WORTHWHILE = 1 << 18  # minimum number of multiplications for which the loops save more time than their call costs
CACHED = 1 << 19  # bytes of columns that fit in a core's cache
NARROW, PIECES, BLOCK = 128, 8, 64  # minimum columns of a product; desired work items; minimum channels per work item
FEW = 16  # minimum rows of a product
DEEP = 32  # minimum number of rows of the unrolled columns for which a product reaches full speed
# The number of interleaved images, if a tile has more images and a line has at most 4 columns.
LANES = 8
_NO_SUMS = np.empty((0, 0, 0, 0), np.float32)
PARTIAL = 1 << 21  # maximum total number of elements in the partial sums of a weight's gradient


def takes(x: Array, other: Array, multiplications: int) -> bool:
    """Return whether to use the loops on these arrays, for this number of multiplications."""
    return (
        multiplications >= WORTHWHILE
        and type(x) is np.ndarray
        and type(other) is np.ndarray
        and x.dtype == other.dtype
        and x.dtype in (np.float32, np.float64)
        and multiplies()
    )


def takes_pairs(x: Array, other: Array, inner: int, multiplications: int) -> bool:
    """Return whether to use the loops on these arrays of bfloat16, whose ``inner`` channels per group are paired."""
    return (
        multiplications >= WORTHWHILE
        and type(x) is type(other) is np.ndarray
        and inner > 1
        and multiplies_bfloat16()
        and multiplies()
    )


def _paired(array: Array, groups: int) -> Array:
    """Return the pairs of adjacent channels of each group, in the shape ``(N, groups * C / 2, *size)``."""
    array = np.ascontiguousarray(array)
    count, channels, *size = array.shape
    pairs = paired(array.reshape(count * groups, channels // groups, prod(size)))
    return pairs.reshape(count, groups * pairs.shape[1], *size)


def _grouped(array: Array, groups: int, window: Any) -> Any:
    """Return the array in the shape ``(N, groups, C, D, H, W)``."""
    array = np.ascontiguousarray(array)
    size = (1,) * (3 - len(window.size)) + array.shape[2:]
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, *size)


def _flat(array: object, groups: int) -> Any:
    """Return the array in the shape ``(N, groups, C, columns)``."""
    array = np.ascontiguousarray(array)
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, prod(array.shape[2:]))


@lru_cache(maxsize=1024)
def _tile(n: int, window: Window3, channels: int, itemsize: int, in_steps: bool = True) -> tuple[int, int, int, int]:
    """Return the images and lines of a tile, the number of tiles, and the number of kernel steps along H."""
    kernel, stride, _, _, (planes, height, width) = window
    lines, count = planes * height, planes * height * width
    rows = channels * prod(kernel)
    if count >= NARROW:
        in_steps = in_steps and stride[1] == planes == 1 and rows // kernel[1] >= DEEP
        steps = kernel[1] if in_steps else 1
        wanted = max(NARROW, CACHED // (rows // steps * itemsize))
        most = -(-lines // -(-count // wanted))
        return 1, most, n * -(-lines // most), steps
    wanted = max(NARROW, CACHED // (rows * itemsize))
    images = max(1, min(wanted // count, max(-(-NARROW // count), n // PIECES)))
    if images > LANES >= 2 * width:
        images -= images % LANES
    return images, lines, -(-n // images), 1


def _block(channels: int, pieces: int, least: int = BLOCK) -> int:
    """Return the number of channels of a work item, if there would be ``pieces`` items with all channels."""
    return min(channels, max(least, -(-channels // -(-PIECES // max(pieces, 1)))))


def _launch(name: str, items: int, multiplications: int, *args: object) -> None:
    launch_products(
        loop("loops.images.convolution_loops", name), items, max(1, WORTHWHILE * items // multiplications), *args
    )


def _matrices(w: Any, groups: int, steps: int) -> Any:
    """Return the weight as matrices ``(groups, steps, O, K)``, one per step of the kernel along H."""
    shape = groups, len(w) // groups, -1, steps, w.shape[-1] if steps > 1 else 1
    return np.ascontiguousarray(np.moveaxis(w.reshape(shape), 3, 1)).reshape(groups, steps, shape[1], -1)


def _by_planes(window: Window3, channels: int, outs: int, groups: int) -> bool:
    """Return whether the convolution is depthwise, with strides small enough to compute with stride 1."""
    return channels == 1 and groups > 1 and outs <= 2 * groups and max(window[1]) <= 2


def forward(x: Any, w: Any, b: Any, window: Any, groups: int) -> Any:
    """Return the convolution."""
    axes, multiplications = in_three_axes(window), len(x) * prod(window.out) * w.size
    out = empty((len(x), len(w), *window.out), x.dtype)
    result = sums = _flat(out, groups)
    b = np.zeros(len(w), x.dtype) if b is None else np.ascontiguousarray(b)
    if x.itemsize == 2:
        x, w, b, result = _paired(x, groups), _paired(w, 1), cast(b, float32), result.view(np.uint16)
        sums = _NO_SUMS
    b = b.reshape(groups, -1)
    if _by_planes(axes, w.shape[1], len(w), groups):
        kernels = np.ascontiguousarray(w).reshape(groups, -1, *axes[0])
        planes = len(x) * groups * axes[4][0]
        args = _grouped(x, groups, window), kernels, b, axes, result
        _launch("forward_by_planes", planes, multiplications, *args)
        return out
    images, lines, tiles, steps = _tile(len(x), axes, w.shape[1], x.itemsize)
    all_outs = len(w) // groups
    outs = _block(all_outs, tiles * groups)
    arrays = _grouped(x, groups, window), _matrices(w, groups, steps), b
    items = tiles * groups * -(-all_outs // outs)
    _launch("forward", items, multiplications, *arrays, axes, (images, lines, outs), result, sums)
    return out


def transposed(y: Any, w: Any, b: Any, window: Any, groups: int) -> Any:
    """Return the transpose of the convolution as a linear map of its input."""
    axes = in_three_axes(window)
    shape = (len(y), groups * w.shape[1], *window.size)
    kind = y.dtype
    out = empty(shape, float32 if y.itemsize == 2 else kind)
    out[:] = 0 if b is None else b.reshape((-1,) + (1,) * len(window.size))
    if _by_planes(axes, w.shape[1], len(w), groups):
        kernels = np.ascontiguousarray(w).reshape(groups, -1, *axes[0])
        args = _flat(y, groups), kernels, axes, _grouped(out, groups, window)
        _launch("transposed_by_planes", len(y) * groups, y.size * w[0].size, *args)
        return out
    multiplications = y.size * w[0].size
    if y.itemsize == 2:
        y = _paired(y, groups)
        w = _paired(w.reshape(groups, len(w) // groups, -1), 1).reshape(-1, *w.shape[1:])
    images, lines, _, _ = _tile(len(y), axes, w.shape[1], y.itemsize, in_steps=False)
    pieces = -(-len(y) // images) * groups
    channels = _block(w.shape[1], pieces, max(1, FEW // prod(window.kernel)))  # at least ``FEW`` rows
    arrays = _flat(y, groups), _matrices(w, groups, 1)
    items = pieces * -(-w.shape[1] // channels)
    _launch(
        "transposed", items, multiplications, *arrays, axes, (images, lines, channels), _grouped(out, groups, window)
    )
    return cast(out, kind) if out.dtype != kind else out


def weight(x: Any, y: Any, window: Any, groups: int) -> Any:
    """Return the correlation of x and y, summed over the batch."""
    axes = in_three_axes(window)
    channels, outs = x.shape[1] // groups, y.shape[1] // groups
    if _by_planes(axes, channels, y.shape[1], groups):
        out = empty((y.shape[1], 1, *window.kernel), x.dtype)
        args = _grouped(x, groups, window), _flat(y, groups), axes, out.reshape(groups, outs, *axes[0])
        _launch("weight_by_planes", groups, y.size * out[0].size, *args)
        return out
    images, lines, tiles, _ = _tile(len(x), axes, channels, x.itemsize, in_steps=False)
    rows = channels * prod(window.kernel)
    parts = max(1, min(tiles, 2 * PIECES, PARTIAL // (groups * outs * rows)))
    some = _block(channels, parts * groups)
    room = (-(-outs // 16) | 1) * 16 if outs >= BLOCK else outs  # other strides may conflict in the cache
    kind, arrays = x.dtype, (_grouped(x, groups, window), _flat(y, groups))
    if x.itemsize == 2:
        kind, arrays = float32, tuple([array.view(np.uint16) for array in arrays])
    totals = empty((parts, groups, rows, room), kind)[..., :outs]
    items = parts * groups * -(-channels // some)
    _launch("weight", items, y.size * rows, *arrays, axes, (images, lines, some), totals)
    total = totals[0] if parts == 1 else totals.sum(axis=0)
    out = np.ascontiguousarray(total.swapaxes(1, 2)).reshape(y.shape[1], channels, *window.kernel)
    return cast(out, x.dtype) if kind != x.dtype else out
