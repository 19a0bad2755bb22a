"""The compiled loops of recurrent layers: all steps of a block of rows of the batch, then all steps of the next block.

The notation is that of ops/nn/recurrent; bias vectors are passed even if a layer has none.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ...tiles.packed_products import multiply
from ..elements.basic_loops import _compiled, _loop, like, wide
from ..elements.scalar_functions import sigmoid, tanh
from .common import copy
from .recurrent import BLOCK

_APART = 16  # padding between the rows of a block, so that columns do not conflict in the cache
# The maximum number of rows processed together: the weights, which fill the cache, are read once for all these rows.
_MOST = 2 * BLOCK


@_compiled()
def _block(panels: np.ndarray, depth: int, like: np.ndarray) -> np.ndarray:
    """Allocate the result of a product of some rows and a packed matrix of this depth."""
    return np.empty((_MOST, panels.size // depth + _APART), like.dtype)


@_compiled()
def _multiply(a: np.ndarray, panels: np.ndarray, block: np.ndarray) -> None:
    """Compute ``a @ m`` for a packed m in the first rows of the block."""
    depth = a.shape[1]
    multiply(a, panels, depth, panels.size // depth, block, False)


# Loops run from 0 over slices, so that the compiler needs no check for negative indices.


@_compiled()
def _thirds(row: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return row[:size], row[size : 2 * size], row[2 * size : 3 * size]


@_loop
def _add_sigmoid(a: np.ndarray, more: np.ndarray, bias: np.ndarray) -> None:
    for j in range(a.size):
        a[j] = sigmoid(a[j] + more[j] + bias[j])


@_loop
def _add_tanh(a: np.ndarray, more: np.ndarray, bias: np.ndarray) -> None:
    for j in range(a.size):
        a[j] = tanh(a[j] + more[j] + bias[j])


@shared("contract")
def lstm(
    gates: np.ndarray,
    h: np.ndarray,
    across: np.ndarray,
    bias: np.ndarray,
    cells: np.ndarray,
    out: np.ndarray,
    states: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Run all steps. ``states`` is ``out``, but if it is bfloat16, ``states``, ``h`` and ``across`` are pairs."""
    steps, batch, size = out.shape
    rows = _block(across, h.shape[1], gates)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else states[t - 1, low:high]
            _multiply(before, across, rows)
            for r in range(low, high):
                a, more, c = gates[t, r], rows[r - low], cells[t + 1, r]
                _add_sigmoid(a[: 2 * size], more[: 2 * size], bias[: 2 * size])
                _add_tanh(a[2 * size : 3 * size], more[2 * size :], bias[2 * size :])
                _add_sigmoid(a[3 * size :], more[3 * size :], bias[3 * size :])
                i, f, g = _thirds(a, size)
                o, old, new = a[3 * size :], cells[t, r], out[t, r]
                for j in range(size):
                    c[j] = f[j] * old[j] + i[j] * g[j]
                for j in range(size):
                    new[j] = like(o[j] * tanh(c[j]), new)


