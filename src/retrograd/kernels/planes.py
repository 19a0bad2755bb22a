"""Batch normalization of ``(N, C, *size)`` by compiled loops. The reference stands in ops/nn/normalization/fused.py."""

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
