"""Layer normalization and outer products by compiled loops, where ``by_rows`` does not serve.

The references stand in ops/nn/normalization/fused.py and ops/linear/matmul.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import USEFUL, compiled, shortest
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


def outer(x: Any, y: Any) -> Any:
    """``out_bij = x_bi y_bj``."""
    out = np.empty((len(x), x.shape[1], y.shape[1]), np.float32)
    loop = compiled().outer
    in_shares(lambda i, j: loop(x[i:j], y[i:j], out[i:j]), len(out), 1 + USEFUL // out[0].size)
    return out