@shared("contract")
def lstm_backward(
    dout: np.ndarray,
    dh: np.ndarray,
    dc: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    w_hh: np.ndarray,
    da: np.ndarray,
    slopes: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Run all steps of the backward. ``slopes`` is ``da``, but if it is bfloat16, ``slopes`` and ``w_hh`` are pairs."""
    steps, batch, size = dout.shape
    one = gates.dtype.type(1)
    rows, back = np.empty((_MOST, 4 * size + _APART), gates.dtype), _block(w_hh, slopes.shape[2], gates)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                i, f, g = _thirds(gates[t, r], size)
                di, df, dg = _thirds(rows[r - low], size)
                o, do = gates[t, r, 3 * size :], rows[r - low, 3 * size : 4 * size]
                old, c, along, hidden, cell = cells[t, r], cells[t + 1, r], dout[t, r], dh[r], dc[r]
                for j in range(size):
                    level = tanh(c[j])
                    d = (wide(along[j]) + hidden[j]) * o[j]
                    do[j] = d * level * (one - o[j])
                    cell[j] += d * (one - level * level)
                for j in range(size):
                    di[j] = cell[j] * g[j] * i[j] * (one - i[j])
                    dg[j] = cell[j] * i[j] * (one - g[j] * g[j])
                for j in range(size):
                    df[j] = cell[j] * old[j] * f[j] * (one - f[j])
                    cell[j] *= f[j]
                copy(rows[r - low], da[t, r])
            if da.itemsize == 2:
                _multiply(slopes[t, low:high], w_hh, back)
            else:
                _multiply(rows[: high - low, : 4 * size], w_hh, back)
            for r in range(low, high):
                copy(back[r - low], dh[r])


@shared("contract")
def gru(
    gates: np.ndarray,
    h: np.ndarray,
    across: np.ndarray,
    b_ih: np.ndarray,
    b_hh: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, size = out.shape
    one = out.dtype.type(1)
    rows = _block(across, size, out)
    bias = b_ih[: 2 * size] + b_hh[: 2 * size]
    b_in, b_hn = b_ih[2 * size :], b_hh[2 * size :]
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            _multiply(before, across, rows)
            for q in range(high - low):
                a, recurrent, new, old = gates[t, low + q], recurrent_n[t, low + q], out[t, low + q], before[q]
                _add_sigmoid(a[: 2 * size], rows[q], bias)
                r, z, n = _thirds(a, size)
                hidden = rows[q, 2 * size : 3 * size]
                for j in range(size):
                    recurrent[j] = hidden[j] + b_hn[j]
                for j in range(size):
                    n[j] = tanh(n[j] + b_in[j] + r[j] * recurrent[j])
                for j in range(size):
                    new[j] = (one - z[j]) * n[j] + z[j] * old[j]


@shared("contract")
def gru_backward(
    dout: np.ndarray,
    dh: np.ndarray,
    h: np.ndarray,
    gates: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    w_hh: np.ndarray,
    dx_gates: np.ndarray,
    dh_gates: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, size = out.shape
    one = out.dtype.type(1)
    rows, back = np.empty((_MOST, 3 * size + _APART), out.dtype), _block(w_hh, 3 * size, out)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            for q in range(high - low):
                r, z, n = _thirds(gates[t, low + q], size)
                dr, dz, dn = _thirds(rows[q], size)
                inward = dx_gates[t, low + q, 2 * size :]
                along, hidden, recurrent, old = dout[t, low + q], dh[low + q], recurrent_n[t, low + q], before[q]
                for j in range(size):
                    d = along[j] + hidden[j]
                    inward[j] = d * (one - z[j]) * (one - n[j] * n[j])
                    dz[j] = d * (old[j] - n[j]) * z[j] * (one - z[j])
                    hidden[j] = d * z[j]
                for j in range(size):
                    dr[j] = inward[j] * recurrent[j] * r[j] * (one - r[j])
                    dn[j] = inward[j] * r[j]
                copy(rows[q], dx_gates[t, low + q, : 2 * size])
                copy(rows[q], dh_gates[t, low + q])
            _multiply(rows[: high - low, : 3 * size], w_hh, back)
            for q in range(high - low):
                more, hidden = back[q], dh[low + q]
                for j in range(size):
                    hidden[j] += more[j]


@shared("contract")
def rnn(
    out: np.ndarray, h: np.ndarray, across: np.ndarray, bias: np.ndarray, relu: bool, start: int, stop: int
) -> None:
    steps, batch, size = out.shape
    zero = out.dtype.type(0)
    rows = _block(across, size, out)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            _multiply(before, across, rows)
            for r in range(low, high):
                new, more = out[t, r], rows[r - low]
                if relu:
                    for j in range(size):
                        a = new[j] + more[j] + bias[j]
                        new[j] = zero if a <= zero else a
                else:
                    _add_tanh(new, more, bias)


@shared("contract")
def rnn_backward(
    dout: np.ndarray,
    dh: np.ndarray,
    out: np.ndarray,
    w_hh: np.ndarray,
    relu: bool,
    da: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, size = out.shape
    one, zero = out.dtype.type(1), out.dtype.type(0)
    rows, back = np.empty((_MOST, size + _APART), out.dtype), _block(w_hh, size, out)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                level, along, hidden, new = out[t, r], dout[t, r], dh[r], rows[r - low]
                for j in range(size):
                    slope = (one if level[j] > zero else zero) if relu else one - level[j] * level[j]
                    new[j] = slope * (along[j] + hidden[j])
                copy(new, da[t, r])
            _multiply(rows[: high - low, :size], w_hh, back)
            for r in range(low, high):
                copy(back[r - low], dh[r])
