"""The compiled loops of normalization over rows, groups of channels and the batch, in single precision.

Sums use double precision, so that squares do not overflow. Differences may overflow in single precision if
1 / standard deviation is below ``_SMALL``, and are then computed in double precision.
"""

from __future__ import annotations

import numpy as np

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _dot, _dot_centred, _sum, _sum_of_squares, like, wide
from ..images.pooling_loops import max_in_pairs, place_in_pairs
from .norms import BLOCK

f = np.float32
_SMALL = 1e-30
TOGETHER = 8  # rows whose contributions to the gradients of weight and bias are summed in single precision


@njit(inline="always", error_model="numpy")
def _rstd(squares: float, count: int, eps: float) -> float:
    """1 / standard deviation, from the sum of squared deviations."""
    return 1.0 / np.sqrt(squares / count + eps)


@njit(inline="always")
def _standardize(x: np.ndarray, m: int, r: float, out: np.ndarray) -> None:
    """``(x - m) * r`` for a mean m and r = 1 / standard deviation."""
    if r > _SMALL:
        m32, r32 = f(m), f(r)
        for j in range(len(x)):
            out[j] = (x[j] - m32) * r32
    else:
        for j in range(len(x)):
            out[j] = (x[j] - m) * r


@njit(error_model="numpy", fastmath={"contract"})
def _normalized(z: np.ndarray, mean: float, scale: float, b: float, y: np.ndarray) -> None:
    m, s, shift = f(mean), f(scale), f(b)
    if abs(scale) > _SMALL:
        for j in range(len(y)):
            y[j] = like((wide(z[j]) - m) * s + shift, y)
    else:
        for j in range(len(y)):
            y[j] = like(f((wide(z[j]) - mean) * scale + shift), y)


# Rows (R, W), with a weight for each column

# Functions of one row, which write only to rows that no other argument overlaps.
_row = njit(fastmath={"contract"}, error_model="numpy", noalias=True)
_row_sums = njit(fastmath={"contract", "reassoc"}, error_model="numpy", noalias=True)


@_row
def _add(x: np.ndarray, plus: np.ndarray) -> None:
    for j in range(x.size):
        x[j] += plus[j]


@_row_sums
def _moments(x: np.ndarray, origin: float) -> tuple[float, float]:
    """The sums of ``x - origin`` and of its square."""
    total, squares = 0.0, 0.0
    for j in range(x.size):
        away = x[j] - origin
        total += away
        squares += away * away
    return total, squares


