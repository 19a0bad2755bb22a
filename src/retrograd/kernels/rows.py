"""Layer normalization by compiled loops: a row needs more than ``by_rows`` gives it.

The references stand in ops/nn/normalization/fused.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import compiled, shortest
from .threads import in_shares

BLOCK = 64  # rows whose contributions to the gradients of weight and bias are summed by one thread, in order


def normalize(x: Any, w: Any, b: Any, eps: float) -> tuple[Any, Any, Any]:
    """The result, and mean and 1 / sqrt(var + eps) of each row."""
    width = x.shape[-1]
    flat = x.reshape(-1, width)
    out = np.empty_like(flat)
    mean, rstd = np.empty((2, len(flat), 1), np.float32)
    w = np.ones(width, np.float32) if w is None else w
    b = np.zeros(width, np.float32) if b is None else b
    loop = compiled().layer_norm

    def work(i: int, j: int) -> None:
        loop(flat[i:j], w, b, float(eps), out[i:j], mean[i:j], rstd[i:j])

    in_shares(work, len(flat), shortest(x))
    shape = (*x.shape[:-1], 1)
    return out.reshape(x.shape), mean.reshape(shape), rstd.reshape(shape)


def normalize_backward(dy: Any, x: Any, w: Any, mean: Any, rstd: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, weight and bias."""
    width = x.shape[-1]
    flat_dy, flat = dy.reshape(-1, width), x.reshape(-1, width)
    flat_mean, flat_rstd = mean.reshape(-1, 1), rstd.reshape(-1, 1)
    dx = np.empty_like(flat)
    blocks = -(-len(flat) // BLOCK)
    sums = np.zeros((2, blocks, width))
    w = np.ones(width, np.float32) if w is None else w
    loop = compiled().layer_norm_backward

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            i, j = block * BLOCK, (block + 1) * BLOCK
            args = flat_dy[i:j], flat[i:j], w, flat_mean[i:j], flat_rstd[i:j]
            loop(*args, dx[i:j], sums[0, block], sums[1, block])

    in_shares(work, blocks, max(1, shortest(x) // BLOCK))
    dw, db = sums.sum(axis=1).astype(np.float32)
    return dx.reshape(x.shape), dw, db
