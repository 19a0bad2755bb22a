"""Copies between images and columns in which the columns of eight images are interleaved (``convolution_loops``)."""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ..elements.basic_loops import like
from .convolution import LANES
from .lines import add_lanes, copy_lanes
from .three_axes import Window3

_part = njit(error_model="numpy", fastmath={"contract"})


@_part
def within(start: int, count: int, size: int) -> tuple[int, int]:
    """Return the range of numbers, among ``count`` positions from ``start`` on, that are in ``range(size)``."""
    first = min(max(-start, 0), count)
    return first, max(min(size - start, count), first)


@_part
def pad_lanes(x: np.ndarray, plane: int, window: Window3, image: np.ndarray) -> None:
    """``_pad`` for several images and the windows at a plane; ``image`` has interleaved columns."""
    _, stride, padding, dilation, _ = window
    left, right = within(-padding[2], image.shape[3] // LANES, x.shape[4])
    first, last = within(-padding[1], image.shape[2], x.shape[3])
    image[:] = 0
    for d in range(image.shape[1]):
        depth = plane * stride[0] - padding[0] + d * dilation[0]
        if 0 <= depth < x.shape[2]:
            for c in range(x.shape[1]):
                for h in range(first, last):
                    target = image[c, d, h]
                    for m in range(len(x)):
                        source = x[m, c, depth, h - padding[1]]
                        for j in range(left, right):
                            target[j * LANES + m] = source[j - padding[2]]


@_part
def unpad_lanes(image: np.ndarray, plane: int, window: Window3, x: np.ndarray) -> None:
    """The transpose of ``pad_lanes``: add the elements inside of x to x."""
    _, stride, padding, dilation, _ = window
    left, right = within(-padding[2], image.shape[3] // LANES, x.shape[4])
    first, last = within(-padding[1], image.shape[2], x.shape[3])
    for d in range(image.shape[1]):
        depth = plane * stride[0] - padding[0] + d * dilation[0]
        if 0 <= depth < x.shape[2]:
            for c in range(x.shape[1]):
                for h in range(first, last):
                    source = image[c, d, h]
                    for m in range(len(x)):
                        target = x[m, c, depth, h - padding[1]]
                        for j in range(left, right):
                            target[j - padding[2]] += source[j * LANES + m]


@_part
def unroll_lanes(image: np.ndarray, window: Window3, columns: np.ndarray, at: int) -> None:
    """``_unroll`` for the windows of a plane and an image filled by ``pad_lanes``."""
    kernel, stride, _, dilation, out = window
    number = 0
    for c in range(len(image)):
        for d in range(kernel[0]):
            for u in range(kernel[1]):
                for v in range(kernel[2]):
                    target, to = columns[number], at
                    for h in range(out[1]):
                        source, place = image[c, d, h * stride[1] + u * dilation[1]], v * dilation[2] * LANES
                        for _ in range(out[2]):
                            copy_lanes(target, to, source, place)
                            to += LANES
                            place += stride[2] * LANES
                    number += 1


@_part
def roll_lanes(columns: np.ndarray, at: int, window: Window3, image: np.ndarray) -> None:
    """The transpose of ``unroll_lanes``: add columns to the positions that they are read from."""
    kernel, stride, _, dilation, out = window
    number = 0
    for c in range(len(image)):
        for d in range(kernel[0]):
            for u in range(kernel[1]):
                for v in range(kernel[2]):
                    source, place = columns[number], at
                    for h in range(out[1]):
                        target, to = image[c, d, h * stride[1] + u * dilation[1]], v * dilation[2] * LANES
                        for _ in range(out[2]):
                            add_lanes(target, to, source, place)
                            place += LANES
                            to += stride[2] * LANES
                    number += 1


@_part
def gather_lanes(y: np.ndarray, group: int, images: tuple[int, int], matrix: np.ndarray) -> None:
    """Copy a group of several images at all columns to a matrix with interleaved columns."""
    n, end = images
    for first in range(n, end, LANES):
        at = (first - n) * y.shape[3]
        for o in range(len(matrix)):
            target = matrix[o, at : at + y.shape[3] * LANES]
            if end - first < LANES:
                target[:] = 0
            for m in range(min(LANES, end - first)):
                source = y[first + m, group, o]
                for j in range(len(source)):
                    target[j * LANES + m] = source[j]


@_part
def scatter_lanes(matrix: np.ndarray, y: np.ndarray, group: int, images: tuple[int, int], outs: int) -> None:
    """The transpose of ``gather_lanes``: write some channels."""
    n, end = images
    for first in range(n, end, LANES):
        at = (first - n) * y.shape[3]
        for o in range(len(matrix)):
            source = matrix[o, at : at + y.shape[3] * LANES]
            for m in range(min(LANES, end - first)):
                target = y[first + m, group, outs + o]
                for j in range(len(target)):
                    target[j] = like(source[j * LANES + m], target)