@_row
def _scale_and_shift(x: np.ndarray, m: float, r: float, w: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    if r > _SMALL:
        m32, r32 = f(m), f(r)
        for j in range(x.size):
            out[j] = (x[j] - m32) * r32 * w[j] + b[j]
    else:
        for j in range(x.size):
            out[j] = f((x[j] - m) * r) * w[j] + b[j]


@shared("contract")
def layer_norm(
    x: np.ndarray,
    plus: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    eps: float,
    centred: bool,
    out: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Normalize rows; ``plus``, if it has rows, is added to x first.

    The variance is a difference, ``mean((x - x[0])^2) - (mean - x[0])^2``. The subtrahend is at most x.size times the
    variance, so double precision suffices.
    """
    for row in range(start, stop):
        z = x[row]
        if len(plus) > 0:
            _add(z, plus[row])
        origin = np.float64(z[0]) if centred else 0.0
        total, squares = _moments(z, origin)
        away = total / z.size if centred else 0.0
        m, r = origin + away, 1.0 / np.sqrt(squares / z.size - away * away + eps)
        mean[row, 0] = m
        rstd[row, 0] = r
        _scale_and_shift(z, m, r, w, b, out[row])


@_row_sums
def _sums_backward(g: np.ndarray, x: np.ndarray, w: np.ndarray, m: float, r: float) -> tuple[float, float]:
    """The sums of ``g w`` and of ``g w xhat``."""
    total, along = 0.0, 0.0
    for j in range(x.size):
        u = g[j] * w[j]
        total += u
        along += u * ((x[j] - m) * r)
    return total, along


@njit(fastmath=False, error_model="numpy")
def _plus(x: float, y: float) -> float:
    return x + y  # without contraction, so that the result has the bits of a separate addition


@_row
def _row_backward(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, m: float, r: float, level: float, along: float, added: bool,
    dx: np.ndarray, dw: np.ndarray, db: np.ndarray,
) -> None:  # fmt: skip
    """Write dx, or add to it, and add the row's contribution to dw and db."""
    for j in range(x.size):
        xhat = (x[j] - m) * r
        d = f(r * (g[j] * w[j] - level - xhat * along))
        dx[j] = _plus(dx[j], d) if added else d
        dw[j] += g[j] * xhat
    for j in range(db.size):
        db[j] += g[j]


@_row
def _process_row(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, m: float, r: float, centred: bool, added: bool, dx: np.ndarray,
    dw: np.ndarray, db: np.ndarray,
) -> None:  # fmt: skip
    total, dot = _sums_backward(g, x, w, m, r)
    level = f(total / x.size) if centred else f(0.0)
    _row_backward(g, x, w, m, r, level, f(dot / x.size), added, dx, dw, db)


@_row
def _flush(part: np.ndarray, total: np.ndarray) -> None:
    for j in range(total.size):
        total[j] += part[j]
        part[j] = 0


@shared("contract")
def layer_norm_backward(
    dy: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    b: np.ndarray,
    centred: bool,
    added: bool,
    dx: np.ndarray,
    dw: np.ndarray,
    db: np.ndarray,
    y: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Process blocks of rows; fill each block's row of dw and db in double precision.

    With ``added`` the gradient of x is added to dx. Rows of db may be empty; y, if it has rows, is the result of
    ``layer_norm``.
    """
    width = x.shape[1]
    parts = np.zeros((2, width), np.float32)
    dw_part, db_part = parts[0], parts[1][: db.shape[1]]
    for block in range(start, stop):
        dw[block] = 0
        db[block] = 0
        last = min((block + 1) * BLOCK, len(x))
        for row in range(block * BLOCK, last):
            g, z, m, r = dy[row], x[row], mean[row, 0], rstd[row, 0]
            if r > _SMALL:
                _process_row(g, z, w, m, r, centred, added, dx[row], dw_part, db_part)
            else:
                wide_m, wide_r = np.float64(m), np.float64(r)
                _process_row(g, z, w, wide_m, wide_r, centred, added, dx[row], dw_part, db_part)
            if len(y) > 0:
                _scale_and_shift(z, np.float64(m), np.float64(r), w, b, y[row])
            if row % TOGETHER == TOGETHER - 1 or row == last - 1:
                _flush(dw_part, dw[block])
                _flush(db_part, db[block])


@shared("contract")
def layer_norm_second(
    gx: np.ndarray,
    gw: np.ndarray,
    gb: np.ndarray,
    dy: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    centred: bool,
    by_dy: np.ndarray,
    by_x: np.ndarray,
    by_w: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """The derivative of ``layer_norm_backward`` for cotangents of dx, dw and db; by_w has one row per block, as dw."""
    width = x.shape[1]
    xhat, u, h = np.empty((3, width), np.float32)
    for block in range(start, stop):
        by_w_block = by_w[block]
        by_w_block[:] = 0
        for row in range(block * BLOCK, min((block + 1) * BLOCK, len(x))):
            g, gx_row, r = dy[row], gx[row], f(rstd[row, 0])
            _standardize(x[row], np.float64(mean[row, 0]), np.float64(rstd[row, 0]), xhat)
            for j in range(width):
                u[j] = g[j] * w[j]
            along, gx_along = f(_dot(u, xhat) / width), f(_dot(gx_row, xhat) / width)
            level = f(_sum(u) / width) if centred else f(0.0)
            gx_level = f(_sum(gx_row) / width) if centred else f(0.0)
            y = by_dy[row]
            for j in range(width):
                by_u = r * (gx_row[j] - gx_level - xhat[j] * gx_along)
                y[j] = by_u * w[j] + gw[j] * xhat[j] + gb[j]
                by_w_block[j] += by_u * g[j]
                h[j] = gw[j] * g[j] - r * (gx_row[j] * along + u[j] * gx_along)
                u[j] = u[j] - level - xhat[j] * along
            slope = f(_dot(h, xhat) / width) + r * f(_dot(gx_row, u) / width)
            h_level = f(_sum(h) / width) if centred else f(0.0)
            d = by_x[row]
            for j in range(width):
                d[j] = r * (h[j] - h_level - xhat[j] * slope)


# Groups of channels (N * G, C, M), with a weight for each channel (G, C)


@shared("contract")
def group_norm(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    eps: float,
    out: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    start: int,
    stop: int,
) -> None:
    count = x.shape[1] * x.shape[2]
    for row in range(start, stop):
        flat = x[row].reshape(count)
        m = _sum(flat) / count
        r = _rstd(_sum_of_squares(flat, m), count, eps)
        mean[row] = m
        rstd[row] = r
        weights, biases = w[row % len(w)], b[row % len(w)]
        for c in range(x.shape[1]):
            _normalized(x[row, c], m, r * weights[c], biases[c], out[row, c])


@shared("contract")
def group_norm_backward(
    dy: np.ndarray,
    x: np.ndarray,
    w: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    dx: np.ndarray,
    dw: np.ndarray,
    db: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Process rows; fill each row's entries of dw and db ``(N * G, C)`` in double precision."""
    channels, count = x.shape[1], x.shape[1] * x.shape[2]
    for row in range(start, stop):
        weights, m, r = w[row % len(w)], mean[row], rstd[row]
        level, along = 0.0, 0.0
        for c in range(channels):
            db[row, c] = _sum(dy[row, c])
            dw[row, c] = _dot_centred(dy[row, c], 0.0, x[row, c], np.float64(m)) * r
            level += weights[c] * db[row, c]
            along += weights[c] * dw[row, c]
        level32, slope = f(level / count), along / count * r
        slope32 = f(slope)
        for c in range(channels):
            d, g, z, factor = dx[row, c], dy[row, c], x[row, c], weights[c]
            if r > _SMALL:
                for j in range(len(d)):
                    d[j] = r * (g[j] * factor - level32 - (z[j] - m) * slope32)
            else:
                for j in range(len(d)):
                    d[j] = f(r * (g[j] * factor - level32 - (np.float64(z[j]) - m) * slope))


# Channels (N, C, M), of float32 or of bfloat16, which is given as uint16


@shared("contract")
def channel_sums(x: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    for c in range(start, stop):
        total = 0.0
        for n in range(len(x)):
            total += _sum(x[n, c])
        out[c] = total


@shared("contract")
def channel_moments(
    x: np.ndarray,
    mean: np.ndarray,
    squares: np.ndarray,
    running_mean: np.ndarray,
    running_var: np.ndarray,
    momentum: float,
    start: int,
    stop: int,
) -> None:
    """Compute moments per channel and update running statistics, if given, with the unbiased variance."""
    count = x.shape[0] * x.shape[2]
    if len(running_mean) > 0:  # separate operations, which round like the operators
        for c in range(start, stop):
            running_mean[c] *= f(1.0 - momentum)
            running_var[c] *= f(1.0 - momentum)
    for c in range(start, stop):
        total = 0.0
        for n in range(len(x)):
            total += _sum(x[n, c])
        m = total / count
        total = 0.0
        for n in range(len(x)):
            total += _sum_of_squares(x[n, c], m)
        mean[c] = m
        squares[c] = total
        if len(running_mean) > 0:
            running_mean[c] += f(momentum * m)
            running_var[c] += f(momentum * (total / (count - 1)))


@shared("contract")
def channel_norm(
    x: np.ndarray,
    moments: np.ndarray,
    squares: np.ndarray,
    eps: float,
    w: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop):
        r = _rstd(squares[c], x.shape[0] * x.shape[2], eps)
        mean[c], rstd[c] = moments[c], r
        for n in range(len(x)):
            _normalized(x[n, c], moments[c], r * w[c], b[c], out[n, c])


@shared("contract")
def channel_norm_max(
    x: np.ndarray,
    moments: np.ndarray,
    squares: np.ndarray,
    eps: float,
    w: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
    winners: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """``channel_norm``, of which only the maxima of adjacent windows of 2 x 2 are written."""
    plane = np.empty(x.shape[2], x.dtype)
    lines = plane.reshape(2 * out.shape[2], 2 * out.shape[3])
    for c in range(start, stop):
        r = _rstd(squares[c], x.shape[0] * x.shape[2], eps)
        mean[c], rstd[c] = moments[c], r
        for n in range(len(x)):
            _normalized(x[n, c], moments[c], r * w[c], b[c], plane)
            max_in_pairs(lines, out[n, c], winners[n, c])


@njit(error_model="numpy", fastmath={"contract"})
def _channel_backward(
    dy: np.ndarray, at: int, x: np.ndarray, c: int, m: float, r: float, w: float, dx: np.ndarray
) -> tuple[float, float]:
    """Compute dx for a channel, from channel ``at`` of dy; return its elements of dw and db."""
    count = x.shape[0] * x.shape[2]
    of_dy = 0.0
    for n in range(len(x)):
        of_dy += _sum(dy[n, at])
    of_products = 0.0
    for n in range(len(x)):  # sum of deviations, which corrects the rounding error of m
        of_products += _dot_centred(dy[n, at], of_dy / count, x[n, c], np.float64(m))
    dw = of_products * r
    factor, level, along = f(w * r), f(of_dy / count), f(dw / count * r)
    slope = dw / count * r
    for n in range(len(x)):
        d, g, z = dx[n, c], dy[n, at], x[n, c]
        if r > _SMALL:
            for j in range(len(d)):
                d[j] = like(factor * (wide(g[j]) - level - (wide(z[j]) - m) * along), d)
        else:
            for j in range(len(d)):
                d[j] = like(f(factor * (wide(g[j]) - level - (np.float64(wide(z[j])) - m) * slope)), d)
    return dw, of_dy


@shared("contract")
def channel_norm_backward(
    dy: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    w: np.ndarray,
    dx: np.ndarray,
    dw: np.ndarray,
    db: np.ndarray,
    start: int,
    stop: int,
) -> None:
    for c in range(start, stop):
        dw[c], db[c] = _channel_backward(dy, c, x, c, mean[c], rstd[c], w[c], dx)


@shared("contract")
def channel_norm_max_backward(
    x: np.ndarray,
    g: np.ndarray,
    winners: np.ndarray,
    mean: np.ndarray,
    rstd: np.ndarray,
    w: np.ndarray,
    dx: np.ndarray,
    dw: np.ndarray,
    db: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """``channel_norm_backward`` for the maxima of ``channel_norm_max`` with the cotangent g."""
    dy = np.empty((len(x), 1, x.shape[2]), x.dtype)
    lines = dy.reshape(len(x), 2 * g.shape[2], 2 * g.shape[3])
    for c in range(start, stop):
        for n in range(len(x)):
            place_in_pairs(g[n, c], winners[n, c], lines[n])
        dw[c], db[c] = _channel_backward(dy, 0, x, c, mean[c], rstd[c], w[c], dx)
