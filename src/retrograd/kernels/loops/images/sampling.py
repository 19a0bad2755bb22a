"""Sampling at the points of a grid, its transpose and its derivative with respect to the points, by compiled loops.

The references are in ops/nn/spatial/grid_primitives.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import SEVERAL, WORTH_SHARING, compiled, loop
from ...runtime.threads import launch

POINTS = 256  # number of points in a block
PIECES = 16  # minimum number of work items of the transpose, unless there are fewer channels
MODES = {"nearest": 0, "bilinear": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def takes(x: Array, grid: Array, elements: int) -> bool:
    """Return whether to use the loops on these arrays, for this number of elements of the result."""
    return (
        type(x) is np.ndarray
        and x.dtype.char in "fd"
        and elements >= SEVERAL
        and type(grid) is np.ndarray
        and grid.dtype == x.dtype
        and compiled() is not None
    )


def _planes(array: Array) -> Any:
    """Return the array in the shape ``(N, C, L)``."""
    shape = array.shape
    return np.ascontiguousarray(array).reshape(shape[0], shape[1], prod(shape[2:]))


def _points(grid: Any) -> Any:
    """Return the grid in the shape ``(N, P, axes)``."""
    shape = grid.shape
    return np.ascontiguousarray(grid).reshape(shape[0], prod(shape[1:-1]), shape[-1])


def _run(name: str, items: int, work: int, arrays: tuple[Array, ...], way: Any, *more: object) -> None:
    """Launch a loop over items with ``work`` operations each."""
    how = way.size, MODES[way.mode], PADDINGS[way.padding], way.align
    launch(loop("loops.images.sampling_loops", name), items, max(1, WORTH_SHARING // work), *arrays, *how, *more)


def sample(x: Array, grid: Array, way: object) -> Array:
    """Return the input at the points."""
    out = np.empty((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    points = _points(grid)
    items = len(x) * -(-points.shape[1] // POINTS)
    _run("sample", items, POINTS * x.shape[1], (_planes(x), points), way, _planes(out))
    return out


def transpose(y: Array, grid: object, way: Any) -> Any:
    """Return the gradient of the input, to which each point adds at the positions that it reads."""
    n, channels = y.shape[:2]
    out = np.empty((n, channels, *way.size), y.dtype)
    some = -(-channels // -(-PIECES // n))
    planes = _planes(y)
    items = n * -(-channels // some)
    _run("sample_transpose", items, some * planes.shape[2], (planes, _points(grid)), way, some, _planes(out))
    return out


def slope(y: Array, x: Array, grid: Any, way: object) -> Any:
    """Return the gradient of the grid for the cotangent y of the result."""
    out = np.empty(grid.shape, x.dtype)
    points = _points(grid)
    items = len(x) * -(-points.shape[1] // POINTS)
    _run("sample_slope", items, POINTS * x.shape[1], (_planes(y), _planes(x), points), way, _points(out))
    return out
