"""Convolution, its transpose and its weight's gradient by compiled loops.

The references stand in ops/nn/spatial/convolution_primitives.py. The work is cut into tiles, whose columns stay in a
core's cache, and where these are few into blocks of channels; by the shapes alone, whatever the number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from . import multiplies
from .threads import launch
from .windows import in_three_axes

WORTHWHILE = 1 << 18  # multiplications from which the loops gain more than their call costs
CACHED = 1 << 19  # bytes of columns that stay in a core's cache
NARROW, PIECES, BLOCK = 128, 8, 64  # columns of a product at least; wished pieces of work; channels in one at least
PARTIAL = 1 << 21  # numbers in all partial sums of a weight's gradient


def takes(x: Any, other: Any, multiplications: int) -> bool:
    """Whether the loops are to be used on these arrays, for so many multiplications."""
    return (
        multiplications >= WORTHWHILE
        and type(x) is np.ndarray
        and type(other) is np.ndarray
        and x.dtype == other.dtype
        and x.dtype in (np.float32, np.float64)
        and multiplies()
    )


def _grouped(array: Any, groups: int, window: Any) -> Any:
    """``(N, groups, C, D, H, W)``."""
    array = np.ascontiguousarray(array)
    size = (1,) * (3 - len(window.size)) + array.shape[2:]
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, *size)


def _flat(array: Any, groups: int) -> Any:
    """``(N, groups, C, columns)``."""
    array = np.ascontiguousarray(array)
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, prod(array.shape[2:]))


@lru_cache(maxsize=1024)
def _tile(n: int, lines: int, width: int, row_bytes: int) -> tuple[int, int, int]:
    """Images and lines of a tile, and how many tiles there are."""
    count, wanted = lines * width, max(NARROW, CACHED // row_bytes)
    if count >= NARROW:
        most = -(-lines // -(-count // wanted))
        return 1, most, n * -(-lines // most)
    images = max(1, min(wanted // count, max(-(-NARROW // count), n // PIECES)))
    return images, lines, -(-n // images)


def _block(channels: int, pieces: int) -> int:
    """How many channels a piece of work has, where there are so many pieces with all of them."""
    return min(channels, max(BLOCK, -(-channels // -(-PIECES // max(pieces, 1)))))


def _launch(name: str, items: int, multiplications: int, *args: Any) -> None:
    from . import convolution_loops

    least = max(1, WORTHWHILE * items // multiplications)
    launch(getattr(convolution_loops, name), items, least, *args)


def forward(x: Any, w: Any, b: Any, window: Any, groups: int) -> Any:
    """The convolution."""
    axes = in_three_axes(window)
    out = np.empty((len(x), len(w), *window.out), x.dtype)
    x6, y = _grouped(x, groups, window), _flat(out, groups)
    matrices = np.ascontiguousarray(w).reshape(groups, len(w) // groups, -1)
    b = np.zeros(len(w), x.dtype) if b is None else np.ascontiguousarray(b)
    b = b.reshape(groups, -1)
    _, outs, rows = matrices.shape
    images, lines, tiles = _tile(len(x), axes[4][0] * axes[4][1], axes[4][2], rows * x.itemsize)
    outs = _block(outs, tiles * groups)
    items = tiles * groups * -(-matrices.shape[1] // outs)
    _launch("forward", items, y.size * rows, x6, matrices, b, axes, (images, lines, outs), y)
    return out


def transposed(y: Any, w: Any, b: Any, window: Any, groups: int) -> Any:
    """The transpose of the convolution, as a map of its input."""
    axes = in_three_axes(window)
    shape = (len(y), groups * w.shape[1], *window.size)
    if b is None:
        out = np.zeros(shape, y.dtype)
    else:
        out = np.empty(shape, y.dtype)
        out[:] = b.reshape((-1,) + (1,) * len(window.size))
    y4, x6 = _flat(y, groups), _grouped(out, groups, window)
    matrices = np.ascontiguousarray(w).reshape(groups, len(w) // groups, -1)
    images, lines, _ = _tile(len(y), axes[4][0] * axes[4][1], axes[4][2], matrices.shape[2] * y.itemsize)
    pieces = -(-len(y) // images) * groups
    channels = _block(w.shape[1], pieces)
    items = pieces * -(-w.shape[1] // channels)
    _launch("transposed", items, y4.size * matrices.shape[2], y4, matrices, axes, (images, lines, channels), x6)
    return out


def weight(x: Any, y: Any, window: Any, groups: int) -> Any:
    """The correlation of x and y, summed over the batch."""
    axes = in_three_axes(window)
    channels, outs = x.shape[1] // groups, y.shape[1] // groups
    rows = channels * prod(window.kernel)
    images, lines, tiles = _tile(len(x), axes[4][0] * axes[4][1], axes[4][2], rows * x.itemsize)
    parts = max(1, min(tiles, 2 * PIECES, PARTIAL // (groups * outs * rows)))
    some = _block(channels, parts * groups)
    totals = np.empty((parts, groups, rows, outs), x.dtype)
    x6, y4 = _grouped(x, groups, window), _flat(y, groups)
    items = parts * groups * -(-channels // some)
    _launch("weight", items, y4.size * rows, x6, y4, axes, (images, lines, some), totals)
    total = totals[0] if parts == 1 else totals.sum(axis=0)
    return np.ascontiguousarray(total.swapaxes(1, 2)).reshape(y.shape[1], channels, *window.kernel)
