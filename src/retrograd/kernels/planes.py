"""Batch normalization and max pooling of ``(N, C, *size)`` by compiled loops.

The references stand in ops/nn/normalization/fused.py and ops/nn/pooling/maximum.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from . import USEFUL, compiled
from .threads import in_shares

SHORTEST = 16  # elements of one channel of one image from which the loops, which go along them, are fast


def _planes(x: Any) -> Any:
    return x.reshape(*x.shape[:2], prod(x.shape[2:]))


def _over_channels(work: Any, x: Any) -> None:
    in_shares(work, x.shape[1], max(1, USEFUL * x.shape[1] // x.size))


def moments(x: Any) -> tuple[Any, Any]:
    """Per channel the mean and the sum of squared deviations from it, in double precision."""
    flat = _planes(x)
    mean, squares = np.empty((2, x.shape[1]))
    loop = compiled().channel_moments
    _over_channels(lambda first, last: loop(flat, first, last, mean, squares), x)
    return mean, squares


def normalize(x: Any, w: Any, b: Any, eps: float) -> tuple[Any, Any, Any]:
    """The result, and mean and 1 / sqrt(var + eps) of each channel."""
    channels = x.shape[1]
    mean, squares = moments(x)
    rstd = 1 / np.sqrt(squares * (channels / x.size) + eps)
    flat, out = _planes(x), np.empty_like(x)
    flat_out = _planes(out)
    scale = rstd if w is None else rstd * w
    b = np.zeros(channels, np.float32) if b is None else b
    loop = compiled().channel_norm
    _over_channels(lambda first, last: loop(flat, first, last, mean, scale, b, flat_out), x)
    shape = (1, channels) + (1,) * (x.ndim - 2)
    return out, mean.astype(np.float32).reshape(shape), rstd.astype(np.float32).reshape(shape)


def normalize_backward(dy: Any, x: Any, w: Any, mean: Any, rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias."""
    channels = x.shape[1]
    flat_dy, flat, dx = _planes(dy), _planes(x), np.empty_like(x)
    flat_dx = _planes(dx)
    dw, db = np.empty((2, channels))
    w = np.ones(channels, np.float32) if w is None else w
    loop = compiled().channel_norm_backward
    args = flat_dy, flat, mean.reshape(-1), rstd.reshape(-1), w, flat_dx, dw, db
    _over_channels(lambda first, last: loop(first, last, *args), x)
    return dx, dw.astype(np.float32), db.astype(np.float32)


def _by_two(window: Any) -> bool:
    """Whether the windows are 2 by 2, side by side, and each lies inside."""
    return (
        window.kernel == window.stride == (2, 2)
        and window.padding == (0, 0)
        and window.dilation == (1, 1)
        and all(2 * out <= size for out, size in zip(window.out, window.size, strict=True))
    )


def max_pool(x: Any, window: Any) -> tuple[Any, Any]:
    """The maximum of each window of two axes, and the number of its element in the kernel."""
    n, channels = x.shape[:2]
    flat = x.reshape(n * channels, *window.size)
    out = np.empty((n * channels, *window.out), np.float32)
    winners = np.empty(out.shape, np.uint8)
    places = np.array([window.kernel, window.stride, window.padding, window.dilation])
    loop = compiled().max_pool_by_two if _by_two(window) else compiled().max_pool
    in_shares(lambda i, j: loop(flat[i:j], places, out[i:j], winners[i:j]), len(flat), max(1, USEFUL // flat[0].size))
    shape = (n, channels, *window.out)
    return out.reshape(shape), winners.reshape(shape)


def max_pool_backward(g: Any, winners: Any, window: Any) -> Any:
    """Each window's element added at the place of its winner."""
    n, channels = g.shape[:2]
    flat = g.reshape(n * channels, *window.out)
    winners = np.ascontiguousarray(winners).reshape(flat.shape)
    dx = np.zeros((n * channels, *window.size), np.float32)
    places = np.array([window.kernel, window.stride, window.padding, window.dilation])
    loop = compiled().max_pool_backward
    in_shares(lambda i, j: loop(flat[i:j], winners[i:j], places, dx[i:j]), len(flat), max(1, USEFUL // dx[0].size))
    return dx.reshape(n, channels, *window.size)
